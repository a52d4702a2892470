//! What one task is to be given.

use muster_model::id::{AttemptUid, TaskId};
use muster_model::launch::TaskPlacement;
use muster_placement::gang::Leaf;

use super::parts::GangContext;
use crate::coordinator::context::Context;
use crate::coordinator::places::member_of;
use crate::gang::attempt_uid;
use crate::order::ReserveAsk;
use crate::vc::Current;

/// The name of a task attempt. After a recovery it is another one than any that lost entries gave to
/// the same attempt.
pub(super) fn uid_of(context: &Context<'_>, current: &Current<'_>, task: &TaskId) -> AttemptUid {
    let job = current.job.accepted.uid.as_str();
    match context.options.generation {
        0 | 1 => attempt_uid(job, &current.run, task),
        later => attempt_uid(&format!("{job}/{later}"), &current.run, task),
    }
}

/// What one task is to be given, and its place; its ports come with the grant. None if a node does not have it
/// any more.
pub(super) fn ask(
    parts: &GangContext<'_>,
    current: &Current<'_>,
    task: &TaskId,
    leaves: &[Leaf],
) -> Option<(TaskPlacement, ReserveAsk)> {
    let inventory = &parts.inventory;
    let job = &current.job.accepted;
    let role = job.spec.roles.iter().find(|role| role.name == task.role)?;
    let (node, leaves) = inventory.layout().place(leaves)?;
    let known = parts.nodes.get(&node)?;
    let placement = TaskPlacement {
        task: task.clone(),
        uid: uid_of(&parts.context, current, task),
        node,
        address: known.address.clone(),
        devices: inventory
            .layout()
            .devices(&known.capacity, &leaves, role.resources.gpu)?,
        leaves,
        ports: Vec::new(),
    };
    let held = parts.context.state.own_cells().held();
    let epoch = |leaf: &u32| held.epoch_of(&placement.node, *leaf);
    let epochs = match inventory.layout().is_within(&job.spec) {
        true => placement.leaves.iter().map(epoch).collect::<Option<_>>()?,
        false => Vec::new(),
    };
    let ask = ReserveAsk {
        member: member_of(&placement),
        cpu: role.resources.cpu,
        memory_mb: role.resources.memory_mb,
        devices: placement.devices.clone(),
        leaves: placement.leaves.clone(),
        epochs,
        ports: role.resources.ports.clone(),
    };
    Some((placement, ask))
}
