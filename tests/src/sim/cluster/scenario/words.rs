//! What is said twice, or by many at once.

use super::{any, down, load, vcs};
use crate::sim::cluster::faults;
use crate::sim::cluster::play::{ClusterPlay, back_after, shares};
use crate::sim::network::Weather;
use crate::sim::random::Chance;

pub(super) fn doubled(play: &mut ClusterPlay) {
    play.world.engine.in_order = false;
    let weather = &mut play.world.engine.network.weather;
    weather.duplicate = Chance::percent(20.0);
    weather.reorder = Chance::percent(30.0);
    weather.spike_us = 500_000;
    load(play, 30_000);
    play.world.run_for(40_000);
    play.world.engine.in_order = true;
    play.world.engine.network.weather = Weather::lossy(1.0);
    faults::echo_all(play);
    faults::restart(play);
    faults::kill_leaders(play);
    load(play, 40_000);
    play.world.run_for(60_000);
}

pub(super) fn thrice(play: &mut ClusterPlay) {
    let vcs = vcs(play);
    for at in 0..20 {
        let group = vcs[at % vcs.len()];
        let job = play.gang(group, (1, 1), 2_000);
        for _ in 0..2 {
            let gateway = any(play);
            play.world.act(gateway, |cluster, now, out| {
                cluster.submit_again(now, gateway, job, out);
            });
        }
        play.world.run_for(500);
    }
    play.world.run_for(10_000);
}

pub(super) fn two_admins(play: &mut ClusterPlay) {
    load(play, 20_000);
    let (nodes, count) = (play.world.nodes(), vcs(play).len());
    for _ in 0..4 {
        play.conflict([
            shares(nodes, count, nodes / 2),
            shares(nodes, count, nodes / count),
        ]);
        play.world.run_for(3_000);
    }
}

pub(super) fn burst(play: &mut ClusterPlay) {
    let jobs = 100 + 2 * play.world.nodes();
    play.submit(jobs, 300);
    let group = vcs(play)[0];
    play.world.run_for(100);
    let leader = play.world.protocol.leader(group).unwrap_or_default();
    down(&mut play.world, leader);
    back_after(&mut play.world, leader, 5_000);
    play.world.run_for(20_000);
}
