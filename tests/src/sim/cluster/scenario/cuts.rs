//! Machines that do not hear each other.

use super::{any_leader, down, load, vcs};
use crate::sim::cluster::play::Play;

pub(super) fn halves(play: &mut Play) {
    load(play, 40_000);
    play.world.run_for(5_000);
    let nodes = play.world.nodes();
    let order = play.world.random.sample(nodes, nodes);
    for &node in &order[..nodes / 2] {
        play.world.engine.network.cuts.side(node, 2);
    }
    play.world.run_for(90_000);
}

pub(super) fn leader_cut(play: &mut Play) {
    load(play, 40_000);
    play.world.run_for(5_000);
    let leader = any_leader(play);
    play.world.engine.network.cuts.side(leader, 2);
    play.world.run_for(60_000);
}

pub(super) fn leader_and_gang(play: &mut Play) {
    let group = vcs(play)[0];
    let tasks = 2.min(play.world.nodes() as u64 / 2);
    play.gang(group, (tasks, 4), 30_000);
    play.world.run_for(3_000);
    load(play, 20_000);
    let leader = play.world.protocol.leader(group).unwrap_or_default();
    let gang = play.world.protocol.nodes_in_use(group);
    for node in gang.into_iter().chain([leader]) {
        play.world.engine.network.cuts.side(node, 2);
    }
    play.world.run_for(90_000);
}

pub(super) fn deaf_leader(play: &mut Play) {
    load(play, 30_000);
    play.world.run_for(5_000);
    let leader = any_leader(play);
    play.world.engine.network.cuts.deafen(leader);
    play.world.run_for(45_000);
}

pub(super) fn bridge(play: &mut Play) {
    load(play, 30_000);
    play.world.run_for(5_000);
    let nodes = play.world.nodes();
    let order = play.world.random.sample(nodes, nodes);
    for &node in &order[..nodes / 2] {
        play.world.engine.network.cuts.side(node, 2);
    }
    play.world.engine.network.cuts.side(order[0], 3);
    play.world.run_for(45_000);
}

pub(super) fn flapping(play: &mut Play) {
    load(play, 60_000);
    for _ in 0..15 {
        let leader = any_leader(play);
        play.world.engine.network.cuts.side(leader, 2);
        let ms = play.world.random.below(5_000);
        play.world.run_for(ms);
        play.world.engine.network.heal();
        let ms = play.world.random.below(5_000);
        play.world.run_for(ms);
    }
}

pub(super) fn dead_and_cut(play: &mut Play) {
    let group = vcs(play)[0];
    play.gang(group, (2, 2), 300_000);
    load(play, 20_000);
    play.world.run_for(4_000);
    if let Some(&node) = play.world.protocol.nodes_in_use(group).first() {
        play.world.engine.network.cuts.side(node, 2);
        play.world.run_for(1_000);
        down(&mut play.world, node);
    }
    play.world.run_for(60_000);
}

pub(super) fn long_cut(play: &mut Play) {
    let group = vcs(play)[0];
    play.gang(group, (2, 2), 120_000);
    load(play, 20_000);
    play.world.run_for(4_000);
    if let Some(&node) = play.world.protocol.nodes_in_use(group).first() {
        play.world.engine.network.cuts.side(node, 2);
    }
    play.world.run_for(100_000);
    play.world.engine.network.heal();
    play.world.run_for(20_000);
    unconfirmed(play);
}

/// A virtual cluster's leader hears neither of a machine of its gang nor of the leader of the cluster, who
/// hear each other: nobody confirms that the machine is silent.
fn unconfirmed(play: &mut Play) {
    let group = vcs(play)[0];
    play.gang(group, (2, 2), 120_000);
    play.world.run_for(4_000);
    let affairs = play.world.protocol.leader(play.world.protocol.group);
    let leader = play.world.protocol.leader(group);
    let (Some(leader), Some(affairs)) = (leader, affairs) else {
        return;
    };
    let gang = play.world.protocol.nodes_in_use(group);
    for other in gang.into_iter().take(2).chain([affairs]) {
        if other != leader {
            play.world.engine.network.cuts.cut(leader, other);
            play.world.engine.network.cuts.cut(other, leader);
        }
    }
    play.world.run_for(100_000);
}
