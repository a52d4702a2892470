//! What a copy of a virtual cluster's log answers, whoever leads.
//!
//! It says what it has, and never that there is nothing: what it lacks may have come since. Nothing is
//! changed here, and nothing is answered from here that somebody acts on.

use std::collections::BTreeSet;

use muster_consensus::GroupId;
use muster_gossip::member::MemberId;
use muster_model::explanation::Explanation;
use muster_model::forecast::JobForecast;
use muster_model::id::{JobKey, TaskId};
use muster_model::known_node::KnownNode;
use muster_model::usage::UsageView;
use muster_model::vc::{Amount, VcView, WhatIf};
use muster_model::vc_cells::VcCells;
use muster_model::view::{JobDetail, JobEvent, JobSummary, TaskView};

use crate::answers::port::CopiesPort;
use crate::groups::{GroupState, Local};
use crate::request::vc::{
    ChangeJob, CurrentTerm, DescriptionVersion, Explain, FindJob, ForecastJob, GetJobsRevision,
    GetTerm, GiveUp, JobList, ListCells, ListEvents, ListFoundTasks, ListJobs, ListNodes,
    ListTasksOn, ListUsage, ListUsed, ListVcs, ListWantedImages, NotTaken, RenewLease, SayOff,
    ShowConfig, ShowJob, ShowTask, Submit, TryDescription,
};
use crate::request::{Answers, Json, RequestFailure};
use crate::vc::{NotFound, StateJob, VcApplied, VcRejection, VcState};

/// A virtual cluster, by the copy of its log that is here.
#[derive(Debug)]
pub struct AtCopy<'a, P> {
    port: &'a P,
    group: GroupId,
}

/// Said where there is none.
pub fn no_copy() -> RequestFailure {
    RequestFailure::unavailable("there is no copy here")
}

impl<'a, P: CopiesPort> AtCopy<'a, P> {
    /// The virtual cluster of this group.
    pub const fn new(port: &'a P, group: GroupId) -> Self {
        Self { port, group }
    }

    /// What the copy has, if it has it.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&VcState) -> Option<T> + Send + 'static,
    ) -> Result<T, RequestFailure> {
        let look = |local: Local<'_>| match local.seen.machine {
            GroupState::Vc(state) => look(state),
            GroupState::Cluster(_) => None,
        };
        let found = self.port.look(self.group, look).await?;
        found.ok_or_else(no_copy)?.ok_or_else(unsaid)
    }
}

fn unsaid() -> RequestFailure {
    RequestFailure::unavailable("the copy here does not say that")
}

impl<P: CopiesPort> Answers<ListJobs> for AtCopy<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ListJobs { query, sight }: ListJobs,
    ) -> Result<JobList, RequestFailure> {
        self.look(move |state| {
            let (rows, total) = state.asked(&query, &sight);
            let jobs = Json(rows.iter().map(StateJob::summary).collect());
            Some(JobList { jobs, total })
        })
        .await
    }
}

impl<P: CopiesPort> Answers<FindJob> for AtCopy<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        FindJob { job, .. }: FindJob,
    ) -> Result<Json<Option<JobSummary>>, RequestFailure> {
        let job = self.look(move |state| state.summary(&job)).await?;
        Ok(Json(Some(job)))
    }
}

impl<P: CopiesPort> Answers<ShowJob> for AtCopy<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ShowJob { job, attempt, .. }: ShowJob,
    ) -> Result<Result<Json<JobDetail>, NotFound>, RequestFailure> {
        let detail = self.look(move |state| state.detail(&job, attempt).ok());
        Ok(Ok(Json(detail.await?)))
    }
}

impl<P: CopiesPort> Answers<ShowConfig> for AtCopy<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ShowConfig(key): ShowConfig,
    ) -> Result<Result<String, NotFound>, RequestFailure> {
        Ok(Ok(self.look(move |state| state.config(&key).ok()).await?))
    }
}

impl<P: CopiesPort> Answers<ListEvents> for AtCopy<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ListEvents { job, sight }: ListEvents,
    ) -> Result<Result<Json<Vec<JobEvent>>, NotFound>, RequestFailure> {
        let events = self.look(move |state| state.events_for(&job, &sight).ok());
        let events = events.await?;
        Ok(Ok(Json(events)))
    }
}

impl<P: CopiesPort> Answers<ShowTask> for AtCopy<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ShowTask { job, attempt, task }: ShowTask,
    ) -> Result<Result<Json<TaskView>, NotFound>, RequestFailure> {
        let found = self.look(move |state| state.task(&job, attempt, &task).ok());
        Ok(Ok(Json(found.await?)))
    }
}

impl<P: CopiesPort> Answers<ListUsed> for AtCopy<'_, P> {
    async fn answer(&self, _: MemberId, _: ListUsed) -> Result<Amount, RequestFailure> {
        self.look(|state| Some(state.used())).await
    }
}

/// They change something, or somebody acts on the answer, or the leader alone knows.
macro_rules! for_the_leader_alone {
    ($($request:ty => $answer:ty,)*) => {
        $(impl<P: CopiesPort> Answers<$request> for AtCopy<'_, P> {
            async fn answer(&self, _: MemberId, _: $request) -> Result<$answer, RequestFailure> {
                Err(unsaid())
            }
        })*
    };
}

for_the_leader_alone! {
    Submit => Result<VcApplied, NotTaken>,
    ChangeJob => Result<VcApplied, VcRejection>,
    GetTerm => CurrentTerm,
    RenewLease => (),
    ListWantedImages => BTreeSet<String>,
    Explain => Result<Json<Explanation>, NotFound>,
    ListVcs => Json<Vec<VcView>>,
    DescriptionVersion => Option<u64>,
    GetJobsRevision => (u64, u64),
    ListFoundTasks => String,
    TryDescription => Result<Json<WhatIf>, Vec<String>>,
    ListTasksOn => Vec<(JobKey, TaskId)>,
    SayOff => (),
    GiveUp => (),
    ListNodes => Vec<KnownNode>,
    ListUsage => Json<Vec<UsageView>>,
    ListCells => Json<VcCells>,
    ForecastJob => Result<Json<JobForecast>, NotTaken>,
}
