//! Devices of one type on one machine: which of them make cells, and which make groups.
//!
//! All cells of a type have equal parts. So a level whose groups are equal is a level of the tree,
//! and one whose groups differ in size is kept beside the tree, as runs of the machine's devices.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::NODE_DEVICES_MAX;
use super::leaf_type::{kind_of_leaf, leaf_name};
use crate::cluster_spec::{CellSpec, CellType, Level, UnevenLevel};
use crate::node::DeviceLevel;

/// Devices of one type on one machine.
#[derive(Debug)]
pub(super) struct DeviceGroup {
    name: String,
    /// Device indices; those that lie near each other follow each other.
    pub(super) order: Vec<u32>,
    /// Each level with the sizes of its groups, which are runs of `order`. The outermost first,
    /// which is the machine itself; a group of one level lies within one of the level before.
    levels: Vec<(Level, Vec<usize>)>,
}

impl DeviceGroup {
    pub(super) fn new(name: String, devices: BTreeSet<u32>, levels: &[DeviceLevel]) -> Self {
        let mut shape = vec![(Level::Node, vec![devices.len()])];
        // One device alone is near to no other.
        let levels = if devices.len() > 1 { levels } else { &[] };
        let mut pieces = vec![devices.into_iter().collect::<Vec<u32>>()];
        for level in levels {
            if !level.level.is_inside_node() || !may_follow(&shape, level.level) {
                continue;
            }
            if let Some(finer) = divided(&pieces, level) {
                let sizes: Vec<usize> = finer.iter().map(Vec::len).collect();
                pieces = finer;
                let is_known = shape.contains(&(level.level, sizes.clone()));
                shape.extend((!is_known).then_some((level.level, sizes)));
            }
        }
        Self {
            name,
            order: pieces.concat(),
            levels: shape,
        }
    }

    /// What a type of machine's cells is called tells what they consist of.
    pub(super) fn named(top: &str) -> Option<Self> {
        let mut words: Vec<&str> = top.split('-').collect();
        let mut written = Vec::new();
        while let [.., level, sizes] = words[..] {
            let Ok(level) = level.to_ascii_lowercase().parse::<Level>() else {
                break;
            };
            written.push((level, sizes));
            words.truncate(words.len() - 2);
        }
        written.reverse();
        let name = words.join("-");
        let (Level::Node, devices) = *written.first()? else {
            return None;
        };
        let devices = devices
            .parse()
            .ok()
            .filter(|it| (1..=NODE_DEVICES_MAX).contains(it))?;
        let mut levels: Vec<(Level, Vec<usize>)> = Vec::new();
        for (level, sizes) in written {
            let sizes = read_sizes(sizes, devices)?;
            let is_inside = levels.is_empty() || level.is_inside_node();
            let is_within = levels
                .last()
                .is_none_or(|(_, outer)| divides(outer, &sizes));
            let is_right = is_inside && is_within && may_follow(&levels, level);
            levels.push(is_right.then_some((level, sizes))?);
        }
        let order = (0..u32::try_from(devices).ok()?).collect();
        let part = Self {
            order,
            levels,
            name,
        };
        let is_device = leaf_name(kind_of_leaf(&part.name), &part.name) == part.name;
        // Numbers can be written in many ways, types in one.
        (is_device && part.type_names().first().is_some_and(|name| name == top)).then_some(part)
    }

    /// The machine's cell; its types are added where they are new.
    pub(super) fn cell(&self, address: &str, types: &mut BTreeMap<String, CellType>) -> CellSpec {
        let names = self.type_names();
        let levels = self.even_levels();
        for (at, (level, size)) in levels.iter().enumerate() {
            let below = levels.get(at + 1).map_or(1, |(_, size)| *size);
            let kind = CellType {
                child: names[at + 1].clone(),
                count: u32::try_from(size / below).unwrap_or(1),
                node_level: at == 0,
                level: Some(*level),
                uneven: if at == 0 { self.uneven() } else { Vec::new() },
            };
            types.entry(names[at].clone()).or_insert(kind);
        }
        let sizes: Vec<usize> = levels.iter().map(|(_, size)| *size).collect();
        cell_at(&names, &sizes, &self.order, address.to_owned())
    }

    /// The levels that are cells, each with the devices of one.
    fn even_levels(&self) -> Vec<(Level, usize)> {
        let even = self
            .levels
            .iter()
            .filter_map(|(level, sizes)| Some((*level, even(sizes)?)));
        even.collect()
    }

    /// The levels that are not.
    fn uneven(&self) -> Vec<UnevenLevel> {
        let uneven = self
            .levels
            .iter()
            .filter(|(_, sizes)| even(sizes).is_none());
        let size = |size: &usize| u32::try_from(*size).unwrap_or(u32::MAX);
        uneven
            .map(|(level, sizes)| UnevenLevel {
                level: *level,
                sizes: sizes.iter().map(size).collect(),
            })
            .collect()
    }

    /// A name for each level of cells and the leaf, outermost first. The first tells the whole
    /// shape, so that one name is one shape: `V100-NODE-8-NUMA-4-PCIE-2`, `V100-NODE-7-NUMA-4+3`.
    fn type_names(&self) -> Vec<String> {
        let word = |level: &Level, sizes: &str| {
            format!("-{}-{sizes}", level.as_str().to_ascii_uppercase())
        };
        let all = self.levels.iter();
        let all = all.map(|(level, sizes)| word(level, &written_sizes(sizes)));
        let top = format!("{}{}", self.name, all.collect::<String>());
        let even = self.even_levels().into_iter();
        let even: Vec<String> = even
            .map(|(level, size)| word(&level, &size.to_string()))
            .collect();
        let below = (1..=even.len()).map(|at| format!("{}{}", self.name, even[at..].concat()));
        std::iter::once(top).chain(below).collect()
    }
}

/// Whether a level may lie inside these. Only PCIe switches lie below others of their kind.
fn may_follow(levels: &[(Level, Vec<usize>)], level: Level) -> bool {
    let mut all = levels.iter();
    level == Level::Pcie || all.all(|(known, _)| *known != level)
}

/// The cell with these devices, of the first of the types.
fn cell_at(names: &[String], sizes: &[usize], order: &[u32], address: String) -> CellSpec {
    let Some((name, names)) = names.split_first() else {
        return CellSpec::default();
    };
    let sizes = sizes.get(1..).unwrap_or_default();
    let child = |(number, piece): (usize, &[u32])| {
        let address = match piece {
            [device] if sizes.is_empty() => device.to_string(),
            _ => number.to_string(),
        };
        cell_at(names, sizes, piece, address)
    };
    let below = sizes.first().copied().unwrap_or(1);
    let pieces = order.chunks(below.max(1)).enumerate();
    let pieces = pieces.filter(|_| !names.is_empty());
    CellSpec {
        cell_type: name.clone(),
        address,
        children: pieces.map(child).collect(),
        ..CellSpec::default()
    }
}

/// The size of all, if they are equal.
fn even(sizes: &[usize]) -> Option<usize> {
    let first = *sizes.first()?;
    sizes.iter().all(|size| *size == first).then_some(first)
}

/// Runs of three or more equal sizes are written `7x8`: seven groups of eight.
fn written_sizes(sizes: &[usize]) -> String {
    if let Some(size) = even(sizes) {
        return size.to_string();
    }
    let runs = sizes.chunk_by(|a, b| a == b).map(|run| match run {
        [size, _, _, ..] => format!("{}x{size}", run.len()),
        run => run
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join("+"),
    });
    runs.collect::<Vec<_>>().join("+")
}

/// The sizes of groups of so many devices, if they can be read and are all of them.
fn read_sizes(text: &str, devices: usize) -> Option<Vec<usize>> {
    let number = |text: &str| text.parse().ok().filter(|it| (1..=devices).contains(it));
    if let Some(size) = number(text) {
        let count = devices / size;
        return (size * count == devices).then(|| vec![size; count]);
    }
    let mut sizes = Vec::new();
    for run in text.split('+') {
        let (count, size) = run.split_once('x').unwrap_or(("1", run));
        sizes.extend(std::iter::repeat_n(number(size)?, number(count)?));
    }
    (sizes.iter().sum::<usize>() == devices).then_some(sizes)
}

/// Whether groups lie each within one of the outer groups.
fn divides(outer: &[usize], inner: &[usize]) -> bool {
    let ends = |sizes: &[usize]| -> BTreeSet<usize> {
        let sums = sizes.iter().scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        });
        sums.collect()
    };
    ends(outer).is_subset(&ends(inner))
}

/// Each piece divided into the level's groups, the largest first. A device in no group is alone.
/// None if a device is in two groups, a group in two pieces, or no group tells anything.
fn divided(pieces: &[Vec<u32>], level: &DeviceLevel) -> Option<Vec<Vec<u32>>> {
    let mut group_of = BTreeMap::new();
    for (number, group) in level.groups.iter().enumerate() {
        for device in group {
            if group_of.insert(*device, number).is_some() {
                return None;
            }
        }
    }
    let mut finer: Vec<Vec<u32>> = Vec::new();
    let mut seen = BTreeSet::new();
    for piece in pieces {
        let mut parts: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        let mut alone = Vec::new();
        for device in piece {
            match group_of.get(device) {
                Some(group) => parts.entry(*group).or_default().push(*device),
                None => alone.push(vec![*device]),
            }
        }
        if !parts.keys().all(|number| seen.insert(*number)) {
            return None;
        }
        let mut parts: Vec<Vec<u32>> = parts.into_values().chain(alone).collect();
        parts.sort_unstable_by(|a, b| (Reverse(a.len()), a).cmp(&(Reverse(b.len()), b)));
        finer.append(&mut parts);
    }
    let all = pieces.iter().flatten();
    let is_complete = all.into_iter().all(|device| group_of.contains_key(device));
    let tells = is_complete || finer.iter().any(|part| part.len() > 1);
    tells.then_some(finer)
}
