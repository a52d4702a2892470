//! How the administrator describes the cluster, and what another description would do.

use muster_model::cluster_spec::{ClusterSpec, SpecProblem};
use muster_model::vc::{Impossible, WhatIf};
use muster_placement::cells::{Bins, Cells, Error};
use muster_placement::gang::GangId as Number;

use super::Coordinator;
use super::inventory::{judge, resolved};
use super::planning::Due;
use crate::vc::VcState;

impl Coordinator {
    /// The cluster is described so from now on.
    pub(super) fn describe(&mut self, description: ClusterSpec) {
        if self.inventory.describe(description) {
            self.plan.impossible.clear();
            self.plan.due(Due::All);
        }
    }

    /// The description, if there is one that promises anything.
    pub(super) fn described(&self) -> Option<&ClusterSpec> {
        let description = self.inventory.description();
        description.filter(|description| !description.virtual_clusters.is_empty())
    }

    /// A description of the machines that were found, promised to one virtual cluster: to be edited.
    pub fn found(&self) -> String {
        resolved(&ClusterSpec::default(), &self.nodes).template()
    }

    /// What would become of jobs and promises if the cluster were described so.
    ///
    /// # Errors
    /// Everything that is wrong with the description.
    pub fn what_if(
        &self,
        state: &VcState,
        description: &ClusterSpec,
    ) -> Result<WhatIf, Vec<SpecProblem>> {
        let found = resolved(description, &self.nodes);
        if !found.unmet.is_empty() {
            return Err(found.unmet);
        }
        let spec = found.spec;
        let (cells, mut what) = self.losers(state, &spec)?;
        what.impossible = self.impossible(state, &cells, &spec);
        let is_node = |name: &str| self.nodes.keys().any(|id| id.as_str() == name);
        let absent = cells.node_names().filter(|name| !is_node(name));
        what.absent = absent.map(str::to_owned).collect();
        let is_named = |name: &str| cells.leaves_on(name).next().is_some();
        let unnamed = self.nodes.keys().filter(|id| !is_named(id.as_str()));
        what.unnamed = unnamed.cloned().collect();
        Ok(what)
    }

    /// The cells as they would be, and the jobs that would lose something they have.
    fn losers(
        &self,
        state: &VcState,
        spec: &ClusterSpec,
    ) -> Result<(Cells, WhatIf), Vec<SpecProblem>> {
        let Some(now) = self.inventory.cells() else {
            return Ok((Cells::new(spec, Bins::default())?, WhatIf::default()));
        };
        let lost = now.what_if(spec).map_err(|error| match error {
            Error::Spec(problems) => problems,
            error => vec![SpecProblem::new("", error.to_string())],
        })?;
        let jobs = |numbers: &[Number]| {
            let keys = numbers
                .iter()
                .filter_map(|number| self.key_of(state, *number));
            keys.cloned().collect()
        };
        let what = WhatIf {
            lose_quota: jobs(&lost.lose_quota),
            lose_devices: jobs(&lost.lose_devices),
            ..WhatIf::default()
        };
        Ok((lost.after, what))
    }

    /// The waiting jobs that could run on these cells never, and could on those that there are.
    fn impossible(&self, state: &VcState, cells: &Cells, spec: &ClusterSpec) -> Vec<Impossible> {
        let mut found: Vec<Impossible> = Vec::new();
        for current in state.waiting() {
            let accepted = &current.job.accepted;
            let (job, user) = (&accepted.spec, &accepted.key.user);
            let is_known = found.last().is_some_and(|last| last.job == accepted.key);
            if is_known || self.judge(job, user).is_err() {
                continue;
            }
            if let Err(why) = judge(cells, spec, job, user, &self.options.placement) {
                let job = accepted.key.clone();
                found.push(Impossible { job, why });
            }
        }
        found
    }
}
