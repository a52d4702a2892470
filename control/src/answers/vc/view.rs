//! A virtual cluster as its leader sees it.

use std::collections::BTreeSet;

use muster_model::explanation::Explanation;
use muster_model::id::{JobKey, NodeId, UserName};
use muster_model::job::JobSpec;
use muster_model::job_query::JobQuery;
use muster_model::known_node::KnownNode;
use muster_model::sight::JobSight;
use muster_model::state::JobState;
use muster_model::time::Time;
use muster_model::usage::UsageView;
use muster_model::vc::VcView;
use muster_model::vc_cells::VcCells;
use muster_model::view::{JobDetail, JobSummary, NodeLease, RunLease};

use crate::coordinator::{Coordinator, JobTrial, Outlook, UnplaceableJob};
use crate::groups::{GroupState, LocalGroup, Reports};
use crate::lease::{Hearing, LeaseTime};
use crate::vc::{NotFound, VcRejection, VcState};

/// What is committed, and what the leader knows besides.
#[derive(Debug)]
pub struct VcLeaderView<'a> {
    /// The committed state.
    pub state: &'a VcState,
    coordinator: &'a Coordinator,
    /// Whom the leader has heard, and when that is.
    hearing: Option<(&'a Hearing, Time)>,
    description: Option<u64>,
    /// The term that it is led in.
    term: Option<u64>,
    /// The time of day.
    wall: Time,
    /// Who has reported to the leader.
    reports: Option<Reports<'a>>,
    applied: u64,
}

impl<'a> VcLeaderView<'a> {
    /// Of a group that is led here.
    pub fn of(seen: LocalGroup<'a>) -> Option<Self> {
        match seen.machine {
            GroupState::Vc(state) => Some(Self {
                state,
                coordinator: seen.coordinator?,
                hearing: seen.hearing,
                description: seen.description,
                term: seen.term,
                wall: seen.wall,
                reports: seen.reports,
                applied: seen.applied,
            }),
            GroupState::Cluster(_) => None,
        }
    }

    /// The generation that it is led in.
    pub const fn generation(&self) -> u32 {
        self.coordinator.generation()
    }

    /// The term that it is led in.
    pub const fn term(&self) -> Option<u64> {
        self.term
    }

    /// The last entry of the log that the state has taken.
    pub const fn applied(&self) -> u64 {
        self.applied
    }

    /// The jobs that are asked for and seen, with why they wait if the query wants that, and how many the filter
    /// takes of those seen.
    pub fn summaries(&self, query: &JobQuery, sight: &JobSight) -> (Vec<JobSummary>, usize) {
        let (rows, total) = self.state.asked(query, sight);
        let jobs = rows.iter().map(|row| match query.reasons {
            true => self.explained(row.summary(), sight),
            false => row.summary(),
        });
        (jobs.collect(), total)
    }

    /// One job, with why it waits.
    pub fn summary(&self, key: &JobKey, sight: &JobSight) -> Option<JobSummary> {
        self.state
            .summary(key)
            .map(|job| self.explained(job, sight))
    }

    /// A job at an attempt, the latest if none is named, with why it waits and when its leases end.
    ///
    /// # Errors
    /// When there is no such job or attempt.
    pub fn detail(
        &self,
        key: &JobKey,
        attempt: Option<u32>,
        sight: &JobSight,
    ) -> Result<JobDetail, NotFound> {
        let mut detail = self.state.detail(key, attempt)?;
        detail.summary = self.explained(detail.summary, sight);
        let runs = detail.partition.iter_mut().flat_map(|it| &mut it.runs);
        for RunLease { seconds, nodes, .. } in runs {
            let lease = seconds.map(|seconds| LeaseTime { seconds });
            for NodeLease { node, ends_by } in nodes {
                *ends_by = lease.and_then(|lease| self.ends_by(lease, node));
            }
        }
        Ok(detail)
    }

    /// When a lease on a node ends at the latest, milliseconds since the epoch: what the node has heard
    /// granted it sent before it was heard.
    fn ends_by(&self, lease: LeaseTime, node: &NodeId) -> Option<u64> {
        let (hearing, now) = self.hearing?;
        let left = lease
            .wire_ms()
            .saturating_sub(hearing.silence_ms(now, node));
        Some(self.wall.as_millis().saturating_add(left))
    }

    /// Why a job waits, in full.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn explanation(&self, key: &JobKey, sight: &JobSight) -> Result<Explanation, NotFound> {
        self.coordinator
            .explanation(self.wall, self.state, (key, sight))
    }

    /// Whether the cluster could ever run a job; a remark, if that depends on machines that have not been heard.
    ///
    /// # Errors
    /// Why not, and for which field of the job.
    pub fn judge(&self, job: &JobSpec, user: &UserName) -> Result<Option<String>, UnplaceableJob> {
        let unheard = self.reports.map_or(0, |reports| reports.unheard());
        self.coordinator.judge(job, user, unheard)
    }

    /// A copy of the leader to try a job of this name on.
    ///
    /// # Errors
    /// When there is a job of the name.
    pub fn trial(&self, key: &JobKey) -> Result<JobTrial, VcRejection> {
        match self.state.job_id(key) {
            Some(_) => Err(VcRejection::JobExists(key.clone())),
            None => Ok(self.coordinator.trial(self.wall, self.state)),
        }
    }

    /// What these users, and the groups that they are in, have of what is limited.
    pub fn usage(&self, users: &BTreeSet<UserName>) -> Vec<UsageView> {
        self.coordinator.usage(self.wall, self.state, users)
    }

    /// What is wrong with the cells that jobs are placed on.
    pub fn problems(&self) -> Vec<String> {
        self.coordinator.problems()
    }

    /// Every virtual cluster.
    pub fn virtual_clusters(&self) -> Vec<VcView> {
        self.coordinator.virtual_clusters()
    }

    /// What the virtual cluster is promised, cell by cell, and which of its jobs has what.
    pub fn vc_cells(&self, sight: &JobSight) -> VcCells {
        self.coordinator.vc_cells(self.state, sight)
    }

    /// Every node.
    pub fn nodes(&self) -> Vec<KnownNode> {
        let members = self.reports.map(|reports| reports.members());
        let silence_ms = |node: &NodeId| {
            let hearing = self.hearing;
            hearing.map_or(0, |(hearing, now)| hearing.silence_ms(now, node))
        };
        let coordinator = self.coordinator;
        coordinator.known_nodes(members.unwrap_or_default(), silence_ms)
    }

    /// The version of the description that the leader goes by, once it is known.
    pub const fn description(&self) -> Option<u64> {
        self.description
    }

    /// A description of what was found, promised to one virtual cluster.
    pub fn found(&self) -> String {
        self.coordinator.found()
    }

    /// What another description is held against.
    pub fn outlook(&self) -> Outlook {
        let missing = self.reports.map_or(0, |reports| reports.missing());
        let outlook = self.coordinator.outlook(self.state);
        outlook.without_reports_of(missing)
    }

    fn explained(&self, mut job: JobSummary, sight: &JobSight) -> JobSummary {
        if job.state() == JobState::Waiting {
            job.waiting_for = self.coordinator.waiting_for(self.state, &job.key, sight);
        }
        job
    }
}
