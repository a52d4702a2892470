//! A virtual cluster, asked over its group.

use muster_consensus::GroupId;
use muster_control::coordinator::Coordinator;
use muster_control::order::Tell;
use muster_control::vc::{Applied, Entry, NotFound, Rejected, VcState};
use muster_model::explanation::Explanation;
use muster_model::id::{JobKey, NodeId, UserName};
use muster_model::job::JobSpec;
use muster_model::state::State;
use muster_model::vc::VcView;
use muster_model::view::{JobDetail, JobSummary};
use tokio::sync::watch;

use super::error;
use super::handle::Groups;
use super::machine::{Machine, Outcome};
use super::message::{Message, Seen};
use crate::clock;

/// Why an entry was not committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// The group did not take it.
    #[error(transparent)]
    Group(#[from] error::Error),
    /// The state refused; nothing was changed.
    #[error(transparent)]
    Rejected(#[from] Rejected),
}

/// What is committed, and what the leader knows besides.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// The committed state.
    pub(crate) state: &'a VcState,
    coordinator: &'a Coordinator,
}

impl<'a> View<'a> {
    /// Of a group that is led here.
    fn of(seen: Seen<'a>) -> Option<Self> {
        match seen.machine {
            Machine::Vc(state) => Some(Self {
                state,
                coordinator: seen.coordinator?,
            }),
            Machine::Cluster(_) => None,
        }
    }

    /// Every job that `wanted` takes, with why it waits.
    pub(crate) fn summaries(&self, wanted: impl Fn(&JobSummary) -> bool) -> Vec<JobSummary> {
        self.state
            .summaries()
            .filter(wanted)
            .map(|job| self.explained(job))
            .collect()
    }

    /// One job, with why it waits.
    pub(crate) fn summary(&self, key: &JobKey) -> Option<JobSummary> {
        self.state.summary(key).map(|job| self.explained(job))
    }

    /// A job at an attempt, the latest if none is named, with why it waits.
    ///
    /// # Errors
    /// When there is no such job or attempt.
    pub(crate) fn detail(&self, key: &JobKey, attempt: Option<u32>) -> Result<JobDetail, NotFound> {
        let mut detail = self.state.detail(key, attempt)?;
        detail.summary = self.explained(detail.summary);
        Ok(detail)
    }

    /// Why a job waits, in full.
    ///
    /// # Errors
    /// When there is no such job.
    pub(crate) fn explanation(&self, key: &JobKey) -> Result<Explanation, NotFound> {
        self.coordinator.explanation(clock::now(), self.state, key)
    }

    /// Whether the cluster could ever run a job, as far as it is described.
    pub(crate) fn judge(&self, job: &JobSpec, user: &UserName) -> Result<(), String> {
        self.coordinator.judge(job, user)
    }

    /// What is wrong with the cells that jobs are placed on.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.coordinator.problems()
    }

    /// Every virtual cluster, where the administrator describes them.
    pub(crate) fn virtual_clusters(&self) -> Option<Vec<VcView>> {
        self.coordinator.virtual_clusters()
    }

    fn explained(&self, mut job: JobSummary) -> JobSummary {
        if job.state() == State::Waiting {
            job.waiting_for = self.coordinator.waiting_for(self.state, &job.key);
        }
        job
    }
}

/// What others hold of a virtual cluster.
#[derive(Clone, Debug)]
pub(crate) struct VcHandle {
    groups: Groups,
    group: GroupId,
}

impl VcHandle {
    pub(crate) const fn new(groups: Groups, group: GroupId) -> Self {
        Self { groups, group }
    }

    /// Commits an entry. When this returns `Ok`, it is on disk and every read shows it.
    ///
    /// # Errors
    /// When the state refused it, or the group did not take it.
    pub(crate) async fn propose(&self, entry: Entry) -> Result<Applied, Error> {
        let bytes = entry.encode().map_err(|error| {
            tracing::error!(%error, "an entry cannot be written");
            error::Error::Unreadable
        })?;
        match self.groups.propose(self.group, &bytes).await? {
            Outcome::Vc(outcome) => Ok(outcome?),
            Outcome::Cluster(_) | Outcome::Unreadable => Err(error::Error::Unreadable.into()),
        }
    }

    /// Looks at the state as it stands after everything committed so far.
    ///
    /// # Errors
    /// When this node does not lead, or the loop has ended.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let read = |seen: Seen<'_>| View::of(seen).map(|view| read(&view));
        let found = self.groups.read(self.group, read).await?;
        found.ok_or(Error::Group(error::Error::NoLeader))
    }

    /// Passes on what a node tells. Dropped when too much waits: the coordinator asks again.
    pub(crate) fn tell(&self, node: NodeId, tell: Tell) {
        self.groups.pass(Message::Tell {
            group: self.group,
            node,
            tell: Box::new(tell),
        });
    }

    /// Changes whenever an entry was applied.
    pub(crate) fn applied(&self) -> watch::Receiver<u64> {
        self.groups.applied()
    }

    /// Why nothing can be committed now, if so.
    pub(crate) fn problem(&self) -> Option<String> {
        self.groups.problem()
    }

    /// Whether the loop under it is alive.
    pub(crate) async fn is_alive(&self) -> bool {
        self.groups.store().await.is_ok()
    }
}
