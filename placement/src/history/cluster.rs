//! Random clusters: some chains of different shapes, cut at random into promises.

use std::collections::BTreeMap;

use muster_model::cluster_spec::{
    CellSpec, CellType, ClusterSpec, Level, QuotaSpec, UnevenLevel, VcSpec,
};

use crate::random::SplitMix64;

/// Types from the top down: name, children, whether it is a machine.
type Types = &'static [(&'static str, u32, bool)];

/// The chains' types from the top down: name, children, whether it is a machine; then the leaf.
const CHAINS: [(Types, &str); 5] = [
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
            ("B-NODE", 3, true),
            ("B-PAIR", 2, false),
        ],
        "B",
    ),
    (&[("E-NODE", 2, true), ("E-PAIR", 2, false)], "A"),
    (&[("C-NODE", 4, true)], "C"),
    (&[("D-POOL", 5, false), ("D-NODE", 3, true)], "D"),
];

/// Machines whose NUMA nodes differ: how many leaves each has.
const UNEVEN: [(&str, &[u32]); 3] = [
    ("B-NODE", &[2, 4]),
    ("C-NODE", &[3, 1]),
    ("D-NODE", &[1, 2]),
];

const VCS: [&str; 3] = ["v1", "v2", "v3"];

/// How many top cells each chain has.
pub(super) fn tops(random: &mut SplitMix64) -> Vec<u32> {
    let tops = CHAINS
        .iter()
        .map(|_| u32::try_from(random.below(3)).unwrap_or(0));
    let mut tops: Vec<u32> = tops.collect();
    tops[0] += 1;
    tops
}

/// A cluster with these top cells, promised at random.
pub(super) fn spec(random: &mut SplitMix64, tops: &[u32]) -> ClusterSpec {
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
                level: level(name),
                uneven: uneven(name),
            };
            spec.cell_types.insert((*name).to_owned(), kind);
        }
        let mut cut = ChainCutter {
            random: &mut *random,
            types,
            pins: Vec::new(),
            quotas: Quotas::new(),
        };
        for top in 0..*count {
            spec.cells.push(cut.cell(0, top, false));
        }
        let (pins, quotas) = (cut.pins, cut.quotas);
        for (vc, pin) in pins {
            if let Some(vc) = spec.virtual_clusters.values_mut().nth(vc) {
                vc.pinned.push(pin);
            }
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

/// Cuts a chain's cells into promises.
struct ChainCutter<'a> {
    random: &'a mut SplitMix64,
    types: Types,
    /// The names of pinned cells and whose they are.
    pins: Vec<(usize, String)>,
    quotas: Quotas,
}

impl ChainCutter<'_> {
    fn some_vc(&mut self) -> usize {
        usize::try_from(self.random.below(VCS.len() as u64)).unwrap_or(0)
    }

    fn promise(&mut self, vc: usize, depth: usize) {
        *self.quotas.entry((vc, depth)).or_default() += 1;
    }

    /// A cell; `is_promised` as part of a larger one.
    fn cell(&mut self, depth: usize, number: u32, is_promised: bool) -> CellSpec {
        let (name, children, node_level) = self.types[depth];
        let mut cell = CellSpec {
            cell_type: name.to_owned(),
            address: address(name, number),
            ..CellSpec::default()
        };
        let is_last = depth + 1 == self.types.len();
        let (vc, fate) = (self.some_vc(), self.random.below(100));
        let mut is_taken = is_promised;
        if !is_promised && fate < 6 {
            let pin = format!("{name}{number}");
            cell.pinned = Some(pin.clone());
            self.pins.push((vc, pin));
            is_taken = true;
        } else if !is_promised && (fate < 40 || is_last && fate < 80) {
            self.promise(vc, depth);
            is_taken = true;
        }
        if !node_level {
            let kids =
                (0..children).map(|kid| self.cell(depth + 1, number * children + kid, is_taken));
            cell.children = kids.collect();
        } else if !is_taken && !is_last {
            self.parts_of_machine(depth, children);
        }
        if name == SECOND {
            cell.children = (0..children).map(second_leaf).collect();
        }
        cell
    }

    /// Parts of a machine, promised one by one.
    fn parts_of_machine(&mut self, depth: usize, parts: u32) {
        for _ in 0..parts {
            if self.random.percent(70) {
                let vc = self.some_vc();
                self.promise(vc, depth + 1);
            }
        }
    }
}

/// Cells of this type are more leaves of machines that are in another chain, too.
const SECOND: &str = "C-NODE";
/// Their device indices start here.
const SECOND_FIRST: u32 = 1000;

fn address(name: &str, number: u32) -> String {
    match name {
        SECOND => format!("A-NODE{number}"),
        name => format!("{name}{number}"),
    }
}

fn second_leaf(number: u32) -> CellSpec {
    CellSpec {
        cell_type: "C".to_owned(),
        address: (SECOND_FIRST + number).to_string(),
        ..CellSpec::default()
    }
}

fn uneven(name: &str) -> Vec<UnevenLevel> {
    let own = UNEVEN.iter().filter(|machine| machine.0 == name);
    let level = |sizes: &[u32]| UnevenLevel {
        level: Level::Numa,
        sizes: sizes.to_vec(),
    };
    own.map(|machine| level(machine.1)).collect()
}

fn level(name: &str) -> Option<Level> {
    match name.split_once('-').map(|parts| parts.1) {
        Some("PAIR") => Some(Level::Pcie),
        Some("NODE") => Some(Level::Node),
        Some("RACK") => Some(Level::Rack),
        _ => None,
    }
}
