//! One or two virtual clusters with their leaders, three nodes and a hostile world, in one thread and
//! virtual time. After every event the invariants are checked; when the faults stop, every job ends.
//!
//! `MUSTER_SEEDS=first..last` runs other seeds than the default ones.

#![allow(clippy::disallowed_methods, reason = "a test is no core")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on is to stop"
)]

mod cluster;
mod executor;
mod world;

use world::{Counts, World};

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
    let counts = std::thread::scope(|scope| {
        let share = |first| scope.spawn(move || sum(seeds().skip(first).step_by(threads).map(run)));
        let shares: Vec<_> = (0..threads).map(share).collect();
        let counts = shares.into_iter().map(|thread| thread.join());
        sum(counts.map(|count| count.expect("a seed failed")))
    });
    println!("{counts:?}");
    assert!(counts.going > 0, "the simulation ran nothing");
    if seeds() == SEEDS {
        assert!(counts.preempted > 0, "nobody had to give way");
        assert!(counts.lost > 0, "nothing was given up for silence");
        assert!(counts.overlapped > 0, "nothing overlapped");
        assert!(counts.lease_ends > 0, "no lease ended");
        assert!(counts.moved > 0, "nothing had to leave its node");
        assert!(counts.off > 0, "no node was off");
        assert!(
            counts.evicted > 0,
            "nobody gave way for another virtual cluster"
        );
    }
}

#[test]
fn what_was_promised_is_there_however_much_others_use_of_it() {
    for seed in (1..40).step_by(2) {
        let evicted = World::new(seed).flood();
        assert!(evicted > 0, "seed {seed}: nobody gave way");
    }
}

fn sum(counts: impl Iterator<Item = Counts>) -> Counts {
    counts.fold(Counts::default(), Counts::plus)
}

/// Runs one seed; gives what came about.
fn run(seed: u64) -> Counts {
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
