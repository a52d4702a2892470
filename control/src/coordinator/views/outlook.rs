//! What another description of the cluster would do.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::{ABSENT, ClusterSpec, SpecProblem};
use muster_model::id::{JobKey, NodeId, VcName};
use muster_model::job::JobSpec;
use muster_model::node::Capacity;
use muster_model::vc::{Impossible, WhatIf};
use muster_placement::cells::{Bins, Cells, CellsError};
use muster_placement::decide::DecisionPolicy;
use muster_placement::gang::GangNumber as Number;

use crate::coordinator::context::Context;
use crate::coordinator::inventory::{Inventory, judge, resolved};
use crate::coordinator::nodes::ReportedNodes;
use crate::coordinator::places::nodes_in_use;
use crate::vc::some_of;

/// All that another description is held against.
#[derive(Clone, Copy, Debug)]
pub(in crate::coordinator) struct Viewpoint<'a> {
    pub(in crate::coordinator) context: Context<'a>,
    pub(in crate::coordinator) nodes: &'a ReportedNodes,
    pub(in crate::coordinator) inventory: &'a Inventory,
}

impl Viewpoint<'_> {
    /// What another description is held against, as it is now: to be looked at in peace.
    pub(in crate::coordinator) fn outlook(&self) -> Outlook {
        let state = self.context.state;
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|(id, node)| (id.clone(), node.capacity.clone()));
        let made = self.inventory.layout().made();
        let numbers = self.inventory.numbers();
        let key = |number| {
            self.inventory
                .job_of(state, number)
                .map(|(_, key)| key.clone())
        };
        let mut waiting = BTreeMap::new();
        for current in state.waiting() {
            let accepted = &current.job.accepted;
            waiting
                .entry(accepted.key.clone())
                .or_insert_with(|| accepted.spec.clone());
        }
        Outlook {
            nodes: nodes.collect(),
            now: made.map(|(cells, spec)| (cells.clone(), spec.clone())),
            jobs: numbers
                .filter_map(|number| Some((number, key(number)?)))
                .collect(),
            waiting,
            policy: self.context.options.policy.placement,
            vc: self.context.options.vc.clone(),
            doubt: self.blind_spot(),
            has_jobs: self.has_jobs(),
        }
    }

    /// Whether there is anything to lose, as far as is known here.
    fn has_jobs(&self) -> bool {
        let state = self.context.state;
        state.waiting().next().is_some() || !nodes_in_use(state).is_empty()
    }

    /// Why it cannot be known yet what another description would do, as a sentence part. A new leader
    /// hears from one machine after the other where its jobs are, and what they have.
    fn blind_spot(&self) -> Option<String> {
        if !self.context.leads {
            return Some("its leader has just been elected".to_owned());
        }
        if !self.has_jobs() {
            return None;
        }
        if self.inventory.layout().description().is_none() {
            return Some("its leader has not heard yet how the cluster is described".to_owned());
        }
        if self.inventory.layout().made().is_none() {
            return Some(match self.inventory.layout().problem() {
                Some(problem) => format!("the description now is of no use: {problem}"),
                None => "its leader has heard of no machine yet".to_owned(),
            });
        }
        let is_unheard =
            |id: &NodeId| !self.nodes.contains(id) && !self.inventory.layout().has_node(id);
        let unheard = nodes_in_use(self.context.state)
            .into_iter()
            .filter(is_unheard);
        let unheard: Vec<String> = unheard.map(|id| id.to_string()).collect();
        let names = some_of(unheard.iter().cloned(), ", ");
        let is_any = !unheard.is_empty();
        is_any.then(|| format!("its leader has not heard yet of {names}, where jobs of it are"))
    }
}

/// A description of the machines that were found, promised to one virtual cluster: to be edited.
pub(in crate::coordinator) fn found(nodes: &ReportedNodes) -> String {
    let nodes = nodes.iter().map(|(id, node)| (id, &node.capacity));
    resolved(&ClusterSpec::default(), nodes).template()
}

/// What runs and what waits at one moment.
#[derive(Clone, Debug)]
pub struct Outlook {
    nodes: BTreeMap<NodeId, Capacity>,
    /// The cells, and what they were made from.
    now: Option<(Cells, ClusterSpec)>,
    /// Whose the gangs are that have a number.
    jobs: BTreeMap<Number, JobKey>,
    waiting: BTreeMap<JobKey, JobSpec>,
    policy: DecisionPolicy,
    /// Whose jobs these are.
    vc: VcName,
    /// Why they may lose more than can be told, as a sentence part.
    doubt: Option<String>,
    /// Whether there are any.
    has_jobs: bool,
}

impl Outlook {
    /// The same, where so many members that can be reached have not reported to the leader yet: what
    /// fits on them is not known.
    #[must_use]
    pub fn without_reports_of(mut self, members: usize) -> Self {
        let why = match members {
            _ if !self.has_jobs => None,
            0 => None,
            1 => Some("a machine has not reported to its leader yet".to_owned()),
            more => Some(format!(
                "{more} machines have not reported to its leader yet"
            )),
        };
        self.doubt = self.doubt.or(why);
        self
    }

    /// What would become of jobs and promises if the cluster were described so.
    ///
    /// # Errors
    /// Everything that is wrong with the description.
    pub fn what_if(&self, description: &ClusterSpec) -> Result<WhatIf, Vec<SpecProblem>> {
        let found = resolved(description, self.nodes.iter());
        if !found.unmet.is_empty() {
            return Err(found.unmet);
        }
        let spec = found.spec;
        let (cells, mut what) = self.losers(&spec)?;
        what.impossible = self.impossible(&cells, &spec);
        let before: BTreeSet<&str> = self
            .now
            .iter()
            .flat_map(|(cells, _)| cells.node_names())
            .collect();
        let is_node = |name: &str| self.nodes.keys().any(|id| id.as_str() == name);
        let absent = cells
            .node_names()
            .filter(|name| !is_node(name) && !before.contains(name));
        what.absent = absent.map(str::to_owned).collect();
        what.too_many = too_many(&spec, &what.absent);
        let is_named = |name: &str| cells.leaves_on(name).next().is_some();
        let unnamed = self.nodes.keys().filter(|id| !is_named(id.as_str()));
        what.unnamed = unnamed.cloned().collect();
        let doubt = self.doubt.iter();
        what.unheard = doubt.map(|why| (self.vc.clone(), why.clone())).collect();
        Ok(what)
    }

    /// The cells as they would be, and the jobs that would lose something they have.
    fn losers(&self, spec: &ClusterSpec) -> Result<(Cells, WhatIf), Vec<SpecProblem>> {
        let Some((now, _)) = &self.now else {
            return Ok((Cells::new(spec, Bins::default())?, WhatIf::default()));
        };
        let lost = now.what_if(spec).map_err(|error| match error {
            CellsError::Spec(problems) => problems,
            error => vec![SpecProblem::new("", error.to_string())],
        })?;
        let jobs = |numbers: &[Number]| {
            let keys = numbers.iter().filter_map(|number| self.jobs.get(number));
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
    fn impossible(&self, cells: &Cells, spec: &ClusterSpec) -> Vec<Impossible> {
        let could_run = |key: &JobKey, job: &JobSpec| {
            let now = self.now.as_ref();
            now.is_none_or(|(cells, spec)| judge(cells, spec, job, &key.user, &self.policy).is_ok())
        };
        let waiting = self.waiting.iter();
        let found = waiting.filter_map(|(key, job)| {
            let why = judge(cells, spec, job, &key.user, &self.policy).err()?.why;
            let job = could_run(key, job).then(|| key.clone())?;
            Some(Impossible { job, why })
        });
        found.collect()
    }
}

/// Which types of cells are promised that these cells stand for, each with who is promised them and how many
/// there are.
fn too_many(spec: &ClusterSpec, absent: &[String]) -> Vec<String> {
    let is_missing = |address: &String| address.starts_with(ABSENT);
    let mut there: BTreeMap<&str, u64> = BTreeMap::new();
    let mut missing = BTreeSet::new();
    for cell in &spec.cells {
        match is_missing(&cell.address) {
            true if absent.contains(&cell.address) => drop(missing.insert(&*cell.cell_type)),
            true => {}
            false => *there.entry(&cell.cell_type).or_default() += 1,
        }
    }
    let known: Vec<&str> = there.keys().copied().collect();
    let sentence = |top: &str| {
        let promised = promised(spec, top);
        match there.get(top) {
            None => format!(
                "{promised}, and no machine has cells of type {top}; there are: {}",
                known.join(", ")
            ),
            Some(1) => format!("{promised}, and there is 1 of type {top}"),
            Some(count) => format!("{promised}, and there are {count} of type {top}"),
        }
    };
    missing.into_iter().map(sentence).collect()
}

/// Who is promised cells of a type or inside it: `default is promised 2 CPU-NODE, prod 1 CPU-NODE`.
fn promised(spec: &ClusterSpec, top: &str) -> String {
    let mut promised = Vec::new();
    for (name, vc) in &spec.virtual_clusters {
        let of_type = |path: &[String]| path.first().is_some_and(|first| first == top);
        let quotas = vc.quota.iter().filter(|quota| of_type(&quota.path));
        let is = if promised.is_empty() {
            "is promised "
        } else {
            ""
        };
        let cells = quotas.map(|quota| format!("{} {}", quota.count, quota.path.join(".")));
        let cells: Vec<String> = cells.collect();
        if !cells.is_empty() {
            promised.push(format!("{name} {is}{}", cells.join(" and ")));
        }
    }
    promised.join(", ")
}
