//! What each virtual cluster is promised and uses, in plain amounts.

use std::collections::BTreeMap;

use muster_model::cluster_spec::{ABSENT, CPU_LEAVES, EVERYTHING, PLAIN_LEAF, Sku};
use muster_model::id::VcName;
use muster_model::known_node::{KEPT_FREE, Share};
use muster_model::node::{Capacity, Free};
use muster_model::vc::{Amount, VcView};
use muster_placement::cells::{Cells, GangState};
use muster_placement::explain::{Shortfall, shortfalls};
use muster_placement::gang::Gang;

use crate::coordinator::inventory::Layout;
use crate::coordinator::liveness::{Liveness, MUTE};
use crate::coordinator::nodes::ReportedNodes;

/// All that has to do with promises.
#[derive(Clone, Copy, Debug)]
pub(in crate::coordinator) struct Quotas<'a> {
    /// The virtual cluster that is led.
    pub(in crate::coordinator) vc: &'a VcName,
    pub(in crate::coordinator) nodes: &'a ReportedNodes,
    pub(in crate::coordinator) liveness: &'a Liveness,
    pub(in crate::coordinator) layout: &'a Layout,
}

impl Quotas<'_> {
    /// Every virtual cluster that the administrator's description names; where the cluster is as
    /// it was found, the one that has all of it.
    pub(in crate::coordinator) fn virtual_clusters(&self) -> Vec<VcView> {
        let Some(described) = self.layout.described() else {
            let has_all = self.vc.as_str() == EVERYTHING;
            return has_all.then(|| self.everything()).into_iter().collect();
        };
        let names = described.virtual_clusters.keys();
        let view = |name: &VcName| match self.layout.cells() {
            Some(cells) => self.virtual_cluster(cells, name),
            None => VcView::new(name.clone()),
        };
        names.map(view).collect()
    }

    /// All that nodes have, but those that cannot be reached: they may be members no more.
    fn everything(&self) -> VcView {
        let mut view = VcView::new(self.vc.clone());
        let nodes = self.nodes.iter();
        for (id, node) in nodes.filter(|(id, _)| !self.liveness.is_unreachable(id)) {
            let share = Share::of(&node.capacity, &node.free.free);
            view.total = view.total.plus(share.total);
            view.used = view.used.plus(share.used());
            let is_open = !self.liveness.is_cordoned(id) && !self.nodes.mute().contains(id);
            count_devices(&mut view, &node.capacity, (&node.free.free, is_open));
            if self.liveness.is_cordoned(id) {
                view.problems.push(format!("{id}: {KEPT_FREE}"));
            } else if self.nodes.mute().contains(id) {
                view.problems.push(format!("{id} is not used: {MUTE}"));
            } else {
                view.guaranteed = view.guaranteed.plus(share.healthy);
            }
        }
        view
    }

    /// What virtual clusters are short of, as sentences for people.
    pub(in crate::coordinator) fn shortfalls(&self) -> Vec<String> {
        let cells = self.layout.described().and_then(|_| self.layout.cells());
        let all = cells.map(shortfalls).unwrap_or_default();
        let line = |short: &Shortfall| {
            format!(
                "virtual cluster {} is short: {}",
                short.vc,
                self.problem(short)
            )
        };
        all.iter().map(line).collect()
    }

    fn problem(&self, short: &Shortfall) -> String {
        if short.node.starts_with(ABSENT) {
            return format!(
                "{}: {} promised, and no such machine is there",
                short.node,
                match (short.leaves, &short.leaf_type) {
                    (1, kind) => format!("1 cell of type {kind} is"),
                    (leaves, kind) => format!("{leaves} cells of type {kind} are"),
                }
            );
        }
        let mut mute = self.liveness.mute(self.nodes);
        let is_mute = mute.any(|id| id.as_str() == short.node);
        let why = match short.is_cordoned {
            true => "cordoned",
            false if is_mute => MUTE,
            false => "sick or away",
        };
        let what = self.amount(short);
        let node = &short.node;
        format!("{what} on {node} cannot be used: {why}, and nothing stands in")
    }

    /// `2 V100`, or of a machine without devices the cores that its cells stand for.
    fn amount(&self, short: &Shortfall) -> String {
        if short.leaf_type != PLAIN_LEAF {
            return format!("{} {}", short.leaves, short.leaf_type);
        }
        let id = short.node.parse().ok();
        let node = id.and_then(|id| self.nodes.get(&id));
        match node.map(|node| share(&node.capacity, short.leaves.into()).cpu) {
            None => "what tasks without devices use".to_owned(),
            Some(1) => "1 core".to_owned(),
            Some(cores) => format!("{cores} cores"),
        }
    }

    fn virtual_cluster(&self, cells: &Cells, name: &VcName) -> VcView {
        let mut view = VcView::new(name.clone());
        let short = shortfalls(cells).into_iter();
        let short = short.filter(|short| short.vc == name.as_str());
        view.problems = short.map(|short| self.problem(&short)).collect();
        view.problems.extend(lacking(cells.unbound(name.as_str())));
        let mut plain: BTreeMap<&str, DevicelessCells> = BTreeMap::new();
        for leaf in cells.promised_leaves(name.as_str()) {
            let leaf_type = cells.leaf_type(leaf);
            let is_usable = cells.is_usable(leaf) && cells.is_bound(leaf);
            if leaf_type == PLAIN_LEAF {
                let of_node = plain.entry(cells.address(leaf).0).or_default();
                of_node.promised += 1;
                of_node.usable += u64::from(is_usable);
                continue;
            }
            let kind = view.devices.entry(leaf_type.to_owned()).or_default();
            kind.total += 1;
            kind.healthy += u32::from(is_usable);
            kind.used += u32::from(cells.is_held_by(leaf, name.as_str()));
            let brings = self.brings(leaf_type);
            view.total = view.total.plus(brings);
            if is_usable {
                view.guaranteed = view.guaranteed.plus(brings);
            }
            if cells.is_held_by(leaf, name.as_str()) {
                view.used = view.used.plus(brings);
            }
            if self.layout.spec().sku_types.contains_key(leaf_type) {
                view.skus.insert(leaf_type.to_owned(), brings);
            }
        }
        for (node, plain) in plain {
            let id = node.parse().ok();
            if let Some(node) = id.and_then(|id| self.nodes.get(&id)) {
                view.total = view.total.plus(share(&node.capacity, plain.promised));
                view.guaranteed = view.guaranteed.plus(share(&node.capacity, plain.usable));
            }
        }
        if self.layout.spec().sku_types.is_empty() {
            view.used = view.used.plus(shares_used(cells, name));
        }
        view
    }

    /// What one leaf of a type brings along: a device, unless something else is stated.
    fn brings(&self, leaf_type: &str) -> Amount {
        let stated = self.layout.spec().sku_types.get(leaf_type);
        let stated = stated.copied().unwrap_or_else(|| Sku {
            gpu: 1,
            ..Sku::default()
        });
        Amount {
            cpu: stated.cpu,
            memory_mb: stated.memory_mb,
            gpu: stated.gpu,
        }
    }
}

/// Counts the devices of a machine by what they are. `is_open`: whether anything is placed there.
fn count_devices(view: &mut VcView, capacity: &Capacity, (free, is_open): (&Free, bool)) {
    for device in &capacity.devices {
        let kind = view.devices.entry(device.model.clone()).or_default();
        let is_well = device.fault.is_none();
        let is_free = free.devices.iter().any(|(index, _)| *index == device.index);
        kind.total += 1;
        kind.healthy += u32::from(is_well && is_open);
        kind.used += u32::from(is_well && !is_free);
    }
}

/// Cells of a machine for tasks without devices.
#[derive(Clone, Copy, Debug, Default)]
struct DevicelessCells {
    promised: u64,
    usable: u64,
}

/// The share of a machine's cores and memory that so many of its plain cells stand for.
fn share(capacity: &Capacity, plain: u64) -> Amount {
    let all = u64::from(CPU_LEAVES);
    let cpu = u64::from(capacity.cpu) * plain / all;
    Amount {
        cpu: u32::try_from(cpu).unwrap_or(u32::MAX),
        memory_mb: capacity.memory_mb.saturating_mul(plain) / all,
        gpu: 0,
    }
}

/// Cores and memory of the tasks that run within a virtual cluster's promise.
fn shares_used(cells: &Cells, name: &VcName) -> Amount {
    let mut used = Amount::default();
    let is_within = |gang: &Gang, is: GangState| {
        let within = GangState::Allocated {
            lazily_preempted: false,
        };
        gang.vc == name.as_str() && !gang.is_opportunistic() && is == within
    };
    for (gang, placement, is) in cells.gangs() {
        if !is_within(gang, is) {
            continue;
        }
        let shares = gang.members.iter().flat_map(|member| {
            let pods = usize::try_from(member.pods).unwrap_or(usize::MAX);
            std::iter::repeat_n(member.share, pods)
        });
        let running = shares.zip(&placement.pods);
        for (share, _) in running.filter(|(_, leaves)| !leaves.is_empty()) {
            used = used.plus(Amount {
                cpu: share.cpu,
                memory_mb: share.memory_mb,
                gpu: 0,
            });
        }
    }
    used
}

fn lacking(cells: usize) -> Option<String> {
    let cells = match cells {
        0 => return None,
        1 => "1 cell is".to_owned(),
        cells => format!("{cells} cells are"),
    };
    Some(format!(
        "{cells} not bound to it yet: jobs that are on them without a promise give way when one of its own \
         waits"
    ))
}
