//! A virtual cluster with its leader, three nodes and a hostile world, in one thread and virtual
//! time. After every event the invariants are checked; when the faults stop, every job ends.
//!
//! `MUSTER_SEEDS=first..last` runs other seeds than the default ones.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on is to stop"
)]

mod cluster;
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
    let (went, preempted) = std::thread::scope(|scope| {
        let share = |first| scope.spawn(move || sum(seeds().skip(first).step_by(threads).map(run)));
        let shares: Vec<_> = (0..threads).map(share).collect();
        let counts = shares.into_iter().map(|thread| thread.join());
        sum(counts.map(|count| count.expect("a seed failed")))
    });
    println!("{went} runs were started, {preempted} had to give way");
    assert!(went > 0, "the simulation ran nothing");
    assert!(preempted > 0 || seeds() != SEEDS, "nobody had to give way");
}

fn sum(counts: impl Iterator<Item = (usize, usize)>) -> (usize, usize) {
    counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
}

/// Runs one seed; gives how many runs were started, and how many had to give way.
fn run(seed: u64) -> (usize, usize) {
    let result = std::panic::catch_unwind(|| {
        let mut world = World::new(seed);
        world.run(FAULTS_MS, END_MS);
        world.counts()
    });
    result.unwrap_or_else(|panic| {
        eprintln!("seed {seed} failed: MUSTER_SEEDS={seed}..{}", seed + 1);
        std::panic::resume_unwind(panic)
    })
}
