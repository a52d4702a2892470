//! A virtual cluster with its leader, two nodes and a hostile world, in one thread and virtual
//! time. After every event the invariants are checked; when the faults stop, every job ends.
//!
//! `MUSTER_SEEDS=first..last` runs other seeds than the default ones.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on is to stop"
)]

mod executor;
mod world;

use world::World;

/// Faults go on for this long, then the world is kind.
const FAULTS_MS: u64 = 120_000;
/// All jobs must have ended by then.
const END_MS: u64 = 40 * 3_600_000;
/// Enough to catch each fault that was put in on trial, and few enough for every test run.
const SEEDS: std::ops::Range<u64> = 0..200;

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("MUSTER_SEEDS") else {
        return SEEDS;
    };
    let (first, last) = text.split_once("..").expect("MUSTER_SEEDS=first..last");
    first.parse().unwrap()..last.parse().unwrap()
}

#[test]
fn every_job_ends_and_no_rule_is_broken() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let went: usize = std::thread::scope(|scope| {
        let share =
            |first| scope.spawn(move || seeds().skip(first).step_by(threads).map(run).sum());
        let shares: Vec<_> = (0..threads).map(share).collect();
        let counts = shares.into_iter().map(|thread| thread.join());
        counts
            .map(|count: Result<usize, _>| count.expect("a seed failed"))
            .sum()
    });
    assert!(went > 0, "the simulation ran nothing");
}

/// Runs one seed; gives how many runs were started.
fn run(seed: u64) -> usize {
    let result = std::panic::catch_unwind(|| {
        let mut world = World::new(seed);
        world.run(FAULTS_MS, END_MS);
        world.went()
    });
    result.unwrap_or_else(|panic| {
        eprintln!("seed {seed} failed: MUSTER_SEEDS={seed}..{}", seed + 1);
        std::panic::resume_unwind(panic)
    })
}
