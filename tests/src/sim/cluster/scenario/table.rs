//! How fast a cluster is to which nothing happens.

use muster_model::time::Time;
use serde_json::Value;

use super::{down, vcs};
use crate::sim::cluster::play::ClusterPlay;

/// So many gangs one after the other.
const GANGS: u64 = 20;

/// What is measured of a cluster to which nothing happens.
pub(in crate::sim::cluster) fn table(play: &mut ClusterPlay) -> Value {
    let nodes = play.world.nodes();
    let group = vcs(play)[0];
    // Leaders hear of all machines first.
    play.world.run_for(3_000);
    // One small job at a time, then a gang on as many machines as are promised, then many at once.
    for _ in 0..100 {
        play.gang(group, (1, 1), 100);
        play.world.run_for(300);
    }
    let small = play.world.protocol.figures.take_placed();
    let wide = (nodes / vcs(play).len()).clamp(1, 64) as u64;
    play.world.protocol.figures.count_leading();
    for _ in 0..GANGS {
        play.gang(group, (wide, 4), 100);
        play.world.run_for(2_500);
    }
    let gangs = play.world.protocol.figures.take_placed();
    let gang_led_us = play.world.protocol.figures.led_us();
    let burst = Burst::of(play, 4, 10_000);
    // Eight times as many as there is room for at a time.
    let crowd = Burst::of(play, 32, 30_000);
    // All machines start together from their disks.
    for node in 0..nodes {
        down(&mut play.world, node);
    }
    play.world.run_for(1_000);
    let start: Time = play.world.now();
    play.world.start_all();
    play.persist();
    play.gang(group, (1, 1), 100);
    play.world.run_for(10_000);
    let cold = play.world.protocol.figures.last_placed();
    serde_json::json!({
        "submit_to_placed_ms": small,
        "gang_tasks": wide,
        "gang_submit_to_placed_ms": gangs,
        "gang_leader_cpu_us_per_task": gang_led_us / (GANGS * wide),
        "burst_submit_to_placed_ms": burst.placed,
        "burst_tasks": burst.tasks,
        "leader_cpu_us_per_task": burst.led_us_per_task(),
        "burst_tasks_s": burst.tasks_s(),
        "crowd_tasks": crowd.tasks,
        "crowd_leader_cpu_us_per_task": crowd.led_us_per_task(),
        "cold_start_to_placed_ms": cold.map(|at| at.micros_since(start) / 1_000),
    })
}

/// Small jobs that come all at once.
struct Burst {
    /// Tasks that were placed.
    tasks: u64,
    /// From the first submission to the last placement, µs.
    took_us: u64,
    /// What leading cost meanwhile, µs.
    led_us: u64,
    /// From submission to placement.
    placed: Value,
}

impl Burst {
    /// So many jobs of a second for each machine, and what comes of them in so many milliseconds.
    fn of(play: &mut ClusterPlay, per_node: usize, for_ms: u64) -> Self {
        let (before, since) = (play.world.protocol.account.tasks, play.world.now());
        let vcs = vcs(play);
        play.world.protocol.figures.count_leading();
        for at in 0..per_node * play.world.nodes() {
            play.gang(vcs[at % vcs.len()], (1, 1), 1_000);
        }
        play.world.run_for(for_ms);
        let figures = &mut play.world.protocol.figures;
        let last = figures.last_placed();
        Self {
            took_us: last.unwrap_or(since).micros_since(since).max(1),
            led_us: figures.led_us(),
            placed: figures.take_placed(),
            tasks: play.world.protocol.account.tasks - before,
        }
    }

    fn led_us_per_task(&self) -> u64 {
        self.led_us / self.tasks.max(1)
    }

    fn tasks_s(&self) -> u64 {
        self.tasks * 1_000_000 / self.took_us
    }
}
