//! Orders made from the committed placement.

use std::sync::Arc;

use muster_model::job::JobSpec;
use muster_model::launch::{TaskPlacement, TaskSpec};
use muster_model::policy::VcJobBounds;

use crate::environment::{self, Scene, TaskContext, Variables};
use crate::launch::task_spec;
use crate::order::GangCommand;
use crate::vc::Current;

/// The launch of a gang: what is the same on all of its nodes is made once.
#[derive(Debug, Default)]
pub(super) struct GangLaunch {
    /// None if the job's document cannot be read: there is nothing to launch.
    spec: Option<JobSpec>,
    /// For so many seconds the containers of failed tasks are kept.
    hold_s: Option<u32>,
    shared: Arc<Variables>,
}

impl GangLaunch {
    pub(super) fn of(current: &Current<'_>, bounds: &VcJobBounds) -> Self {
        let job = &current.job.accepted;
        let Some(spec) = job.document.whole(&job.spec) else {
            return Self::default();
        };
        // Without gang allocation a task sees the peers that have a place by now.
        let all = current.job.attempt.tasks.iter();
        let placements: Vec<&TaskPlacement> = all.filter_map(|task| task.live()).collect();
        let shared = environment::shared(&Scene {
            key: &job.key,
            spec: &spec,
            placements: &placements,
        });
        Self {
            hold_s: bounds.hold_s(&spec),
            spec: Some(spec),
            shared: Arc::new(shared),
        }
    }

    /// The order to one node, on which these tasks of the gang are.
    pub(super) fn command(
        &self,
        current: &Current<'_>,
        places: &[&TaskPlacement],
        (disk_mb, grace_ms): (u64, u64),
    ) -> GangCommand {
        let tasks = places.iter();
        GangCommand::Launch {
            tasks: tasks
                .filter_map(|place| self.task(current, place, disk_mb))
                .collect(),
            shared: Arc::clone(&self.shared),
            grace_ms,
        }
    }

    fn task(&self, current: &Current<'_>, place: &TaskPlacement, disk_mb: u64) -> Option<TaskSpec> {
        let job = &current.job.accepted;
        let mut roles = self.spec.as_ref()?.roles.iter();
        let role = roles.find(|role| role.name == place.task.role)?;
        let part = TaskContext {
            key: &job.key,
            attempt: current.run.attempt.job,
            task_attempt: current.run.attempt.task,
            place,
        };
        let lease = current.gang.lease;
        Some(TaskSpec {
            hold_s: self.hold_s,
            ..task_spec(&part, role, disk_mb, lease, &job.sealed_secrets)
        })
    }
}
