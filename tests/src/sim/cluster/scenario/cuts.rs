//! Machines that do not hear each other.

use muster_consensus::GroupId;

use super::{any_leader, are_placed, down, gangs, load, up, vcs};
use crate::sim::cluster::play::ClusterPlay;

/// Where some do not hear each other jobs are placed all the same, within this, ms: a machine that cannot ask
/// whoever leads has its users wait for ten seconds.
const PLACED_MS: u64 = 60_000;

pub(super) fn halves(play: &mut ClusterPlay) {
    load(play, 40_000);
    play.world.run_for(5_000);
    let nodes = play.world.nodes();
    let order = play.world.random.sample(nodes, nodes);
    for &node in &order[..nodes / 2] {
        play.world.engine.network.cuts.side(node, 2);
    }
    play.world.run_for(90_000);
}

pub(super) fn leader_cut(play: &mut ClusterPlay) {
    load(play, 40_000);
    play.world.run_for(5_000);
    let leader = any_leader(play);
    play.world.engine.network.cuts.side(leader, 2);
    play.world.run_for(60_000);
}

pub(super) fn leader_and_gang(play: &mut ClusterPlay) {
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

pub(super) fn deaf_leader(play: &mut ClusterPlay) {
    load(play, 30_000);
    play.world.run_for(5_000);
    let leader = any_leader(play);
    play.world.engine.network.cuts.deafen(leader);
    play.world.run_for(45_000);
}

pub(super) fn bridge(play: &mut ClusterPlay) {
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

pub(super) fn flapping(play: &mut ClusterPlay) {
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

pub(super) fn dead_and_cut(play: &mut ClusterPlay) {
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

pub(super) fn long_cut(play: &mut ClusterPlay) {
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
fn unconfirmed(play: &mut ClusterPlay) {
    let group = vcs(play)[0];
    play.gang(group, (2, 2), 120_000);
    play.world.run_for(4_000);
    let cluster_service = play.world.protocol.leader(play.world.protocol.group);
    let leader = play.world.protocol.leader(group);
    let (Some(leader), Some(cluster_service)) = (leader, cluster_service) else {
        return;
    };
    let gang = play.world.protocol.nodes_in_use(group);
    for other in gang.into_iter().take(2).chain([cluster_service]) {
        if other != leader {
            part(play, leader, other);
        }
    }
    play.world.run_for(100_000);
}

/// Machines take no new connections: they hear those still that they have talked with, but nobody else, nor
/// anybody whose agent has started anew.
pub(super) fn no_strangers(play: &mut ClusterPlay) {
    gangs(play, 60_000);
    load(play, 50_000);
    play.world.run_for(10_000);
    let nodes = play.world.nodes();
    let full = play.world.random.sample(nodes, nodes.div_ceil(5));
    let can_hear = heard_by_most(play, &full);
    for &one in &full {
        let strangers: Vec<_> = (0..nodes)
            .filter(|&it| !are_connected(play, one, it))
            .collect();
        strangers.iter().for_each(|&other| part(play, one, other));
    }
    for _ in 0..4 {
        play.world.run_for(5_000);
        let leader = any_leader(play);
        down(&mut play.world, leader);
        for &one in full.iter().filter(|&&one| one != leader) {
            part(play, one, leader);
        }
        play.world.run_for(1_000);
        up(&mut play.world, leader);
    }
    // A leader that hears most voters may be kept from hearing who binds it to cells.
    let is_able = |group: &GroupId| {
        let leader = play.world.protocol.leader(*group);
        can_hear.contains(group) && leader.is_none_or(|leader| !full.contains(&leader))
    };
    if is_able(&play.world.protocol.group) {
        let able: Vec<_> = vcs(play).into_iter().filter(is_able).collect();
        let gateway = (0..nodes).find(|node| !full.contains(node));
        let urgent = |group| play.urgent(gateway.unwrap_or(0), group, 2_000);
        let jobs: Vec<_> = able.into_iter().map(urgent).collect();
        are_placed(play, &jobs, PLACED_MS);
    }
    play.world.run_for(30_000);
}

/// The groups most of whose voters are not among those that take no new connections.
fn heard_by_most(play: &ClusterPlay, full: &[usize]) -> Vec<GroupId> {
    let mut groups = play.world.protocol.groups();
    groups.retain(|group| {
        let voters = play.world.protocol.voters(*group);
        let hear = voters.iter().filter(|it| !full.contains(it));
        2 * hear.count() > voters.len()
    });
    groups
}

fn are_connected(play: &ClusterPlay, one: usize, other: usize) -> bool {
    let is_link = |from: usize, to: usize| {
        let core = play.world.protocol.mesh.core(from);
        core.is_some_and(|core| core.links().any(|link| link.index() == to))
    };
    play.world.engine.talk(one, other) || is_link(one, other) || is_link(other, one)
}

/// Two machines hear nothing of each other.
fn part(play: &mut ClusterPlay, one: usize, other: usize) {
    play.world.engine.network.cuts.cut(one, other);
    play.world.engine.network.cuts.cut(other, one);
}
