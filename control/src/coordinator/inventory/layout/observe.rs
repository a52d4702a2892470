//! From what nodes report to cells: how they are built, what is sick, who runs there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::cluster_spec::{ClusterSpec, Discovered};
use muster_model::id::NodeId;
use muster_model::node::{Capacity, DeviceLevel};
use muster_placement::cells::{Bins, CellEvent, Cells};
use muster_placement::gang::{Gang, Grant, Leaf, MachineAmount, Placement};

use super::Layout;
use crate::coordinator::nodes::ReportedNodes;

impl Layout {
    /// Whether any of the nodes has other devices than the cells were made for.
    pub(super) fn is_reshaped(&self, nodes: &ReportedNodes, news: &[NodeId]) -> bool {
        let differs = |id: &NodeId| {
            let now = nodes.get(id).map(|node| shape(&node.capacity));
            now != self.seen.get(id).map(shape)
        };
        let is_found = |description: &ClusterSpec| description.cells.is_empty();
        self.description.as_ref().is_some_and(is_found) && news.iter().any(differs)
    }

    /// Makes the cells, or makes them anew with everything that runs where it is.
    pub(super) fn reshape(&mut self, description: &ClusterSpec, nodes: &ReportedNodes) {
        let Discovered {
            spec,
            left_out,
            unmet,
        } = resolved(
            description,
            nodes.iter().map(|(id, node)| (id, &node.capacity)),
        );
        let unmet = unmet.iter().map(ToString::to_string);
        self.left_out = left_out.into_iter().chain(unmet).collect();
        self.problem = None;
        match &mut self.cells {
            Some(cells) => {
                let claims = claims(cells);
                let owned = CellEvent::Owned(Box::new(spec.clone()), self.owners.clone());
                match cells.apply(owned) {
                    Ok(()) => self.spec = Arc::new(spec),
                    Err(error) => self.problem = Some(error.to_string()),
                }
                claim_again(cells, claims);
            }
            None => match Cells::owned(&spec, Bins::default(), self.owners.clone()) {
                Ok(cells) => {
                    self.cells = Some(cells);
                    self.spec = Arc::new(spec);
                }
                Err(problems) => {
                    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
                    self.problem = Some(lines.join("; "));
                }
            },
        }
        self.note(CellEvent::Racks(self.racks.clone()));
        self.mark_silent(nodes);
    }

    /// Machines that are described but never reported cannot be used.
    fn mark_silent(&mut self, nodes: &ReportedNodes) {
        let Some(cells) = &self.cells else {
            return;
        };
        let names = cells.node_names().map(str::to_owned);
        let is_silent = |name: &String| !name.parse().is_ok_and(|id| nodes.contains(&id));
        let silent: Vec<String> = names.filter(is_silent).collect();
        for node in silent {
            let healthy = false;
            self.note(CellEvent::NodeHealth { node, healthy });
        }
    }

    /// Tells the cells which nodes cannot be reached.
    pub(in crate::coordinator) fn reach(&mut self, cut_off: BTreeSet<NodeId>) {
        let before = std::mem::replace(&mut self.cut_off, cut_off);
        let changed = before.symmetric_difference(&self.cut_off);
        let changed: Vec<NodeId> = changed.cloned().collect();
        for id in changed {
            self.mark(&id);
        }
    }

    /// Nodes that the cells were told cannot be reached.
    pub(in crate::coordinator) const fn cut_off(&self) -> &BTreeSet<NodeId> {
        &self.cut_off
    }

    /// Tells the cells which nodes an admin keeps free.
    pub(in crate::coordinator) fn cordon(&mut self, cordoned: BTreeSet<NodeId>) {
        let before = std::mem::replace(&mut self.cordoned, cordoned);
        let changed = before.symmetric_difference(&self.cordoned);
        let changed: Vec<NodeId> = changed.cloned().collect();
        for id in changed {
            self.mark(&id);
        }
    }

    /// Tells the cells in which racks nodes stand. What runs stays where it is. Whether it is news.
    pub(in crate::coordinator) fn stand(&mut self, racks: BTreeMap<NodeId, String>) -> bool {
        let named = racks.into_iter();
        let racks = named.map(|(id, rack)| (id.as_str().to_owned(), rack));
        let racks: BTreeMap<String, String> = racks.collect();
        let is_news = self.racks != racks;
        if is_news {
            self.racks.clone_from(&racks);
            self.is_roomier = true;
            self.is_changed = true;
            self.note(CellEvent::Racks(racks));
        }
        is_news
    }

    fn mark(&mut self, id: &NodeId) {
        let healthy = self.seen.contains_key(id) && !self.cut_off.contains(id);
        let on = self.cordoned.contains(id);
        self.is_roomier |= healthy && !on;
        self.is_changed = true;
        let node = id.as_str().to_owned();
        self.note(CellEvent::NodeHealth {
            node: node.clone(),
            healthy,
        });
        self.note(CellEvent::Cordon { node, on });
    }

    /// Tells the cells what a node has and what of it is sick.
    pub(super) fn observe(&mut self, id: &NodeId, capacity: &Capacity) {
        let node = id.as_str().to_owned();
        let amount = amount(capacity);
        self.note(CellEvent::Capacity {
            node: node.clone(),
            amount,
        });
        self.seen.insert(id.clone(), capacity.clone());
        self.mark(id);
        for (device, healthy) in self.health_of(&node, capacity) {
            self.note(CellEvent::DeviceHealth {
                node: node.clone(),
                device,
                healthy,
            });
        }
    }

    /// Every device that the cells have on a node, and whether it can be used.
    fn health_of(&self, node: &str, capacity: &Capacity) -> Vec<(u32, bool)> {
        let Some(cells) = &self.cells else {
            return Vec::new();
        };
        let healthy = capacity.devices.iter().filter(|d| d.fault.is_none());
        let healthy: BTreeSet<u32> = healthy.map(|device| device.index).collect();
        let leaves = cells.leaves_on(node);
        let devices = leaves.filter(|leaf| !self.spec.is_plain(cells.leaf_type(*leaf)));
        let indices = devices.map(|leaf| cells.address(leaf).1);
        indices
            .map(|index| (index, healthy.contains(&index)))
            .collect()
    }
}

/// The cluster that a description stands for: with the machines that were found, where it names none.
pub(in crate::coordinator) fn resolved<'a>(
    description: &ClusterSpec,
    nodes: impl Iterator<Item = (&'a NodeId, &'a Capacity)>,
) -> Discovered {
    if !description.cells.is_empty() {
        return Discovered {
            spec: description.clone(),
            ..Discovered::default()
        };
    }
    ClusterSpec::of_nodes(nodes, &description.virtual_clusters)
}

/// A gang that waits for its victims, and by pod the machines and addresses that it claims.
type Claim = (Gang, Vec<Vec<(String, u32)>>);

fn claims(cells: &Cells) -> Vec<Claim> {
    let claims = cells.claiming().filter_map(|number| cells.gang(number));
    let address = |leaf: &Leaf| {
        let (node, address) = cells.address(*leaf);
        (node.to_owned(), address)
    };
    claims
        .map(|(gang, placement, _)| {
            let pods = placement.pods.iter();
            let pods = pods.map(|leaves| leaves.iter().map(address).collect());
            (gang.clone(), pods.collect())
        })
        .collect()
}

/// Cells that are made anew know no claims. Without them a gang whose victims are ending would
/// look for other victims. Who lost what it claimed is decided anew.
fn claim_again(cells: &mut Cells, claims: Vec<Claim>) {
    for (gang, pods) in claims {
        let find = |(node, address): &(String, u32)| cells.leaf(node, *address);
        let pods = pods.iter().map(|pod| pod.iter().map(find).collect());
        let Some(pods) = pods.collect::<Option<Vec<Vec<Leaf>>>>() else {
            continue;
        };
        let grant = Grant {
            placement: Placement { pods },
            ..Grant::default()
        };
        let _refused = cells.apply(CellEvent::Preempting { gang, grant });
    }
}

/// What decides how a node's cells are built.
fn shape(capacity: &Capacity) -> (Vec<(u32, &str)>, &[DeviceLevel]) {
    let devices = capacity.devices.iter();
    let devices = devices.map(|device| (device.index, &*device.model));
    (devices.collect(), &capacity.levels)
}

fn amount(capacity: &Capacity) -> MachineAmount {
    let ports = capacity.port_last.saturating_sub(capacity.port_first);
    MachineAmount {
        cpu: capacity.cpu,
        memory_mb: capacity.memory_mb,
        ports: u32::from(ports) + 1,
    }
}
