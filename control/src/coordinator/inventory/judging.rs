//! Whether a job could ever be placed, told before it waits for ever.

use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::{TaskId, UserName};
use muster_model::job::{JobSpec, RoleSpec};
use muster_model::time::Time;
use muster_placement::cells::Cells;
use muster_placement::decide::{self, Policy};
use muster_placement::gang::GangId as Number;

use super::demand::{self, Asking};
use super::{Inventory, Terms};

impl Inventory {
    /// Whether a job could ever be placed, judged as a whole or task by task, as it asks.
    ///
    /// # Errors
    /// Why not, as the end of a sentence.
    pub(in crate::coordinator) fn judge(
        &self,
        job: &JobSpec,
        user: &UserName,
        policy: &Policy,
    ) -> Result<(), String> {
        let Some(cells) = &self.cells else {
            return Ok(());
        };
        judge(cells, &self.spec, job, user, policy)
    }
}

/// Whether a job could ever be placed on cells that were made from `spec`.
///
/// # Errors
/// Why not, as the end of a sentence.
pub(in crate::coordinator) fn judge(
    cells: &Cells,
    spec: &ClusterSpec,
    job: &JobSpec,
    user: &UserName,
    policy: &Policy,
) -> Result<(), String> {
    let all = job.roles.iter().flat_map(task_ids);
    let ids: Vec<TaskId> = all.collect();
    let each: Vec<&TaskId> = ids.iter().collect();
    let size = if job.gang { each.len() } else { 1 };
    for tasks in each.chunks(size.max(1)) {
        let asking = Asking {
            job,
            user,
            tasks,
            since: Time::default(),
        };
        let gang = demand::gang(spec, &asking, Number(0), &Terms::default())?;
        decide::judge(cells, &gang, policy).map_err(|refusal| refusal.to_string())?;
    }
    Ok(())
}

fn task_ids(role: &RoleSpec) -> impl Iterator<Item = TaskId> {
    (0..role.instances).map(|index| TaskId {
        role: role.name.clone(),
        index,
    })
}
