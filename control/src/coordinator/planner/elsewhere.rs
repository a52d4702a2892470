//! Other places for members of a gang that is placed.

use std::collections::BTreeSet;

use muster_model::id::NodeId;
use muster_placement::decide::Decision;
use muster_placement::gang::{Gang, Placement};
use muster_placement::plan::advance;
use muster_placement::queue::{GangQueue, Queued};

use crate::coordinator::context::Context;
use crate::coordinator::inventory::Inventory;

/// Where these members may go now; nobody gives way for them. They are not placed on nodes that are `avoided`,
/// nor on any that is `cut_off`.
pub(in crate::coordinator) fn places_elsewhere(
    context: &Context<'_>,
    inventory: &mut Inventory,
    members: Gang,
    mut avoided: BTreeSet<NodeId>,
    cut_off: BTreeSet<NodeId>,
) -> Option<Placement> {
    let queue = GangQueue {
        gangs: vec![Queued {
            gang: members,
            since: context.wall,
        }],
    };
    avoided.extend(cut_off.iter().cloned());
    inventory.layout_mut().reach(avoided);
    let cells = inventory.layout_mut().cells_mut();
    let plan = cells.map(|cells| {
        advance(
            cells,
            &queue,
            &context.options.policy.placement,
            context.wall,
        )
    });
    inventory.layout_mut().reach(cut_off);
    match plan?.decisions.pop()?.1 {
        Decision::Place(grant) => Some(grant.placement),
        Decision::Preempt { .. } | Decision::Wait(_) | Decision::Refuse(_) => None,
    }
}
