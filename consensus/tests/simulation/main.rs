//! Groups on simulated nodes, disks and networks: seeded, in virtual time, over the host and the
//! store that ship. Every seed is one run, the same each time.

#![allow(clippy::disallowed_methods, reason = "a test is no core")]

mod chain;
mod checks;
mod disk;
mod network;
mod node;
mod world;

use world::{SimFaults, World};

/// Runs of each kind in every test run. More with `MUSTER_SEEDS=first..last`.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let given = std::env::var("MUSTER_SEEDS").ok();
    let range = given.as_deref().and_then(|text| text.split_once(".."));
    let range = range.and_then(|(first, last)| Some(first.parse().ok()?..last.parse().ok()?));
    range.unwrap_or(0..usual)
}

fn run_all(usual: u64, faults: SimFaults) {
    for seed in seeds(usual) {
        let mut world = World::new(seed, faults);
        if let Err(violation) = world.run() {
            panic!("seed {seed}: {violation}");
        }
    }
}

#[test]
fn groups_agree_on_a_good_network() {
    run_all(5, SimFaults::default());
}

#[test]
fn groups_agree_over_a_bad_network() {
    run_all(
        12,
        SimFaults {
            loss: true,
            cuts: true,
            ..SimFaults::default()
        },
    );
}

#[test]
fn groups_survive_crashes_that_tear_writes() {
    run_all(
        12,
        SimFaults {
            loss: true,
            crashes: true,
            ..SimFaults::default()
        },
    );
}

#[test]
fn groups_survive_lost_disks() {
    run_all(
        12,
        SimFaults {
            crashes: true,
            disks: true,
            ..SimFaults::default()
        },
    );
}

#[test]
fn groups_survive_all_at_once() {
    run_all(
        20,
        SimFaults {
            loss: true,
            cuts: true,
            crashes: true,
            disks: true,
            pauses: true,
        },
    );
}

#[test]
fn equal_seeds_are_equal_runs() {
    let all = SimFaults {
        loss: true,
        cuts: true,
        crashes: true,
        disks: true,
        pauses: true,
    };
    let digest = |seed| {
        let mut world = World::new(seed, all);
        let ended = world.run();
        (ended.is_ok(), world.digest())
    };
    assert_eq!(digest(7), digest(7));
    assert_ne!(digest(7), digest(8));
}
