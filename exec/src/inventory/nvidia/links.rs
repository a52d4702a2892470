//! Which GPUs NVLink links.

use std::collections::BTreeSet;

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus};

use super::ask::address;

/// More links per GPU than any has; the driver ends them sooner.
const LINKS_MAX: u32 = 64;
/// NVIDIA's PCI number, the low half of what the library gives as a device's.
const VENDOR: u32 = 0x10de;

/// Pairs of the GPUs that are linked, each with the lower number first: directly, or by a switch.
///
/// The driver tells of each pair whether NVLink carries data between them. Old drivers do not;
/// then the other ends of the links do.
pub(super) fn linked(gpus: &[(u32, Device<'_>)]) -> BTreeSet<(u32, u32)> {
    by_pairs(gpus).unwrap_or_else(|| by_ends(gpus))
}

/// None if the driver answers for no pair.
fn by_pairs(gpus: &[(u32, Device<'_>)]) -> Option<BTreeSet<(u32, u32)>> {
    let mut is_told = gpus.len() < 2;
    let mut linked = BTreeSet::new();
    for (at, (index, gpu)) in gpus.iter().enumerate() {
        for (other_index, other) in gpus.iter().skip(at + 1) {
            if let Ok(status) = gpu.p2p_status(other, P2pCapabilitiesIndex::NvLink) {
                is_told = true;
                if status == P2pStatus::Ok {
                    linked.insert((*index, *other_index));
                }
            }
        }
    }
    is_told.then_some(linked)
}

/// Two GPUs are linked if one is at the other's end, or one switch at the ends of both.
fn by_ends(gpus: &[(u32, Device<'_>)]) -> BTreeSet<(u32, u32)> {
    let known: Vec<(u32, Option<String>, BTreeSet<String>)> = gpus
        .iter()
        .map(|(index, gpu)| {
            let own = gpu.pci_info().ok().map(|place| address(&place));
            (*index, own, ends(gpu))
        })
        .collect();
    let mut linked = BTreeSet::new();
    for (at, (index, own, ends)) in known.iter().enumerate() {
        for (other_index, other_own, other_ends) in &known[at + 1..] {
            let is_end = |ends: &BTreeSet<String>, own: &Option<String>| {
                own.as_ref().is_some_and(|own| ends.contains(own))
            };
            let is_switched = !ends.is_disjoint(other_ends);
            if is_switched || is_end(ends, other_own) || is_end(other_ends, own) {
                linked.insert((*index, *other_index));
            }
        }
    }
    linked
}

/// What is at the other ends of a GPU's links: GPUs and switches. A CPU can be as well, which
/// links no GPU to another.
fn ends(gpu: &Device<'_>) -> BTreeSet<String> {
    let mut ends = BTreeSet::new();
    for link in 0..LINKS_MAX {
        let link = gpu.link_wrapper_for(link);
        match link.is_active() {
            Ok(true) => {}
            Ok(false) => continue,
            Err(_) => break,
        }
        let remote = link.remote_pci_info().ok();
        let remote = remote.filter(|place| place.pci_device_id & 0xffff == VENDOR);
        ends.extend(remote.map(|place| address(&place)));
    }
    ends
}

/// Groups of which each GPU is linked with each other, by the places that `place_of` gives to
/// the driver's numbers. Where not all are linked with all, as in meshes of pairs, the groups
/// are the largest that the first GPUs make.
pub fn groups(place_of: &[(u32, u32)], links: &BTreeSet<(u32, u32)>) -> Vec<Vec<u32>> {
    let is_linked = |a: u32, b: u32| links.contains(&(a.min(b), a.max(b)));
    let mut free: Vec<(u32, u32)> = place_of.to_vec();
    let mut groups = Vec::new();
    while !free.is_empty() {
        let mut group: Vec<(u32, u32)> = Vec::new();
        for (index, place) in &free {
            if group.iter().all(|(member, _)| is_linked(*member, *index)) {
                group.push((*index, *place));
            }
        }
        free.retain(|gpu| !group.contains(gpu));
        if group.len() > 1 {
            groups.push(group.into_iter().map(|(_, place)| place).collect());
        }
    }
    groups
}
