//! How fast a cluster is to which nothing happens.

use muster_model::time::Time;

use super::{down, vcs};
use crate::sim::cluster::play::Play;

/// What is measured of a cluster to which nothing happens.
pub(in crate::sim::cluster) fn table(play: &mut Play) -> serde_json::Value {
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
    for _ in 0..20 {
        play.gang(group, (wide, 4), 100);
        play.world.run_for(2_500);
    }
    let gangs = play.world.protocol.figures.take_placed();
    let (tasks, since) = (play.world.protocol.account.tasks, play.world.now());
    play.world.protocol.figures.count_leading();
    for at in 0..4 * nodes {
        let vcs = vcs(play);
        play.gang(vcs[at % vcs.len()], (1, 1), 1_000);
    }
    play.world.run_for(10_000);
    let tasks = play.world.protocol.account.tasks - tasks;
    let last = play.world.protocol.figures.last_placed();
    let took = last.unwrap_or(since).micros_since(since).max(1);
    let many = play.world.protocol.figures.take_placed();
    let led_us = play.world.protocol.figures.led_us();
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
        "burst_submit_to_placed_ms": many,
        "burst_tasks": tasks,
        "leader_cpu_us_per_task": led_us / tasks.max(1),
        "burst_tasks_s": tasks * 1_000_000 / took,
        "cold_start_to_placed_ms": cold.map(|at| at.micros_since(start) / 1_000),
    })
}
