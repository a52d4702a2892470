//! Orders made from the committed placement.

use muster_model::id::NodeId;
use muster_model::launch::{Placement, TaskSpec};

use crate::environment::Scene;
use crate::launch::task_spec;
use crate::order::Member;
use crate::vc::Current;

/// Tasks of the gang that may hold something, by node.
pub(super) fn live_members(current: &Current<'_>) -> Vec<(NodeId, Member)> {
    let tasks = current.job.attempt.tasks_of(current.gang);
    let live = tasks.filter_map(|task| task.live());
    live.map(|place| (place.node.clone(), member_of(place)))
        .collect()
}

/// The tasks that a node is to launch. Without gang allocation a task sees the peers that have
/// a place by now.
pub(super) fn tasks_on(current: &Current<'_>, node: &NodeId, disk_mb: u64) -> Vec<TaskSpec> {
    let job = &current.job.accepted;
    let Some(spec) = job.document.whole(&job.spec) else {
        return Vec::new();
    };
    let all = current.job.attempt.tasks.iter();
    let placements: Vec<Placement> = all.filter_map(|task| task.live().cloned()).collect();
    let own = placements
        .iter()
        .filter(|place| place.node == *node && current.gang.holds(&place.task));
    own.filter_map(|own| {
        let role = spec.roles.iter().find(|role| role.name == own.task.role)?;
        let scene = Scene {
            key: &job.key,
            spec: &spec,
            attempt: current.run.attempt.job,
            task_attempt: current.run.attempt.task,
            placements: &placements,
            own,
        };
        let lease = current.gang.lease;
        Some(task_spec(&scene, role, disk_mb, lease, &job.sealed_secrets))
    })
    .collect()
}

pub(super) fn member_of(placement: &Placement) -> Member {
    Member {
        task: placement.task.clone(),
        uid: placement.uid.clone(),
    }
}
