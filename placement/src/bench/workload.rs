//! What comes: sizes as in a shared cluster, clusters in proportion to what they are promised.

use super::{BenchSetup, cluster};
use crate::gang::{Gang, GangMember, GangNumber, OPPORTUNISTIC};
use crate::random::SplitMix64;

/// Devices of a gang, and how many gangs in a thousand are so large.
const SIZES: [(u32, u64); 10] = [
    (1, 300),
    (2, 120),
    (4, 140),
    (8, 240),
    (16, 80),
    (32, 60),
    (64, 30),
    (128, 20),
    (256, 7),
    (512, 3),
];

/// A gang that runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunningGang {
    pub(super) id: GangNumber,
    pub(super) size: u32,
}

/// The next gang and its devices. The order of the draws is part of the workload.
pub(super) fn draw(random: &mut SplitMix64, setup: &BenchSetup, number: u64) -> (Gang, u32) {
    let size = weighted(random.below(1000), &SIZES);
    let [a, b, c] = cluster::quota(setup.gpus);
    let shares = [
        ("A", u64::from(a * cluster::ROW)),
        ("B", u64::from(b * cluster::RACK)),
        ("C", u64::from(c * cluster::NODE)),
    ];
    let vc = weighted(random.below(u64::from(setup.gpus)), &shares);
    let _ignored = random.below(3);
    let opportunistic = random.below(100) < setup.opportunistic;
    let gang = Gang {
        id: GangNumber(number),
        vc: vc.to_owned(),
        priority: if opportunistic { OPPORTUNISTIC } else { 0 },
        members: vec![GangMember {
            pods: size.div_ceil(cluster::NODE),
            leaves: size.min(cluster::NODE),
            leaf_type: "GPU".to_owned(),
            ..GangMember::default()
        }],
        ..Gang::default()
    };
    (gang, size)
}

fn weighted<T: Copy>(draw: u64, weights: &[(T, u64)]) -> T {
    let mut left = draw;
    for (value, weight) in weights {
        if left < *weight {
            return *value;
        }
        left -= weight;
    }
    weights[weights.len() - 1].0
}
