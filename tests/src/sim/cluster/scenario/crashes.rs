//! Agents that die, alone or together, and come back.

use super::{any, down, gangs, load, steadily, up, vcs};
use crate::sim::cluster::account::EntryKind;
use crate::sim::cluster::play::{ClusterPlay, LED_MS};
use crate::sim::mesh::SimAuthority;

pub(super) fn crash(play: &mut ClusterPlay) {
    load(play, 20_000);
    let node = any(play);
    play.world.run_for(5_000);
    down(&mut play.world, node);
    play.world.run_for(60_000);
}

pub(super) fn rack(play: &mut ClusterPlay) {
    load(play, 20_000);
    play.world.run_for(5_000);
    let nodes = play.world.nodes();
    let rack = SimAuthority::rack(any(play), nodes);
    for node in (0..nodes).filter(|&node| SimAuthority::rack(node, nodes) == rack) {
        down(&mut play.world, node);
    }
    play.world.run_for(30_000);
}

pub(super) fn restarts(play: &mut ClusterPlay) {
    load(play, 30_000);
    play.world.run_for(5_000);
    let nodes = play.world.nodes();
    for node in play.world.random.sample(nodes, nodes) {
        down(&mut play.world, node);
        up(&mut play.world, node);
        let ms = play.world.random.below(10_000 / nodes as u64 + 1);
        play.world.run_for(ms);
    }
}

pub(super) fn cold_start(play: &mut ClusterPlay) {
    load(play, 5_000);
    play.world.run_for(6_000);
    // Much of what is said in the end is on no disk yet.
    for machine in &mut play.world.protocol.machines {
        machine.slow_us = 300_000;
    }
    play.submit(20, 1_000);
    play.world.run_for(1_500);
    for machine in &mut play.world.protocol.machines {
        machine.slow_us = 0;
    }
    let now = play.world.now();
    for node in 0..play.world.nodes() {
        down(&mut play.world, node);
        play.world.protocol.power_off(now, node);
    }
    play.world.run_for(20_000);
    play.world.start_all();
    play.led_within(LED_MS);
}

pub(super) fn between_steps(play: &mut ClusterPlay) {
    for kind in [
        EntryKind::Accept,
        EntryKind::Placed,
        EntryKind::Go,
        EntryKind::Ended,
        EntryKind::Stopping,
    ] {
        play.world.protocol.trap = Some(kind);
        load(play, 3_000);
        play.world.run_for(8_000);
    }
    play.world.protocol.trap = None;
}

pub(super) fn half_done(play: &mut ClusterPlay) {
    play.world.protocol.dies_in = 60;
    load(play, 30_000);
    play.world.run_for(40_000);
}

pub(super) fn gang_ends_alone(play: &mut ClusterPlay) {
    let group = vcs(play)[0];
    play.gang(group, (2, 2), 6_000);
    play.world.run_for(4_000);
    for node in play.world.protocol.nodes_in_use(group) {
        down(&mut play.world, node);
    }
    play.world.run_for(8_000);
}

/// All agents are restarted one after the other, as for another release, while jobs run and come; half way
/// it is given up, and those that were restarted are once more.
pub(super) fn rolling(play: &mut ClusterPlay) {
    let nodes = play.world.nodes();
    gangs(play, 60_000 + 5_000 * nodes as u64);
    let order = play.world.random.sample(nodes, nodes);
    let half = &order[..nodes.div_ceil(2)];
    steadily(play, |play| {
        load(play, 30_000);
        half.iter().for_each(|&node| renew(play, node));
        half.iter().rev().for_each(|&node| renew(play, node));
        load(play, 30_000);
        order.iter().for_each(|&node| renew(play, node));
    });
}

/// An agent is restarted; the next one is not before all is led.
fn renew(play: &mut ClusterPlay, node: usize) {
    down(&mut play.world, node);
    let ms = 100 + play.world.random.below(900);
    play.world.run_for(ms);
    up(&mut play.world, node);
    play.led_within(LED_MS);
}
