//! Cells that a gang may use and cannot: what is wrong with them, and on which machines they are.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::ABSENT;

use crate::cells::Cells;
use crate::gang::{Gang, Leaf};

/// Machines named for one reason at most.
const NAMED_MAX: usize = 3;

/// Why a cell cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Its machine cannot be reached, or was never heard.
    Away,
    /// A device of it is sick.
    Sick,
    /// Its machine is kept free.
    Cordoned,
    /// It is promised, and no machine is known that has it.
    Missing,
}

/// Cells that cannot be used for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// How many leaves.
    pub leaves: u32,
    /// The machines that they are on; none if no machine is known that has them.
    pub nodes: BTreeSet<String>,
}

/// Cells that cannot be used, by the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Troubles(pub BTreeMap<Fault, Trouble>);

/// What is wrong with the cells that a gang may use: with those that its virtual cluster was promised, or
/// with all of the types asked for if it is opportunistic.
pub fn troubles(cells: &Cells, gang: &Gang) -> Troubles {
    let is_asked = |leaf: &Leaf| {
        let leaf_type = cells.leaf_type(*leaf);
        let mut members = gang.members.iter();
        members.any(|it| it.leaf_type.is_empty() || it.leaf_type == leaf_type)
    };
    let leaves = match gang.is_opportunistic() {
        true => (0..cells.leaf_count()).collect(),
        false => cells.unusable_leaves(&gang.vc, &gang.pinned),
    };
    let mut found = Troubles::default();
    for leaf in leaves.into_iter().filter(is_asked) {
        let node = cells.address(leaf).0;
        let Some(fault) = fault(cells, leaf, node) else {
            continue;
        };
        let trouble = found.0.entry(fault).or_default();
        trouble.leaves += 1;
        if fault != Fault::Missing {
            trouble.nodes.insert(node.to_owned());
        }
    }
    found
}

fn fault(cells: &Cells, leaf: Leaf, node: &str) -> Option<Fault> {
    if cells.is_usable(leaf) {
        return None;
    }
    Some(match () {
        () if node.starts_with(ABSENT) => Fault::Missing,
        () if cells.is_away(leaf) => Fault::Away,
        () if cells.is_cordoned(leaf) => Fault::Cordoned,
        () => Fault::Sick,
    })
}

impl Troubles {
    /// Whether all cells can be used.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These machines are away, and have the cells of which no machine is known that has them.
    pub fn are_on(&mut self, nodes: BTreeSet<String>) {
        if nodes.is_empty() {
            return;
        }
        if let Some(missing) = self.0.remove(&Fault::Missing) {
            let away = self.0.entry(Fault::Away).or_default();
            away.leaves += missing.leaves;
            away.nodes.extend(nodes);
        }
    }

    /// `8 such cells are away (n2), 2 sick (n4)`; `such` stands before the noun.
    pub fn in_words(&self, such: &str) -> String {
        let each = self.0.iter().enumerate().map(|(at, (fault, trouble))| {
            let count = trouble.leaves;
            let what = match fault {
                Fault::Away => "away",
                Fault::Sick => "sick",
                Fault::Cordoned => "cordoned",
                Fault::Missing => "not there",
            };
            let subject = match (at, count) {
                (0, 1) => format!("1 {such}cell is"),
                (0, count) => format!("{count} {such}cells are"),
                (_, count) => count.to_string(),
            };
            match trouble.nodes.is_empty() {
                true => format!("{subject} {what}"),
                false => format!("{subject} {what} ({})", named(&trouble.nodes)),
            }
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// `when n2 is back`: after this the cells can be used.
    pub fn until(&self) -> String {
        let nodes = self.0.values().flat_map(|trouble| &trouble.nodes);
        let nodes: BTreeSet<String> = nodes.cloned().collect();
        match nodes.len() {
            0 => "when there are machines that have them".to_owned(),
            1 => format!("when {} is back", named(&nodes)),
            _ => format!("when enough of {} are back", named(&nodes)),
        }
    }
}

/// `n1, n2, n3 and 4 more`.
fn named(nodes: &BTreeSet<String>) -> String {
    let first = nodes.iter().take(NAMED_MAX).cloned();
    let first = first.collect::<Vec<_>>().join(", ");
    match nodes.len().saturating_sub(NAMED_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
