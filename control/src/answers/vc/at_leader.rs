//! What the leader of a virtual cluster answers.

use std::collections::BTreeSet;

use muster_consensus::{GroupId, NodeId};
use muster_gossip::member::MemberId;
use muster_model::cluster_spec::SpecProblem;
use muster_model::explanation::Explanation;
use muster_model::forecast::JobForecast;
use muster_model::id::{JobKey, TaskId};
use muster_model::known_node::KnownNode;
use muster_model::remark::Remark;
use muster_model::usage::UsageView;
use muster_model::vc::{Amount, VcView, WhatIf};
use muster_model::vc_cells::VcCells;
use muster_model::view::{JobDetail, JobEvent, JobSummary, TaskView};
use muster_placement::description;

use super::led::give_up;
use super::view::VcLeaderView;
use crate::answers::{self, CopiesPort};
use crate::coordinator::UnplaceableJob;
use crate::fence::Term;
use crate::groups::{ApplyOutcome, GroupError, Local, LocalGroup};
use crate::request::vc::{
    ChangeJob, CurrentTerm, DescriptionVersion, Explain, FindJob, ForecastJob, GetJobsRevision,
    GetTerm, GiveUp, JobList, ListCells, ListEvents, ListFoundTasks, ListJobs, ListNodes,
    ListTasksOn, ListUsage, ListUsed, ListVcs, ListWantedImages, NotTaken, RenewLease, SayOff,
    ShowConfig, ShowJob, ShowTask, Submit, TryDescription,
};
use crate::request::{Answers, Json, RequestFailure};
use crate::vc::{AcceptedJob, NotFound, VcApplied, VcEntry, VcRejection};

/// Said where the node ends while it finds something out.
const ENDED: &str = "the agent is shutting down";

/// A virtual cluster, where it is led here. All else than that is refused.
#[derive(Debug)]
pub struct AtLeader<'a, P> {
    port: &'a P,
    me: NodeId,
    group: GroupId,
}

impl<'a, P: CopiesPort> AtLeader<'a, P> {
    /// The virtual cluster of this group, at this node.
    pub const fn new(port: &'a P, me: NodeId, group: GroupId) -> Self {
        Self { port, me, group }
    }

    /// Looks at the state as it stands after everything that was committed anywhere so far.
    async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&VcLeaderView<'_>) -> T + Send + 'static,
    ) -> Result<T, GroupError> {
        let look = |seen: LocalGroup<'_>| VcLeaderView::of(seen).map(|view| look(&view));
        let found = self.port.read(self.group, look).await?;
        found.ok_or(GroupError::NoLeader)
    }

    /// Looks at the state as it stands here, which another leader may have replaced meanwhile: for what
    /// a commit confirms. None if this node does not lead.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&VcLeaderView<'_>) -> T + Send + 'static,
    ) -> Result<Option<T>, GroupError> {
        let look = |local: Local<'_>| VcLeaderView::of(local.seen).map(|view| look(&view));
        Ok(self.port.look(self.group, look).await?.flatten())
    }

    /// Whether the cluster could ever run the job; a remark, if that depends on machines that have not
    /// reported. A refusal needs a majority: the job may be possible by what a newer leader knows.
    async fn judge(
        &self,
        job: &AcceptedJob,
    ) -> Result<Result<Option<String>, UnplaceableJob>, GroupError> {
        let judge = |job: &AcceptedJob| {
            let (spec, user) = (job.spec.clone(), job.key.user.clone());
            move |view: &VcLeaderView<'_>| view.judge(&spec, &user)
        };
        match self.look(judge(job)).await? {
            Some(Ok(remark)) => Ok(Ok(remark)),
            Some(Err(_)) | None => self.read(judge(job)).await,
        }
    }

    async fn commit(&self, entry: &VcEntry) -> Result<Result<VcApplied, VcRejection>, GroupError> {
        let bytes = entry.encode().map_err(|error| {
            self.port
                .tell(answers::Event::Unwritable(error.to_string()));
            GroupError::Unreadable
        })?;
        match self.port.propose(self.group, &bytes).await? {
            ApplyOutcome::Vc(outcome) => Ok(outcome),
            ApplyOutcome::Cluster(_) | ApplyOutcome::Unreadable(_) => Err(GroupError::Unreadable),
        }
    }
}

impl<P: CopiesPort> Answers<Submit> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        Submit(mut job): Submit,
    ) -> Result<Result<VcApplied, NotTaken>, RequestFailure> {
        match self.judge(&job).await? {
            Err(refused) => Ok(Err(NotTaken::Impossible(refused))),
            Ok(remark) => {
                job.spec
                    .warnings
                    .extend(remark.map(|told| Remark::at("", told)));
                let taken = self.commit(&VcEntry::Accept(Box::new(job))).await?;
                Ok(taken.map_err(NotTaken::Rejected))
            }
        }
    }
}

impl<P: CopiesPort> Answers<ForecastJob> for AtLeader<'_, P> {
    /// Found out beside the loop of the groups, which has others waiting.
    async fn answer(
        &self,
        _: MemberId,
        ForecastJob { mut job, sight }: ForecastJob,
    ) -> Result<Result<Json<JobForecast>, NotTaken>, RequestFailure> {
        match self.judge(&job).await? {
            Err(refused) => return Ok(Err(NotTaken::Impossible(refused))),
            Ok(remark) => {
                let remark = remark.map(|told| Remark::at("", told));
                job.spec.warnings.extend(remark);
            }
        }
        let key = job.key.clone();
        let trial = match self.read(move |view| view.trial(&key)).await? {
            Ok(trial) => trial,
            Err(rejected) => return Ok(Err(NotTaken::Rejected(rejected))),
        };
        let found = self.port.aside(move || trial.forecast(job, &sight));
        let ended = || RequestFailure::unavailable(ENDED);
        let forecast = found.await.ok_or_else(ended)?;
        Ok(forecast.map(Json).map_err(NotTaken::Rejected))
    }
}

impl<P: CopiesPort> Answers<ChangeJob> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ChangeJob(entry): ChangeJob,
    ) -> Result<Result<VcApplied, VcRejection>, RequestFailure> {
        Ok(self.commit(&entry).await?)
    }
}

impl<P: CopiesPort> Answers<GetTerm> for AtLeader<'_, P> {
    async fn answer(&self, _: MemberId, _: GetTerm) -> Result<CurrentTerm, RequestFailure> {
        let led = self.read(|view| (view.generation(), view.term()));
        let (generation, term) = led.await?;
        Ok(CurrentTerm {
            generation,
            term: Term(term.ok_or(GroupError::NoLeader)?),
            leader: self.me.0,
        })
    }
}

impl<P: CopiesPort> Answers<RenewLease> for AtLeader<'_, P> {
    async fn answer(&self, _: MemberId, request: RenewLease) -> Result<(), RequestFailure> {
        Ok(self.port.renew(self.group, request.node).await?)
    }
}

impl<P: CopiesPort> Answers<ListWantedImages> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        _: ListWantedImages,
    ) -> Result<BTreeSet<String>, RequestFailure> {
        Ok(self.read(|view| view.state.images_wanted()).await?)
    }
}

impl<P: CopiesPort> Answers<ListJobs> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ListJobs { query, sight }: ListJobs,
    ) -> Result<JobList, RequestFailure> {
        let listed = self.read(move |view| view.summaries(&query, &sight));
        let (jobs, total) = listed.await?;
        let jobs = Json(jobs);
        Ok(JobList { jobs, total })
    }
}

impl<P: CopiesPort> Answers<FindJob> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        FindJob { job, sight }: FindJob,
    ) -> Result<Json<Option<JobSummary>>, RequestFailure> {
        let found = self.read(move |view| view.summary(&job, &sight));
        Ok(Json(found.await?))
    }
}

impl<P: CopiesPort> Answers<ShowJob> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ShowJob {
            job,
            attempt,
            sight,
        }: ShowJob,
    ) -> Result<Result<Json<JobDetail>, NotFound>, RequestFailure> {
        let detail = self.read(move |view| view.detail(&job, attempt, &sight));
        Ok(detail.await?.map(Json))
    }
}

impl<P: CopiesPort> Answers<Explain> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        Explain { job, sight }: Explain,
    ) -> Result<Result<Json<Explanation>, NotFound>, RequestFailure> {
        let why = self
            .read(move |view| view.explanation(&job, &sight))
            .await?;
        Ok(why.map(Json))
    }
}

impl<P: CopiesPort> Answers<ListVcs> for AtLeader<'_, P> {
    async fn answer(&self, _: MemberId, _: ListVcs) -> Result<Json<Vec<VcView>>, RequestFailure> {
        Ok(Json(self.read(|view| view.virtual_clusters()).await?))
    }
}

impl<P: CopiesPort> Answers<DescriptionVersion> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        _: DescriptionVersion,
    ) -> Result<Option<u64>, RequestFailure> {
        Ok(self.read(|view| view.description()).await?)
    }
}

impl<P: CopiesPort> Answers<GetJobsRevision> for AtLeader<'_, P> {
    async fn answer(&self, _: MemberId, _: GetJobsRevision) -> Result<(u64, u64), RequestFailure> {
        let applied = self.read(|view| view.applied()).await?;
        Ok((self.group.0, applied))
    }
}

impl<P: CopiesPort> Answers<ListFoundTasks> for AtLeader<'_, P> {
    async fn answer(&self, _: MemberId, _: ListFoundTasks) -> Result<String, RequestFailure> {
        Ok(self.read(|view| view.found()).await?)
    }
}

impl<P: CopiesPort> Answers<ListUsage> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ListUsage(users): ListUsage,
    ) -> Result<Json<Vec<UsageView>>, RequestFailure> {
        Ok(Json(self.read(move |view| view.usage(&users)).await?))
    }
}

impl<P: CopiesPort> Answers<ListCells> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ListCells { sight }: ListCells,
    ) -> Result<Json<VcCells>, RequestFailure> {
        Ok(Json(self.read(move |view| view.vc_cells(&sight)).await?))
    }
}

impl<P: CopiesPort> Answers<TryDescription> for AtLeader<'_, P> {
    /// Found out beside the loop of the groups, which has others waiting.
    async fn answer(
        &self,
        _: MemberId,
        TryDescription(text): TryDescription,
    ) -> Result<Result<Json<WhatIf>, Vec<String>>, RequestFailure> {
        let outlook = self.read(|view| view.outlook()).await?;
        let found = self
            .port
            .aside(move || outlook.what_if(&description::read(&text)?));
        let ended = || RequestFailure::unavailable(ENDED);
        let what = found.await.ok_or_else(ended)?;
        let lines = |problems: Vec<SpecProblem>| problems.iter().map(ToString::to_string).collect();
        Ok(what.map(Json).map_err(lines))
    }
}

impl<P: CopiesPort> Answers<ShowConfig> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ShowConfig(key): ShowConfig,
    ) -> Result<Result<String, NotFound>, RequestFailure> {
        Ok(self.read(move |view| view.state.config(&key)).await?)
    }
}

impl<P: CopiesPort> Answers<ListEvents> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ListEvents { job, sight }: ListEvents,
    ) -> Result<Result<Json<Vec<JobEvent>>, NotFound>, RequestFailure> {
        let events = self.read(move |view| view.state.events_for(&job, &sight));
        Ok(events.await?.map(Json))
    }
}

impl<P: CopiesPort> Answers<ShowTask> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ShowTask { job, attempt, task }: ShowTask,
    ) -> Result<Result<Json<TaskView>, NotFound>, RequestFailure> {
        let found = self.read(move |view| view.state.task(&job, attempt, &task));
        Ok(found.await?.map(Json))
    }
}

impl<P: CopiesPort> Answers<ListTasksOn> for AtLeader<'_, P> {
    async fn answer(
        &self,
        _: MemberId,
        ListTasksOn(node): ListTasksOn,
    ) -> Result<Vec<(JobKey, TaskId)>, RequestFailure> {
        Ok(self.read(move |view| view.state.tasks_on(&node)).await?)
    }
}

impl<P: CopiesPort> Answers<SayOff> for AtLeader<'_, P> {
    async fn answer(&self, _: MemberId, SayOff(node): SayOff) -> Result<(), RequestFailure> {
        Ok(self.port.off(self.group, node).await?)
    }
}

impl<P: CopiesPort> Answers<GiveUp> for AtLeader<'_, P> {
    /// Takes a member's copy of the log away, for it is about to leave.
    async fn answer(&self, _: MemberId, GiveUp(member): GiveUp) -> Result<(), RequestFailure> {
        give_up(self.port, self.group, member).await
    }
}

impl<P: CopiesPort> Answers<ListUsed> for AtLeader<'_, P> {
    async fn answer(&self, _: MemberId, _: ListUsed) -> Result<Amount, RequestFailure> {
        Ok(self.read(|view| view.state.used()).await?)
    }
}

impl<P: CopiesPort> Answers<ListNodes> for AtLeader<'_, P> {
    async fn answer(&self, _: MemberId, _: ListNodes) -> Result<Vec<KnownNode>, RequestFailure> {
        Ok(self.read(|view| view.nodes()).await?)
    }
}
