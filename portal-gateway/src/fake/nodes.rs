//! Nodes in memory: this one, and others that it is told of.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use muster_model::cluster_spec::ClusterSpec;
use muster_model::finding::Finding;
use muster_model::health::{
    HealthCheck, HealthState, HealthSubject, PersonMark, Quarantine, Remedy,
};
use muster_model::id::{JobKey, UserName};
use muster_model::image::ImageView;
use muster_model::inventory::InventoryProblem;
use muster_model::known_node::{Has, KnownNode, Share};
use muster_model::mesh::{Health, MemberReach, MemberTask, Scheduling, SchedulingView};
use muster_model::node::NodeView;
use muster_model::sight::JobSight;
use muster_model::usage::{UsageSubject, UsageView};
use muster_model::vc::{Amount, VcView, WhatIf};
use muster_model::vc_cells::VcCells;

use super::{FakeCluster, FakeState, NOW_S};
use crate::port::{Caller, DEFAULT_VC, FoundUsage, NewScheduling, Nodes, PortError};

#[derive(Debug)]
pub(super) struct FakeNodes {
    this: Option<NodeView>,
    others: Vec<KnownNode>,
    health: Health,
    findings: Vec<Finding>,
    /// What checks of members' parts say.
    checks: Vec<HealthCheck>,
    /// What runs on members.
    tasks: BTreeMap<String, Vec<(JobKey, String)>>,
    usage: Vec<UsageView>,
    /// Of the default virtual cluster.
    cells: VcCells,
    /// What one cell of a type brings along.
    skus: BTreeMap<String, Amount>,
}

impl Default for FakeNodes {
    fn default() -> Self {
        Self {
            this: None,
            others: Vec::new(),
            checks: Vec::new(),
            health: Health {
                uptime_s: 61,
                checks: vec![Finding::ok("engine", "containerd", "it answers")],
            },
            findings: vec![Finding::ok("fsync", "state", "p99 1.0 ms")],
            tasks: BTreeMap::new(),
            usage: Vec::new(),
            cells: VcCells::default(),
            skus: BTreeMap::new(),
        }
    }
}

impl FakeCluster {
    /// Says what this node is.
    pub fn set_node(&self, node: NodeView) {
        self.state().nodes.this = Some(node);
    }

    /// From now on this node does not answer for itself.
    pub fn lose_node(&self) {
        self.state().nodes.this = None;
    }

    /// Adds another node of the cluster.
    pub fn add_node(&self, node: KnownNode) {
        self.state().nodes.others.push(node);
    }

    /// Says how the node is.
    pub fn set_health(&self, health: Health) {
        self.state().nodes.health = health;
    }

    /// Says what the doctor finds.
    pub fn set_findings(&self, findings: Vec<Finding>) {
        self.state().nodes.findings = findings;
    }

    /// Says what users and groups use of what is limited.
    pub fn set_usage(&self, usage: Vec<UsageView>) {
        self.state().nodes.usage = usage;
    }

    /// Says what the default virtual cluster is promised, and which job has what.
    pub fn set_cells(&self, cells: VcCells) {
        self.state().nodes.cells = cells;
    }

    /// Says what one cell of a type brings along in the default virtual cluster.
    pub fn set_sku(&self, name: &str, amount: Amount) {
        self.state().nodes.skus.insert(name.to_owned(), amount);
    }

    /// Says what runs on a member: jobs with their tasks.
    pub fn run_on(&self, member: &str, tasks: &[(&str, &str)]) {
        let key = |job: &str| job.parse().ok();
        let tasks = tasks
            .iter()
            .filter_map(|(job, task)| Some((key(job)?, (*task).to_owned())));
        let tasks = tasks.collect();
        self.state().nodes.tasks.insert(member.to_owned(), tasks);
    }
}

impl FakeState {
    /// Tasks as they are shown. A job that is not there counts as one of the default virtual cluster.
    fn shown(&self, sight: &JobSight, tasks: &[(JobKey, String)]) -> Vec<MemberTask> {
        let is_seen = |key: &JobKey| match self.jobs.jobs.get(key) {
            Some(job) => sight.shows(&job.summary),
            None => DEFAULT_VC
                .parse()
                .is_ok_and(|vc| sight.sees(&vc, &key.user)),
        };
        let shown = tasks.iter().map(|(key, task)| MemberTask {
            job: is_seen(key).then(|| key.to_string()),
            task: is_seen(key).then(|| task.clone()),
        });
        shown.collect()
    }
}

#[async_trait]
impl Nodes for FakeCluster {
    async fn list(&self) -> Result<Vec<KnownNode>, PortError> {
        let mut away = self.state().jobs.away.clone().into_iter();
        if away.any(|vc| vc.as_str() == DEFAULT_VC) {
            return Err(PortError::Unavailable("no leader answers".to_owned()));
        }
        let NodeView {
            id, capacity, free, ..
        } = self.this().await?;
        let mut nodes = self.state().nodes.others.clone();
        nodes.push(KnownNode {
            id,
            has: Some(Has::of(&capacity, &free, 0)),
            closed: Vec::new(),
        });
        Ok(nodes)
    }

    async fn virtual_clusters(&self) -> Result<Vec<VcView>, PortError> {
        let node = self.this().await?;
        let share = Share::of(&node.capacity, &node.free);
        let name = DEFAULT_VC.parse();
        let mut vc = VcView::new(name.map_err(|e| PortError::Unavailable(format!("{e}")))?);
        let mut ages = self.state().jobs.aged.clone().into_iter();
        vc.age = ages.find(|age| age.vc == vc.name);
        vc.total = share.total;
        vc.guaranteed = share.healthy;
        vc.used = share.used();
        vc.skus = self.state().nodes.skus.clone();
        for device in &node.capacity.devices {
            let kind = vc.devices.entry(device.model.clone()).or_default();
            let mut free = node.free.devices.iter();
            kind.total += 1;
            kind.healthy += u32::from(device.fault.is_none());
            let is_free = free.any(|(index, _)| *index == device.index);
            kind.used += u32::from(device.fault.is_none() && !is_free);
        }
        Ok(vec![vc])
    }

    async fn cells(&self, sight: &JobSight, vc: &str) -> Result<VcCells, PortError> {
        let state = self.state();
        let name = match vc {
            DEFAULT_VC => vc.parse().ok(),
            _ => None,
        };
        let name = name.ok_or_else(|| PortError::NoVc(vc.to_owned()))?;
        if state.jobs.away.contains(&name) {
            return Err(PortError::Unavailable("no leader answers".to_owned()));
        }
        let mut cells = state.nodes.cells.clone();
        for user in &mut cells.users {
            let is_seen = |key: &JobKey| sight.sees(&name, &key.user);
            user.job = user.job.take().filter(is_seen);
        }
        Ok(cells)
    }

    async fn usage(&self, users: BTreeSet<UserName>) -> Result<FoundUsage, PortError> {
        let state = self.state();
        let is_asked = |view: &&UsageView| match &view.subject {
            UsageSubject::User(user) => users.contains(user),
            UsageSubject::Group(_) => true,
        };
        let usage = state.nodes.usage.iter().filter(is_asked);
        Ok(FoundUsage {
            usage: usage.cloned().collect(),
            away: state.jobs.away.clone(),
        })
    }

    async fn what_if(&self, text: &str) -> Result<WhatIf, PortError> {
        let spec = ClusterSpec::from_hived_yaml(text).map_err(|problems| {
            PortError::InvalidDocument(problems.iter().map(ToString::to_string).collect())
        })?;
        Ok(WhatIf {
            absent: spec.cells.into_iter().map(|cell| cell.address).collect(),
            ..WhatIf::default()
        })
    }

    async fn this(&self) -> Result<NodeView, PortError> {
        let node = self.state().nodes.this.clone();
        node.ok_or_else(|| PortError::Unavailable("the fake has no node".to_owned()))
    }

    async fn health(&self) -> Result<Health, PortError> {
        Ok(self.state().nodes.health.clone())
    }

    async fn doctor(&self) -> Result<Vec<Finding>, PortError> {
        Ok(self.state().nodes.findings.clone())
    }

    async fn schedule(
        &self,
        caller: &Caller,
        member: &str,
        wanted: &NewScheduling,
    ) -> Result<(), PortError> {
        let NewScheduling { scheduling, reason } = wanted.clone();
        let word = SchedulingView {
            scheduling,
            reason,
            by: caller.user.to_string(),
            at_ms: NOW_S * 1000,
        };
        let word = (scheduling != Scheduling::Open).then_some(word);
        self.state().membership.admitted(member)?.scheduling = word;
        Ok(())
    }

    async fn tasks_on(&self, sight: &JobSight, member: &str) -> Result<Vec<MemberTask>, PortError> {
        let mut state = self.state();
        let word = state.membership.had(member)?;
        let word = word.and_then(|member| member.scheduling.clone());
        let drains = word.is_some_and(|it| matches!(it.scheduling, Scheduling::Draining { .. }));
        let tasks = state.nodes.tasks.entry(member.to_owned()).or_default();
        let before = tasks.clone();
        if drains {
            // One ends between two looks.
            tasks.pop();
        }
        Ok(state.shown(sight, &before))
    }

    /// Every member has the images of this node.
    async fn images_on(&self, member: &str) -> Result<Vec<ImageView>, PortError> {
        let state = self.state();
        state.membership.had(member)?;
        Ok(state.images.values().cloned().collect())
    }

    async fn health_on(&self, member: &str) -> Result<Vec<HealthCheck>, PortError> {
        let state = self.state();
        state.membership.had(member)?;
        Ok(state.nodes.checks.clone())
    }

    /// Its only part is the machine.
    async fn mark(
        &self,
        member: &str,
        part: &str,
        mark: PersonMark,
    ) -> Result<Vec<HealthCheck>, PortError> {
        let mut state = self.state();
        state.membership.had(member)?;
        if part != "machine" {
            return Err(PortError::NoPart(part.to_owned()));
        }
        let checks = &mut state.nodes.checks;
        checks.clear();
        if let PersonMark::Held { by, why } = mark {
            checks.push(HealthCheck {
                name: "held".to_owned(),
                subject: HealthSubject::Machine,
                state: HealthState::Bad,
                evidence: format!("{by} holds it: {why}"),
                since_ms: NOW_S * 1000,
                clears: "A person who releases it.".to_owned(),
                shadow: false,
                remedy: Remedy::Nothing,
                advice: String::new(),
                quarantine: Quarantine::Node,
                held_back: None,
            });
        }
        Ok(checks.clone())
    }

    /// Nothing is missing.
    async fn accept_inventory(&self, member: &str) -> Result<Vec<InventoryProblem>, PortError> {
        self.state().membership.had(member)?;
        Ok(Vec::new())
    }

    async fn say_off(&self, _: &Caller, member: &str) -> Result<Vec<MemberTask>, PortError> {
        let mut state = self.state();
        let found = state.membership.had(member)?;
        if found.is_some_and(|member| member.reach != MemberReach::Unreachable) {
            let text = format!("{member} can be reached, so it is not off");
            return Err(PortError::NotNow(text));
        }
        let tasks = state.nodes.tasks.remove(member);
        Ok(state.shown(&JobSight::All, &tasks.unwrap_or_default()))
    }
}
