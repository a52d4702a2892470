//! What a copy of a virtual cluster's log answers, whoever leads.
//!
//! It says what it has, and never that there is nothing: what it lacks may have come since. Nothing is
//! changed here, and nothing is answered from here that somebody acts on.

use std::collections::BTreeSet;

use muster_consensus::GroupId;
use muster_gossip::member::MemberId;
use muster_model::explanation::Explanation;
use muster_model::id::{JobKey, TaskId};
use muster_model::known_node::KnownNode;
use muster_model::vc::{Amount, VcView, WhatIf};
use muster_model::view::{Event, JobDetail, JobSummary, TaskView};

use crate::answers::port::CopiesPort;
use crate::groups::{Local, Machine};
use crate::request::vc::{
    Change, DescriptionVersion, Explain, FindJob, GetTerm, GiveUp, Jobs, Led, ListEvents,
    ListFound, ListJobs, ListNodes, ListTasksOn, ListUsed, ListVcs, ListWantedImages, NotTaken,
    RenewLease, SayOff, ShowConfig, ShowJob, ShowTask, Submit, TryDescription,
};
use crate::request::{Answers, Failure, Json};
use crate::vc::{Applied, NotFound, Rejected, Row, VcState};

/// A virtual cluster, by the copy of its log that is here.
#[derive(Debug)]
pub struct AtCopy<'a, P> {
    port: &'a P,
    group: GroupId,
}

/// Said where there is none.
pub fn no_copy() -> Failure {
    Failure::unavailable("there is no copy here")
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
    ) -> Result<T, Failure> {
        let look = |local: Local<'_>| match local.seen.machine {
            Machine::Vc(state) => look(state),
            Machine::Cluster(_) => None,
        };
        let found = self.port.look(self.group, look).await?;
        found.ok_or_else(no_copy)?.ok_or_else(unsaid)
    }
}

fn unsaid() -> Failure {
    Failure::unavailable("the copy here does not say that")
}

impl<P: CopiesPort> Answers<ListJobs> for AtCopy<'_, P> {
    async fn answer(&self, _: MemberId, ListJobs(query): ListJobs) -> Result<Jobs, Failure> {
        self.look(move |state| {
            let (rows, total) = query.take(state.rows());
            let jobs = Json(rows.iter().map(Row::summary).collect());
            Some(Jobs { jobs, total })
        })
        .await
    }
}

impl<P: CopiesPort> Answers<FindJob> for AtCopy<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        FindJob(key): FindJob,
    ) -> Result<Json<Option<JobSummary>>, Failure> {
        let job = self.look(move |state| state.summary(&key)).await?;
        Ok(Json(Some(job)))
    }
}

impl<P: CopiesPort> Answers<ShowJob> for AtCopy<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ShowJob { job, attempt }: ShowJob,
    ) -> Result<Result<Json<JobDetail>, NotFound>, Failure> {
        let detail = self.look(move |state| state.detail(&job, attempt).ok());
        Ok(Ok(Json(detail.await?)))
    }
}

impl<P: CopiesPort> Answers<ShowConfig> for AtCopy<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ShowConfig(key): ShowConfig,
    ) -> Result<Result<String, NotFound>, Failure> {
        Ok(Ok(self.look(move |state| state.config(&key).ok()).await?))
    }
}

impl<P: CopiesPort> Answers<ListEvents> for AtCopy<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ListEvents(key): ListEvents,
    ) -> Result<Result<Json<Vec<Event>>, NotFound>, Failure> {
        let events = self.look(move |state| state.events(&key).ok()).await?;
        Ok(Ok(Json(events)))
    }
}

impl<P: CopiesPort> Answers<ShowTask> for AtCopy<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ShowTask { job, attempt, task }: ShowTask,
    ) -> Result<Result<Json<TaskView>, NotFound>, Failure> {
        let found = self.look(move |state| state.task(&job, attempt, &task).ok());
        Ok(Ok(Json(found.await?)))
    }
}

impl<P: CopiesPort> Answers<ListUsed> for AtCopy<'_, P> {
    async fn answer(&self, _: MemberId, _: ListUsed) -> Result<Amount, Failure> {
        self.look(|state| Some(state.used())).await
    }
}

/// They change something, or somebody acts on the answer, or the leader alone knows.
macro_rules! for_the_leader_alone {
    ($($request:ty => $answer:ty,)*) => {
        $(impl<P: CopiesPort> Answers<$request> for AtCopy<'_, P> {
            async fn answer(&self, _: MemberId, _: $request) -> Result<$answer, Failure> {
                Err(unsaid())
            }
        })*
    };
}

for_the_leader_alone! {
    Submit => Result<Applied, NotTaken>,
    Change => Result<Applied, Rejected>,
    GetTerm => Led,
    RenewLease => (),
    ListWantedImages => BTreeSet<String>,
    Explain => Result<Json<Explanation>, NotFound>,
    ListVcs => Json<Vec<VcView>>,
    DescriptionVersion => Option<u64>,
    ListFound => String,
    TryDescription => Result<Json<WhatIf>, Vec<String>>,
    ListTasksOn => Vec<(JobKey, TaskId)>,
    SayOff => (),
    GiveUp => (),
    ListNodes => Vec<KnownNode>,
}
