//! What the leader of a virtual cluster answers.

use std::collections::BTreeSet;

use muster_consensus::GroupId;
use muster_control::coordinator::Refused;
use muster_control::fence::Term;
use muster_control::groups::{Error, Local, Outcome, Seen};
use muster_control::request::vc::{
    Change, DescriptionVersion, Explain, FindJob, GetTerm, GiveUp, Jobs, Led, ListEvents,
    ListFound, ListJobs, ListNodes, ListTasksOn, ListUsed, ListVcs, ListWantedImages, NotTaken,
    RenewLease, SayOff, ShowConfig, ShowJob, ShowTask, Submit, TryDescription,
};
use muster_control::request::{Answers, Failure, Json};
use muster_control::vc::{AcceptedJob, Applied, Entry, NotFound, Rejected};
use muster_gossip::member::MemberId;
use muster_model::cluster_spec::SpecProblem;
use muster_model::explanation::Explanation;
use muster_model::id::{JobKey, TaskId};
use muster_model::known_node::KnownNode;
use muster_model::remark::Remark;
use muster_model::vc::{Amount, VcView, WhatIf};
use muster_model::view::{Event, JobDetail, JobSummary, TaskView};

use super::desk::Desk;
use super::view::View;
use muster_placement::description;

/// A virtual cluster, where it is led here. All else than that is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtLeader<'a> {
    pub(super) desk: &'a Desk,
    pub(super) group: GroupId,
}

impl AtLeader<'_> {
    /// Looks at the state as it stands after everything that was committed anywhere so far.
    async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let look = |seen: Seen<'_>| View::of(seen).map(|view| look(&view));
        let found = self.desk.groups.read(self.group, look).await?;
        found.ok_or(Error::NoLeader)
    }

    /// Looks at the state as it stands here, which another leader may have replaced meanwhile: for what
    /// a commit confirms. None if this node does not lead.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<Option<T>, Error> {
        let look = |local: Local<'_>| View::of(local.seen).map(|view| look(&view));
        Ok(self.desk.groups.look(self.group, look).await?.flatten())
    }

    /// Whether the cluster could ever run the job; a remark, if that depends on machines that have not
    /// reported. A refusal needs a majority: the job may be possible by what a newer leader knows.
    async fn judge(&self, job: &AcceptedJob) -> Result<Result<Option<String>, Refused>, Error> {
        let judge = |job: &AcceptedJob| {
            let (spec, user) = (job.spec.clone(), job.key.user.clone());
            move |view: &View<'_>| view.judge(&spec, &user)
        };
        match self.look(judge(job)).await? {
            Some(Ok(remark)) => Ok(Ok(remark)),
            Some(Err(_)) | None => self.read(judge(job)).await,
        }
    }

    async fn commit(&self, entry: &Entry) -> Result<Result<Applied, Rejected>, Error> {
        let bytes = entry.encode().map_err(|error| {
            tracing::error!(%error, "an entry cannot be written");
            Error::Unreadable
        })?;
        match self.desk.groups.propose(self.group, &bytes).await? {
            Outcome::Vc(outcome) => Ok(outcome),
            Outcome::Cluster(_) | Outcome::Unreadable(_) => Err(Error::Unreadable),
        }
    }
}

impl Answers<Submit> for AtLeader<'_> {
    async fn answer(
        &self,
        _: MemberId,
        Submit(mut job): Submit,
    ) -> Result<Result<Applied, NotTaken>, Failure> {
        match self.judge(&job).await? {
            Err(refused) => Ok(Err(NotTaken::Impossible(refused))),
            Ok(remark) => {
                job.spec
                    .warnings
                    .extend(remark.map(|told| Remark::at("", told)));
                let taken = self.commit(&Entry::Accept(Box::new(job))).await?;
                Ok(taken.map_err(NotTaken::Rejected))
            }
        }
    }
}

impl Answers<Change> for AtLeader<'_> {
    async fn answer(
        &self,
        _: MemberId,
        Change(entry): Change,
    ) -> Result<Result<Applied, Rejected>, Failure> {
        Ok(self.commit(&entry).await?)
    }
}

impl Answers<GetTerm> for AtLeader<'_> {
    async fn answer(&self, _: MemberId, _: GetTerm) -> Result<Led, Failure> {
        let generation = self.read(|view| view.generation()).await?;
        let led = self.desk.groups.led();
        let term = led.borrow().get(&self.group).copied();
        Ok(Led {
            generation,
            term: Term(term.ok_or(Error::NoLeader)?),
            leader: self.desk.me.0,
        })
    }
}

impl Answers<RenewLease> for AtLeader<'_> {
    async fn answer(&self, _: MemberId, request: RenewLease) -> Result<(), Failure> {
        Ok(self.desk.groups.renew(self.group, request.node).await?)
    }
}

impl Answers<ListWantedImages> for AtLeader<'_> {
    async fn answer(&self, _: MemberId, _: ListWantedImages) -> Result<BTreeSet<String>, Failure> {
        Ok(self.read(|view| view.state.images_wanted()).await?)
    }
}

impl Answers<ListJobs> for AtLeader<'_> {
    async fn answer(&self, _: MemberId, ListJobs(query): ListJobs) -> Result<Jobs, Failure> {
        let (jobs, total) = self.read(move |view| view.summaries(&query)).await?;
        let jobs = Json(jobs);
        Ok(Jobs { jobs, total })
    }
}

impl Answers<FindJob> for AtLeader<'_> {
    async fn answer(
        &self,
        _: MemberId,
        FindJob(key): FindJob,
    ) -> Result<Json<Option<JobSummary>>, Failure> {
        Ok(Json(self.read(move |view| view.summary(&key)).await?))
    }
}

impl Answers<ShowJob> for AtLeader<'_> {
    async fn answer(
        &self,
        _: MemberId,
        ShowJob { job, attempt }: ShowJob,
    ) -> Result<Result<Json<JobDetail>, NotFound>, Failure> {
        let detail = self.read(move |view| view.detail(&job, attempt)).await?;
        Ok(detail.map(Json))
    }
}

impl Answers<Explain> for AtLeader<'_> {
    async fn answer(
        &self,
        _: MemberId,
        Explain(key): Explain,
    ) -> Result<Result<Json<Explanation>, NotFound>, Failure> {
        let why = self.read(move |view| view.explanation(&key)).await?;
        Ok(why.map(Json))
    }
}

impl Answers<ListVcs> for AtLeader<'_> {
    async fn answer(&self, _: MemberId, _: ListVcs) -> Result<Json<Vec<VcView>>, Failure> {
        Ok(Json(self.read(|view| view.virtual_clusters()).await?))
    }
}

impl Answers<DescriptionVersion> for AtLeader<'_> {
    async fn answer(&self, _: MemberId, _: DescriptionVersion) -> Result<Option<u64>, Failure> {
        Ok(self.read(|view| view.description()).await?)
    }
}

impl Answers<ListFound> for AtLeader<'_> {
    async fn answer(&self, _: MemberId, _: ListFound) -> Result<String, Failure> {
        Ok(self.read(|view| view.found()).await?)
    }
}

impl Answers<TryDescription> for AtLeader<'_> {
    /// Found out beside the loop of the groups, which has others waiting.
    async fn answer(
        &self,
        _: MemberId,
        TryDescription(text): TryDescription,
    ) -> Result<Result<Json<WhatIf>, Vec<String>>, Failure> {
        let outlook = self.read(|view| view.outlook()).await?;
        let found =
            tokio::task::spawn_blocking(move || outlook.what_if(&description::read(&text)?));
        let what = found.await;
        let what = what.map_err(|error| Failure::unavailable(error.to_string()))?;
        let lines = |problems: Vec<SpecProblem>| problems.iter().map(ToString::to_string).collect();
        Ok(what.map(Json).map_err(lines))
    }
}

impl Answers<ShowConfig> for AtLeader<'_> {
    async fn answer(
        &self,
        _: MemberId,
        ShowConfig(key): ShowConfig,
    ) -> Result<Result<String, NotFound>, Failure> {
        Ok(self.read(move |view| view.state.config(&key)).await?)
    }
}

impl Answers<ListEvents> for AtLeader<'_> {
    async fn answer(
        &self,
        _: MemberId,
        ListEvents(key): ListEvents,
    ) -> Result<Result<Json<Vec<Event>>, NotFound>, Failure> {
        let events = self.read(move |view| view.state.events(&key)).await?;
        Ok(events.map(Json))
    }
}

impl Answers<ShowTask> for AtLeader<'_> {
    async fn answer(
        &self,
        _: MemberId,
        ShowTask { job, attempt, task }: ShowTask,
    ) -> Result<Result<Json<TaskView>, NotFound>, Failure> {
        let found = self.read(move |view| view.state.task(&job, attempt, &task));
        Ok(found.await?.map(Json))
    }
}

impl Answers<ListTasksOn> for AtLeader<'_> {
    async fn answer(
        &self,
        _: MemberId,
        ListTasksOn(node): ListTasksOn,
    ) -> Result<Vec<(JobKey, TaskId)>, Failure> {
        Ok(self.read(move |view| view.state.tasks_on(&node)).await?)
    }
}

impl Answers<SayOff> for AtLeader<'_> {
    async fn answer(&self, _: MemberId, SayOff(node): SayOff) -> Result<(), Failure> {
        Ok(self.desk.groups.off(self.group, node).await?)
    }
}

impl Answers<GiveUp> for AtLeader<'_> {
    /// Takes a member's copy of the log away, for it is about to leave.
    async fn answer(&self, _: MemberId, GiveUp(member): GiveUp) -> Result<(), Failure> {
        self.desk.groups.give_up(self.group, member).await
    }
}

impl Answers<ListUsed> for AtLeader<'_> {
    async fn answer(&self, _: MemberId, _: ListUsed) -> Result<Amount, Failure> {
        Ok(self.read(|view| view.state.used()).await?)
    }
}

impl Answers<ListNodes> for AtLeader<'_> {
    async fn answer(&self, _: MemberId, _: ListNodes) -> Result<Vec<KnownNode>, Failure> {
        Ok(self.read(|view| view.nodes()).await?)
    }
}
