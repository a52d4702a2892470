//! Random clusters: some chains of different shapes, cut at random into promises.

use std::collections::BTreeMap;

use muster_model::cluster_spec::{CellSpec, CellType, ClusterSpec, QuotaSpec, VcSpec};

use crate::random::Random;

/// The chains' types from the top down: name, children, whether it is a machine; then the leaf.
const CHAINS: [(&[(&str, u32, bool)], &str); 5] = [
    (
        &[
            ("A-ROW", 2, false),
            ("A-RACK", 2, false),
            ("A-NODE", 2, true),
            ("A-PAIR", 2, false),
        ],
        "A",
    ),
    (
        &[
            ("B-RACK", 3, false),
            ("B-NODE", 2, true),
            ("B-PAIR", 2, false),
        ],
        "B",
    ),
    (&[("E-NODE", 2, true), ("E-PAIR", 2, false)], "A"),
    (&[("C-NODE", 4, true)], "C"),
    (&[("D-POOL", 5, false), ("D-NODE", 3, true)], "D"),
];

const VCS: [&str; 3] = ["v1", "v2", "v3"];

/// How many top cells each chain has.
pub(super) fn tops(random: &mut Random) -> Vec<u32> {
    let tops = CHAINS
        .iter()
        .map(|_| u32::try_from(random.below(3)).unwrap_or(0));
    let mut tops: Vec<u32> = tops.collect();
    tops[0] += 1;
    tops
}

/// A cluster with these top cells, promised at random.
pub(super) fn spec(random: &mut Random, tops: &[u32]) -> ClusterSpec {
    let mut spec = ClusterSpec::default();
    for vc in VCS {
        if let Ok(name) = vc.parse() {
            spec.virtual_clusters.insert(name, VcSpec::default());
        }
    }
    for ((types, leaf), count) in CHAINS.iter().zip(tops) {
        for (number, (name, children, node_level)) in types.iter().enumerate() {
            let child = types.get(number + 1).map_or(*leaf, |child| child.0);
            let kind = CellType {
                child: child.to_owned(),
                count: *children,
                node_level: *node_level,
            };
            spec.cell_types.insert((*name).to_owned(), kind);
        }
        let mut quotas = BTreeMap::new();
        for top in 0..*count {
            let cell = cell(random, types, 0, top, &mut spec, &mut quotas);
            spec.cells.push(cell);
        }
        for ((vc, depth), count) in quotas {
            let path = types[..=depth]
                .iter()
                .map(|kind| kind.0.to_owned())
                .collect();
            if let Some(vc) = spec.virtual_clusters.values_mut().nth(vc) {
                vc.quota.push(QuotaSpec { path, count });
            }
        }
    }
    spec
}

/// How many cells of a depth are promised to which cluster.
type Quotas = BTreeMap<(usize, usize), u32>;

fn cell(
    random: &mut Random,
    types: &[(&str, u32, bool)],
    depth: usize,
    number: u32,
    spec: &mut ClusterSpec,
    quotas: &mut Quotas,
) -> CellSpec {
    let (name, children, node_level) = types[depth];
    let vc = usize::try_from(random.below(VCS.len() as u64)).unwrap_or(0);
    let mut cell = CellSpec {
        cell_type: name.to_owned(),
        address: format!("{name}{number}"),
        ..CellSpec::default()
    };
    let fate = random.below(100);
    let is_last = depth + 1 == types.len();
    let mut below = Quotas::new();
    if fate < 6 {
        cell.pinned = Some(cell.address.clone());
        if let Some(vc) = spec.virtual_clusters.values_mut().nth(vc) {
            vc.pinned.push(cell.address.clone());
        }
    } else if fate < 40 || is_last && fate < 80 {
        *below.entry((vc, depth)).or_default() += 1;
    }
    let is_promised = fate < 6 || !below.is_empty();
    if !node_level {
        for child in 0..children {
            let number = number * children + child;
            let mut inner = Quotas::new();
            let mut scratch = ClusterSpec::default();
            let into = if is_promised {
                &mut scratch
            } else {
                &mut *spec
            };
            let mut child = self::cell(random, types, depth + 1, number, into, &mut inner);
            if is_promised {
                unpin(&mut child);
            } else {
                add(&mut below, inner);
            }
            cell.children.push(child);
        }
    } else if !is_promised && !is_last {
        // Pairs of a machine, promised one by one.
        for _ in 0..children {
            if random.percent(70) {
                let vc = usize::try_from(random.below(VCS.len() as u64)).unwrap_or(0);
                *below.entry((vc, depth + 1)).or_default() += 1;
            }
        }
    }
    add(quotas, below);
    cell
}

fn add(quotas: &mut Quotas, more: Quotas) {
    for (key, count) in more {
        *quotas.entry(key).or_default() += count;
    }
}

fn unpin(cell: &mut CellSpec) {
    cell.pinned = None;
    cell.children.iter_mut().for_each(unpin);
}
