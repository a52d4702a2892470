//! Other places for members of a gang that is placed.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::NodeId;
use muster_placement::decide::Decision;
use muster_placement::gang::{Gang, GangNumber, Grant, Placement};
use muster_placement::plan::{Plan, advance};
use muster_placement::queue::{GangQueue, Queued};

use crate::coordinator::context::Context;
use crate::coordinator::inventory::Inventory;
use crate::vc::Current;

/// Where these members may go now; nobody gives way for them. They are not placed on nodes that are `avoided`,
/// nor on any that is `cut_off`.
pub(in crate::coordinator) fn places_elsewhere(
    context: &Context<'_>,
    inventory: &mut Inventory,
    members: Gang,
    avoided: BTreeSet<NodeId>,
    cut_off: BTreeSet<NodeId>,
) -> Option<Placement> {
    inventory
        .layout_mut()
        .reach(avoided.union(&cut_off).cloned().collect());
    let decision = decide_alone(context, inventory, members);
    inventory.layout_mut().reach(cut_off);
    match decision? {
        Decision::Place(grant) => Some(grant.placement),
        Decision::Preempt { .. } | Decision::Wait(_) | Decision::Refuse(_) => None,
    }
}

/// What is decided of a gang as if it alone waited.
fn decide_alone(context: &Context<'_>, inventory: &mut Inventory, gang: Gang) -> Option<Decision> {
    let since = context.wall;
    let queue = GangQueue {
        gangs: vec![Queued { gang, since }],
    };
    let cells = inventory.layout_mut().cells_mut()?;
    let policy = &context.options.policy.placement;
    let plan = advance(cells, &queue, policy, context.wall);
    Some(plan.decisions.into_iter().next_back()?.1)
}

/// Moves gangs that were placed where their last two attempts failed alike to other nodes, if there is room. Not while
/// a gang waits: its room is not taken because another one shuns a node.
pub(super) fn away_from_faults(
    context: &Context<'_>,
    inventory: &mut Inventory,
    queue: GangQueue,
    queued: &BTreeMap<GangNumber, Current<'_>>,
    plan: &mut Plan,
) {
    let is_placed = |(_, decision): &(GangNumber, Decision)| matches!(decision, Decision::Place(_));
    if !plan.kept.is_empty() || !plan.decisions.iter().all(is_placed) {
        return;
    }
    let gangs = queue.gangs.into_iter().map(|queued| queued.gang);
    let mut gangs: BTreeMap<GangNumber, Gang> = gangs.map(|gang| (gang.id, gang)).collect();
    for (number, decision) in &mut plan.decisions {
        let current = queued.get(number);
        let shunned = current.and_then(|it| it.job.shunned_by(it.gang.task.as_ref()));
        if let (Some(node), Some(gang)) = (shunned, gangs.remove(number))
            && is_on(inventory, decision, node)
        {
            inventory.withdraw(*number);
            let cut_off = inventory.layout().cut_off().clone();
            let avoided = BTreeSet::from([node.clone()]);
            let moved = places_elsewhere(context, inventory, gang.clone(), avoided, cut_off);
            let moved = moved.map(|placement| {
                Decision::Place(Grant {
                    placement,
                    ..Grant::default()
                })
            });
            // Without other room it has its place back.
            if let Some(again) = moved.or_else(|| decide_alone(context, inventory, gang)) {
                *decision = again;
            }
        }
    }
}

/// Whether a gang is to be placed there with a pod.
fn is_on(inventory: &Inventory, decision: &Decision, node: &NodeId) -> bool {
    let Decision::Place(Grant { placement, .. }) = decision else {
        return false;
    };
    let pods = placement.pods.iter();
    let mut places = pods.filter_map(|leaves| inventory.layout().place(leaves));
    places.any(|(id, _)| id == *node)
}
