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
const SEEDS: std::ops::Range<u64> = 0..1000;

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("MUSTER_SEEDS") else {
        return SEEDS;
    };
    let (first, last) = text.split_once("..").expect("MUSTER_SEEDS=first..last");
    first.parse().unwrap()..last.parse().unwrap()
}

#[test]
fn every_job_ends_and_no_rule_is_broken() {
    let mut went = 0;
    for seed in seeds() {
        let result = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            world.run(FAULTS_MS, END_MS);
            world.went()
        });
        match result {
            Ok(count) => went += count,
            Err(panic) => {
                eprintln!("seed {seed} failed: MUSTER_SEEDS={seed}..{}", seed + 1);
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(went > 0, "the simulation ran nothing");
}
