//! Whether a job could ever be placed, and what is wrong with the cells that jobs are placed on.

use muster_model::id::UserName;
use muster_model::job::JobSpec;
use muster_model::time::Time;
use muster_placement::decide::DecisionPolicy;

use super::Quotas;
use crate::coordinator::inventory::UnplaceableJob;
use crate::coordinator::liveness::MUTE;

impl Quotas<'_> {
    /// Whether a job could ever be placed; with a remark, if that may be so on `unheard` machines only.
    ///
    /// # Errors
    /// Why not, and for which field.
    pub(in crate::coordinator) fn judge(
        &self,
        job: &JobSpec,
        user: &UserName,
        policy: &DecisionPolicy,
        unheard: usize,
    ) -> Result<Option<String>, UnplaceableJob> {
        let described = self.layout.described();
        let is_found = described.is_none_or(|it| it.cells.is_empty());
        if described.is_some_and(|it| !it.virtual_clusters.contains_key(&job.vc)) {
            return Err(UnplaceableJob::no_vc(job));
        }
        if is_found && !self.knows_its_machines() {
            return Ok(None);
        }
        match self.layout.judge(job, user, policy) {
            Ok(()) => Ok(None),
            Err(refused) if is_found && unheard > 0 => Ok(Some(format!(
                "On the machines that are known now it cannot start: {}. {unheard} more may be able to, which have \
                 not been heard yet; it waits for them.",
                refused.why
            ))),
            Err(refused) => Err(refused),
        }
    }

    /// What is wrong with the cells that jobs are placed on, as sentences for people.
    pub(in crate::coordinator) fn problems(&self, now: Time) -> Vec<String> {
        let nodes = self.nodes.ids();
        let nodes = nodes.filter(|id| !self.layout.has_node(id));
        let strangers = nodes.map(|id| {
            format!(
                "nothing is placed on {id}: the description of the cluster does not name it; add \
                 it under physicalCells"
            )
        });
        let mute = self.liveness.mute(self.nodes);
        let mute = mute.map(|id| format!("nothing is placed on {id}: {MUTE}"));
        let problems = self.layout.problems().chain(strangers).chain(mute);
        let problems = problems.chain(self.liveness.mass_failure(now, self.nodes));
        problems.chain(self.shortfalls()).collect()
    }

    /// Whether there are cells of all machines that have reported.
    fn knows_its_machines(&self) -> bool {
        let mut ids = self.nodes.ids();
        !self.nodes.is_empty()
            && self.layout.cells().is_some()
            && !self.layout.is_to_be_reshaped(self.nodes)
            && ids.all(|id| self.layout.has_node(id))
    }
}
