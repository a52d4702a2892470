//! Which level each type of cells is, as far as its place and its name tell.

use std::collections::{BTreeMap, BTreeSet};

use super::{CellType, Level, SpecProblem};

/// Words in a type's name and what they say about a part of a machine; the first that is found
/// counts.
const INSIDE: [(&str, Level); 6] = [
    ("nvlink", Level::Nvlink),
    ("nvswitch", Level::Nvlink),
    ("switch", Level::Pcie),
    ("pcie", Level::Pcie),
    ("numa", Level::Numa),
    ("socket", Level::Numa),
];
const RACK: &str = "rack";

type Types = BTreeMap<String, CellType>;

/// Fills in every level that is not stated.
pub(super) fn infer(types: &mut Types) {
    let inside = inside(types);
    let racks = types
        .iter()
        .filter(|(name, kind)| kind.level == Some(Level::Rack) || is_rack(name));
    let racks: BTreeSet<String> = racks.map(|(name, _)| name.clone()).collect();
    let mut found: Vec<(String, Level)> = Vec::new();
    for (name, kind) in types.iter() {
        let level = match kind.level {
            Some(_) => continue,
            None if kind.node_level => Some(Level::Node),
            None if inside.contains(name) => by_word(name),
            None => rack(types, &racks, name),
        };
        found.extend(level.map(|level| (name.clone(), level)));
    }
    for (name, level) in found {
        if let Some(kind) = types.get_mut(&name) {
            kind.level = Some(level);
        }
    }
}

/// Stated levels that cannot be.
pub(super) fn check(types: &Types, problems: &mut Vec<SpecProblem>) {
    let inside = inside(types);
    for (name, kind) in types {
        let fits = match kind.level {
            None => true,
            Some(Level::Node) => kind.node_level,
            Some(Level::Rack) => !kind.node_level && !inside.contains(name),
            Some(Level::Pcie | Level::Nvlink | Level::Numa) => inside.contains(name),
        };
        if !fits {
            let path = format!("physicalCluster.cellTypes.{name}.level");
            let message = "does not suit its place: pcie, nvlink and numa lie inside a machine, \
                           node is the type with isNodeLevel: true, rack lies above it";
            problems.push(SpecProblem::new(path, message));
        }
    }
}

/// The types below machines.
fn inside(types: &Types) -> BTreeSet<String> {
    let mut inside = BTreeSet::new();
    for node in types.values().filter(|kind| kind.node_level) {
        let mut next = types.get_key_value(&node.child);
        while let Some((name, kind)) = next {
            if !inside.insert(name.clone()) {
                break;
            }
            next = types.get_key_value(&kind.child);
        }
    }
    inside
}

fn by_word(name: &str) -> Option<Level> {
    let name = name.to_ascii_lowercase();
    let found = INSIDE.iter().find(|(word, _)| name.contains(word));
    found.map(|(_, level)| *level)
}

fn is_rack(name: &str) -> bool {
    name.to_ascii_lowercase().contains(RACK)
}

/// A type above a machine is a rack if it is called so, or if it is the next above a machine and
/// no other above that is called so.
fn rack(types: &Types, racks: &BTreeSet<String>, name: &str) -> Option<Level> {
    let above_node = |kind: &CellType| types.get(&kind.child).is_some_and(|kid| kid.node_level);
    let next_above = types.get(name).is_some_and(above_node);
    let named_above = || racks.iter().any(|rack| is_below(types, name, rack));
    (racks.contains(name) && reaches_node(types, name) || next_above && !named_above())
        .then_some(Level::Rack)
}

fn reaches_node(types: &Types, name: &str) -> bool {
    let nodes = types.iter().filter(|(_, kind)| kind.node_level);
    nodes
        .into_iter()
        .any(|(node, _)| is_below(types, node, name))
}

fn is_below(types: &Types, name: &str, above: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut next = types.get(above);
    while let Some(kind) = next {
        if kind.child == name {
            return true;
        }
        next = types.get(&kind.child).filter(|_| seen.insert(&kind.child));
    }
    false
}
