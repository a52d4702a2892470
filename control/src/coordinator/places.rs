//! Where the tasks of gangs are by what is committed.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::NodeId;
use muster_model::launch::TaskPlacement;

use crate::order::RunMember;
use crate::vc::{Current, VcState};

/// Where tasks of the gang are that may hold something, in the gang's order.
pub(super) fn live_places<'a>(
    current: &Current<'a>,
) -> impl Iterator<Item = &'a TaskPlacement> + use<'a> {
    let tasks = current.job.attempt.tasks_of(current.gang);
    tasks.filter_map(|task| task.live())
}

/// The same by node.
pub(super) fn places_by_node<'a>(
    current: &Current<'a>,
) -> BTreeMap<&'a NodeId, Vec<&'a TaskPlacement>> {
    let mut nodes: BTreeMap<&NodeId, Vec<&TaskPlacement>> = BTreeMap::new();
    for place in live_places(current) {
        nodes.entry(&place.node).or_default().push(place);
    }
    nodes
}

/// Tasks of the gang that may hold something, by node.
pub(super) fn live_members(current: &Current<'_>) -> Vec<(NodeId, RunMember)> {
    let places = live_places(current);
    places
        .map(|place| (place.node.clone(), member_of(place)))
        .collect()
}

/// Whether a task of the gang may hold something on the node.
pub(super) fn is_on(current: &Current<'_>, node: &NodeId) -> bool {
    live_places(current).any(|place| place.node == *node)
}

/// The nodes that tasks of the virtual cluster may be running on.
pub(super) fn nodes_in_use(state: &VcState) -> BTreeSet<NodeId> {
    let places = state.live().flat_map(|current| live_places(&current));
    let nodes: BTreeSet<&NodeId> = places.map(|place| &place.node).collect();
    nodes.into_iter().cloned().collect()
}

pub(super) fn member_of(placement: &TaskPlacement) -> RunMember {
    RunMember {
        task: placement.task.clone(),
        uid: placement.uid.clone(),
    }
}
