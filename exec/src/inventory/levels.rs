//! Which devices lie near to each other: by NUMA node and by PCIe switch.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::Level;
use muster_model::node::DeviceLevel;

/// Where a device stands.
#[derive(Clone, Debug)]
pub(super) struct DevicePlace {
    /// Only devices of one model are in a group.
    pub(super) model: String,
    /// The card: partitions of one have the same.
    pub(super) card: String,
    pub(super) numa: Option<u32>,
    /// The switches and bridges above it, the outermost first.
    pub(super) bridges: Vec<String>,
    /// Whether the machine's list has it; else it is in no group.
    pub(super) is_listed: bool,
}

type DeviceSet = BTreeSet<u32>;

/// The levels by NUMA node and by PCIe switch, the widest first.
pub(super) fn levels(places: &[DevicePlace]) -> Vec<DeviceLevel> {
    let mut levels = vec![numa(places)];
    levels.extend(pcie(places));
    levels.into_iter().flatten().collect()
}

/// Puts levels into the order of their largest groups, the widest first. Levels of the same
/// width stay in their order.
pub(super) fn widest_first(levels: &mut [DeviceLevel]) {
    let width = |level: &DeviceLevel| level.groups.iter().map(Vec::len).max().unwrap_or(0);
    levels.sort_by_key(|level| std::cmp::Reverse(width(level)));
}

fn listed(places: &[DevicePlace]) -> impl Iterator<Item = (u32, &DevicePlace)> {
    (0..).zip(places).filter(|(_, place)| place.is_listed)
}

/// Levels whose devices have other numbers, or none and are in no group then. Levels whose
/// groups have one device each are left out.
pub(super) fn renumbered(
    levels: &[DeviceLevel],
    number_of: &BTreeMap<u32, u32>,
) -> Vec<DeviceLevel> {
    let renumbered = levels.iter().filter_map(|level| {
        let groups = level.groups.iter().map(|group| {
            let numbers = group.iter().filter_map(|device| number_of.get(device));
            numbers.copied().collect::<Vec<u32>>()
        });
        let groups: Vec<Vec<u32>> = groups.filter(|group| !group.is_empty()).collect();
        let tells = groups.iter().any(|group| group.len() > 1);
        tells.then_some(DeviceLevel {
            level: level.level,
            groups,
        })
    });
    renumbered.collect()
}

fn numa(places: &[DevicePlace]) -> Option<DeviceLevel> {
    let mut nodes: BTreeMap<u32, DeviceSet> = BTreeMap::new();
    for (device, place) in listed(places) {
        if let Some(node) = place.numa {
            nodes.entry(node).or_default().insert(device);
        }
    }
    let all = listed(places).count();
    let tells = |set: &DeviceSet| set.len() < all;
    let sets: Vec<DeviceSet> = nodes.into_values().filter(tells).collect();
    level(Level::Numa, by_model(&sets, places))
}

/// A level of groups, unless each has one device.
fn level(level: Level, mut groups: Vec<Vec<u32>>) -> Option<DeviceLevel> {
    groups.sort();
    let tells = groups.iter().any(|group| group.len() > 1);
    tells.then_some(DeviceLevel { level, groups })
}

/// Sets divided by model.
fn by_model(sets: &[DeviceSet], places: &[DevicePlace]) -> Vec<Vec<u32>> {
    let parts = sets.iter().flat_map(|set| {
        let mut models: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for device in set {
            if let Some(place) = place(places, *device) {
                models.entry(&place.model).or_default().push(*device);
            }
        }
        models.into_values()
    });
    parts.collect()
}

fn place(places: &[DevicePlace], device: u32) -> Option<&DevicePlace> {
    places.get(usize::try_from(device).ok()?)
}

/// One level for each height of switches, the outermost first. The height of a switch counts
/// from the devices: those with no smaller group below them are the innermost.
fn pcie(places: &[DevicePlace]) -> Vec<Option<DeviceLevel>> {
    let heights = heights(&switch_sets(places));
    let levels = heights.into_values().rev().map(|sets| {
        let groups = by_model(&sets, places).into_iter();
        let shared = groups.filter(|group| cards(places, group) > 1);
        level(Level::Pcie, shared.collect())
    });
    levels.collect()
}

/// The different sets of devices below bridges that have more than one card, but not all
/// devices of the machine. One of two sets contains the other, or they have no device in common.
fn switch_sets(places: &[DevicePlace]) -> BTreeSet<DeviceSet> {
    let mut below: BTreeMap<&str, DeviceSet> = BTreeMap::new();
    for (device, place) in listed(places) {
        for bridge in &place.bridges {
            below.entry(bridge).or_default().insert(device);
        }
    }
    let all = listed(places).count();
    let divides = |set: &DeviceSet| set.len() < all && cards(places, set) > 1;
    below.into_values().filter(divides).collect()
}

fn cards<'d>(places: &[DevicePlace], devices: impl IntoIterator<Item = &'d u32>) -> usize {
    let places = devices
        .into_iter()
        .filter_map(|device| place(places, *device));
    let cards: BTreeSet<&str> = places.map(|place| place.card.as_str()).collect();
    cards.len()
}

fn heights(sets: &BTreeSet<DeviceSet>) -> BTreeMap<usize, Vec<DeviceSet>> {
    let mut by_size: Vec<&DeviceSet> = sets.iter().collect();
    by_size.sort_by_key(|set| set.len());
    let mut done: Vec<(&DeviceSet, usize)> = Vec::new();
    let mut heights: BTreeMap<usize, Vec<DeviceSet>> = BTreeMap::new();
    for set in by_size {
        let inside = done.iter().filter(|(inner, _)| inner.is_subset(set));
        let height = inside.map(|(_, height)| height + 1).max().unwrap_or(0);
        done.push((set, height));
        heights.entry(height).or_default().push(set.clone());
    }
    heights
}
