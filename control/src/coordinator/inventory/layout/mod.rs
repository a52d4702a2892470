//! The cells: what they are made from, what they know of nodes, and what is wrong with them.

mod observe;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::{NodeId, VcName};
use muster_model::job::JobSpec;
use muster_model::node::{Capacity, DeviceId};
use muster_placement::cells::{CellEvent, Cells, GangState, Owners};
use muster_placement::gang::{Gang, GangNumber as Number, Leaf, Placement};

use crate::coordinator::nodes::ReportedNodes;

pub(in crate::coordinator) use observe::resolved;

/// The cells, made from the description of the cluster, from what nodes report and from who is bound to what.
#[derive(Clone, Debug, Default)]
pub(in crate::coordinator) struct Layout {
    /// As the administrator describes the cluster; without physical cells: as it is found. None
    /// while it is not known.
    description: Option<ClusterSpec>,
    /// Whether the cells were made by another description.
    is_outdated: bool,
    /// Who has which leaves, where the cluster binds.
    owners: Option<Owners>,
    /// Whether the cells were made by other owners.
    is_rebound: bool,
    /// What the cells were made from.
    spec: Arc<ClusterSpec>,
    cells: Option<Cells>,
    /// Why there are none.
    problem: Option<String>,
    /// What was found but has no place in them, as sentences.
    left_out: Vec<String>,
    /// What the cells know of each node.
    seen: BTreeMap<NodeId, Capacity>,
    /// Nodes that they were told cannot be reached.
    cut_off: BTreeSet<NodeId>,
    /// Nodes that they were told are kept free.
    cordoned: BTreeSet<NodeId>,
    /// Racks that nodes stand in, by their names.
    racks: BTreeMap<String, String>,
    /// Something may fit now that did not before.
    is_roomier: bool,
    /// Something may be elsewhere in them, or find a place.
    is_changed: bool,
}

impl Layout {
    /// Forgets everything but the description and the racks, as a new leader must.
    pub(super) fn clear(&mut self) {
        *self = Self {
            description: self.description.take(),
            racks: std::mem::take(&mut self.racks),
            ..Self::default()
        };
    }

    pub(in crate::coordinator) fn cells(&self) -> Option<&Cells> {
        self.cells.as_ref()
    }

    /// How the administrator describes the cluster, once that is known.
    pub(in crate::coordinator) fn description(&self) -> Option<&ClusterSpec> {
        self.description.as_ref()
    }

    /// The description, if there is one that promises anything.
    pub(in crate::coordinator) fn described(&self) -> Option<&ClusterSpec> {
        let description = self.description();
        description.filter(|description| !description.virtual_clusters.is_empty())
    }

    /// The cluster is described so from now on; none: that is not known any more. Whether it is
    /// news.
    pub(in crate::coordinator) fn describe(&mut self, description: Option<ClusterSpec>) -> bool {
        let is_news = self.description != description;
        if is_news {
            self.description = description;
            self.is_outdated = true;
        }
        is_news
    }

    /// Which virtual cluster has which leaves from now on; none: each leader binds on its own.
    pub(in crate::coordinator) fn own(&mut self, owners: Option<Owners>) {
        if self.owners != owners {
            // Whether anybody says so at all is no matter of time.
            self.is_outdated |= self.owners.is_some() != owners.is_some();
            self.owners = owners;
            self.is_rebound = true;
        }
    }

    /// Whether the cluster says who has which leaves.
    pub(in crate::coordinator) const fn is_owned(&self) -> bool {
        self.owners.is_some()
    }

    /// Whether a gang of this job is placed within what the virtual cluster is bound to.
    pub(in crate::coordinator) fn is_within(&self, job: &JobSpec) -> bool {
        self.is_owned() && !job.is_opportunistic()
    }

    /// How many cells that a virtual cluster was promised it is not bound to yet; none where nobody but
    /// its leader binds it.
    pub(in crate::coordinator) fn lacking(&self, vc: &VcName) -> Option<usize> {
        let cells = self.cells().filter(|_| self.is_owned())?;
        Some(cells.unbound(vc.as_str()))
    }

    /// Has a virtual cluster's unused quota cells on the best of its leaves.
    pub(in crate::coordinator) fn settle_in(&mut self, vc: &str) {
        if let Some(cells) = &mut self.cells {
            cells.settle_in(vc);
        }
    }

    /// A node is no member any more: cells that were found there are none.
    pub(in crate::coordinator) fn forget_node(&mut self, node: &NodeId) {
        self.seen.remove(node);
        self.is_outdated = true;
    }

    /// What the cells were made from, if there are any.
    pub(in crate::coordinator) fn made(&self) -> Option<(&Cells, &ClusterSpec)> {
        Some((self.cells.as_ref()?, &self.spec))
    }

    pub(in crate::coordinator) fn cells_mut(&mut self) -> Option<&mut Cells> {
        self.cells.as_mut()
    }

    /// What the cells were made from.
    pub(in crate::coordinator) fn spec(&self) -> &ClusterSpec {
        &self.spec
    }

    pub(in crate::coordinator) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// What is wrong with the cells, as sentences for people.
    pub(in crate::coordinator) fn problems(&self) -> impl Iterator<Item = String> {
        let unused = self.problem.iter().map(|problem| match &self.cells {
            Some(_) => format!("the cells are as they were before: {problem}"),
            None => format!("nothing is placed: {problem}"),
        });
        unused.chain(self.left_out.iter().cloned())
    }

    /// Whether something may fit now that did not at the last call.
    pub(in crate::coordinator) fn take_roomier(&mut self) -> bool {
        std::mem::take(&mut self.is_roomier)
    }

    /// Whether the cells have a node; so while there are none.
    pub(in crate::coordinator) fn has_node(&self, id: &NodeId) -> bool {
        let mut cells = self.cells.iter();
        cells.all(|cells| cells.leaves_on(id.as_str()).next().is_some())
    }

    /// Whether the gang holds or claims cells.
    pub(in crate::coordinator) fn has(&self, number: Number) -> bool {
        let cells = self.cells.as_ref();
        cells.is_some_and(|cells| cells.gang(number).is_some())
    }

    /// The node of a pod and the addresses of its leaves there.
    pub(in crate::coordinator) fn place(&self, leaves: &[Leaf]) -> Option<(NodeId, Vec<u32>)> {
        let cells = self.cells.as_ref()?;
        let node = cells.address(*leaves.first()?).0.parse().ok()?;
        let addresses = leaves.iter().map(|leaf| cells.address(*leaf).1);
        Some((node, addresses.collect()))
    }

    /// The devices of a task that asks for so many, among its leaves; none if one is not there.
    pub(in crate::coordinator) fn devices(
        &self,
        capacity: &Capacity,
        leaves: &[u32],
        count: u32,
    ) -> Option<Vec<(u32, DeviceId)>> {
        let named = |index: &u32| {
            let mut devices = capacity.devices.iter();
            let device = devices.find(|device| device.index == *index)?;
            Some((*index, device.id.clone()))
        };
        let count = usize::try_from(count).ok()?;
        let devices: Vec<_> = leaves
            .iter()
            .take(count)
            .map(named)
            .collect::<Option<_>>()?;
        (devices.len() == count).then_some(devices)
    }

    /// Tells the cells something. What they refuse was not so; nothing follows from it.
    pub(super) fn note(&mut self, event: CellEvent) {
        if let Some(cells) = &mut self.cells {
            let _refused = cells.apply(event);
        }
    }

    /// Nodes that have reported something else than the cells know of them.
    fn news(&self, nodes: &ReportedNodes) -> Vec<NodeId> {
        let is_news = |id: &&NodeId| {
            let now = nodes.get(id).map(|node| &node.capacity);
            self.seen.get(*id) != now
        };
        nodes.news().iter().filter(is_news).cloned().collect()
    }

    /// Whether there are cells that [`Layout::update`] would make anew, for what nodes report alone.
    pub(in crate::coordinator) fn is_to_be_reshaped(&self, nodes: &ReportedNodes) -> bool {
        let is_made = self.cells.is_some() && !self.is_outdated;
        is_made && (self.is_rebound || self.is_reshaped(nodes, &self.news(nodes)))
    }

    /// What the cells know of a node.
    pub(super) fn seen(&self, node: &NodeId) -> Option<&Capacity> {
        self.seen.get(node)
    }

    /// Something may fit now that did not before.
    pub(super) const fn make_room(&mut self) {
        self.is_roomier = true;
    }

    /// Whether the cells are others, or nodes may be used otherwise, than at the last call.
    pub(super) const fn take_changed(&mut self) -> bool {
        std::mem::replace(&mut self.is_changed, false)
    }

    /// A gang as the cells have it, and where.
    pub(super) fn gang(&self, number: Number) -> Option<(&Gang, &Placement, GangState)> {
        self.cells.as_ref()?.gang(number)
    }

    pub(super) fn is_preempting(&self, number: Number) -> bool {
        let gang = self.gang(number);
        gang.is_some_and(|(_, _, state)| state == GangState::Preempting)
    }

    /// Where the cells have a gang.
    pub(super) fn placement(&self, number: Number) -> Option<Placement> {
        let (_, placement, _) = self.gang(number)?;
        Some(placement.clone())
    }

    /// The leaf that a gang has by what is committed, unless somebody else has it. While a
    /// description did not name the machine the place of a task without a device may have been
    /// given to another: one place is as good as the next.
    pub(super) fn ours(
        &self,
        node: &str,
        address: u32,
        number: Number,
        taken: &BTreeSet<Leaf>,
    ) -> Option<Leaf> {
        let cells = self.cells.as_ref()?;
        let leaf = cells.leaf(node, address)?;
        let is_free = |leaf: &Leaf| {
            let holder = cells.held_by(*leaf);
            holder.is_none_or(|holder| holder == number) && !taken.contains(leaf)
        };
        if is_free(&leaf) {
            return Some(leaf);
        }
        let is_place = |leaf: &Leaf| self.spec.is_plain(cells.leaf_type(*leaf));
        let places = cells.leaves_on(node).filter(is_place).filter(is_free);
        let first = places.min_by_key(|place| (cells.held_by(*place) != Some(number), *place));
        first.filter(|_| is_place(&leaf))
    }

    /// Brings the cells up to what nodes report, and to how the cluster is described. Whether they were
    /// made anew; none if there was nothing to do.
    pub(super) fn update(&mut self, nodes: &mut ReportedNodes) -> Option<bool> {
        let news = self.news(nodes);
        let is_outdated = self.is_outdated || self.is_rebound;
        if self.cells.is_some() && news.is_empty() && !is_outdated {
            return None;
        }
        let description = self.description.clone()?;
        nodes.looked_at();
        self.is_roomier = true;
        self.is_changed = true;
        let is_shaped = self.cells.is_none() || is_outdated || self.is_reshaped(nodes, &news);
        if is_shaped {
            self.is_outdated = false;
            self.is_rebound = false;
            self.reshape(&description, nodes);
        }
        for id in news {
            if let Some(node) = nodes.get(&id) {
                self.observe(&id, &node.capacity);
            }
        }
        Some(is_shaped)
    }
}
