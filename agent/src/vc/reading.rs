//! What is only to be shown: had from the leaders, and from a copy of the log where one does not answer.
//! Such an answer says how old it is.

use std::collections::BTreeMap;

use futures::future::join_all;
use muster_control::request::vc::{
    FindJob, GetJobsRevision, ListEvents, ListJobs, ListUsed, ListVcs, OfCopy, ShowConfig, ShowJob,
    ShowTask,
};
use muster_control::request::{Aged, Answers, Json};
use muster_control::vc::NotFound;
use muster_model::id::{JobKey, TaskId, VcName};
use muster_model::job_query::{JobFilter, JobQuery};
use muster_model::sight::{HiddenJobs, JobSight};
use muster_model::vc::VcView;
use muster_model::view::{Age, Dated, JobDetail, JobEvent, TaskView};
use muster_portal_gateway::port::{FoundJobs, JobsRevision};
use tokio::time::{Instant, timeout};

use super::everywhere::views;
use super::handle::{Seat, VcError, VcHandle};
use super::{AtCopy, AtLeader};

/// Why a job is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnseenJob {
    /// It, or what was asked for of it, is not there.
    Missing(NotFound),
    /// The user does not see it.
    Hidden(HiddenJobs),
}

impl From<NotFound> for UnseenJob {
    fn from(missing: NotFound) -> Self {
        Self::Missing(missing)
    }
}

impl From<HiddenJobs> for UnseenJob {
    fn from(hidden: HiddenJobs) -> Self {
        Self::Hidden(hidden)
    }
}

/// What was found of a job, and where the job is.
pub(crate) type SeenOfJob<T> = Result<(VcName, Dated<T>), UnseenJob>;

impl VcHandle {
    /// The jobs that are asked for and seen.
    ///
    /// # Errors
    /// When nothing is to be heard of any virtual cluster that the filter takes.
    pub(crate) async fn listed(
        &self,
        query: JobQuery,
        sight: &JobSight,
    ) -> Result<FoundJobs, VcError> {
        let vcs = self.wanted(&query.filter)?;
        let mut listed = FoundJobs::default();
        let mut unheard = None;
        let sight = sight.clone();
        let all = self.look_at_all(vcs, &ListJobs { query, sight }).await;
        let heard = all.iter().any(|(_, seen)| seen.is_ok());
        for (vc, seen) in all {
            match seen {
                Ok(Dated { value, age }) => {
                    listed.jobs.extend(value.jobs.0);
                    listed.total += value.total;
                    listed.aged.extend(age);
                }
                Err(why) => {
                    listed.away.push(vc);
                    unheard.get_or_insert(why);
                }
            }
        }
        match unheard.filter(|_| !heard) {
            Some(why) => Err(why),
            None => Ok(listed),
        }
    }

    /// What a list of the jobs that a filter takes follows from; none where a leader does not say.
    pub(crate) async fn revision(&self, filter: &JobFilter) -> Option<JobsRevision> {
        let asked = self.wanted(filter).ok()?.into_iter().map(|vc| async move {
            let revision = self.in_time(&vc, self.ask(&vc, GetJobsRevision)).await;
            Some((vc, revision.ok()?))
        });
        let told = join_all(asked).await.into_iter();
        Some(JobsRevision(told.collect::<Option<_>>()?))
    }

    /// A job at an attempt, the latest if none is named.
    ///
    /// # Errors
    /// [`VcError::Away`].
    pub(crate) async fn detail(
        &self,
        job: &JobKey,
        attempt: Option<u32>,
        sight: &JobSight,
    ) -> Result<SeenOfJob<JobDetail>, VcError> {
        let request = ShowJob {
            job: job.clone(),
            attempt,
            sight: sight.clone(),
        };
        self.look_up((job, sight), &request, |detail| detail.map(|it| it.0))
            .await
    }

    /// A job as it was submitted, as JSON.
    ///
    /// # Errors
    /// [`VcError::Away`].
    pub(crate) async fn config(
        &self,
        job: &JobKey,
        sight: &JobSight,
    ) -> Result<SeenOfJob<String>, VcError> {
        let request = ShowConfig(job.clone());
        self.look_up((job, sight), &request, |config| config).await
    }

    /// What happened to a job.
    ///
    /// # Errors
    /// [`VcError::Away`].
    pub(crate) async fn events(
        &self,
        job: &JobKey,
        sight: &JobSight,
    ) -> Result<SeenOfJob<Vec<JobEvent>>, VcError> {
        let request = ListEvents {
            job: job.clone(),
            sight: sight.clone(),
        };
        self.look_up((job, sight), &request, |events| events.map(|it| it.0))
            .await
    }

    /// A task of an attempt.
    ///
    /// # Errors
    /// [`VcError::Away`].
    pub(crate) async fn task(
        &self,
        job: &JobKey,
        (attempt, task): (u32, &TaskId),
        sight: &JobSight,
    ) -> Result<SeenOfJob<TaskView>, VcError> {
        let request = ShowTask {
            job: job.clone(),
            attempt,
            task: task.clone(),
        };
        self.look_up((job, sight), &request, |task| task.map(|it| it.0))
            .await
    }

    /// Every virtual cluster, by the word of its own leader; where that one is away, by another's.
    ///
    /// # Errors
    /// When nobody answers.
    pub(crate) async fn virtual_clusters(&self) -> Result<Vec<VcView>, VcError> {
        let names = self.names()?;
        let is_only = names.len() == 1;
        let asked = names.into_iter().map(|vc| async move {
            let asked = self.ask(&vc, ListVcs);
            let views = match is_only {
                true => asked.await,
                false => self.in_time(&vc, asked).await,
            };
            (vc, views)
        });
        let (mut told, mut away, mut used) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut unheard = None;
        for (vc, views) in join_all(asked).await {
            match views {
                Ok(Json(views)) => told.push((vc, views)),
                Err(why) => match self.ask_copies(&vc, &ListUsed).await {
                    Some(Dated { value, age }) => {
                        away.push((vc.clone(), age));
                        used.insert(vc, value);
                    }
                    None => {
                        away.push((vc, None));
                        unheard.get_or_insert(why);
                    }
                },
            }
        }
        match unheard.filter(|_| told.is_empty() && used.is_empty()) {
            Some(why) => Err(why),
            None => Ok(views(told, &used, &away)),
        }
    }

    /// Looks for something of a job where the job is, if the job is seen. It is asked for at the very virtual
    /// cluster that was checked: another one may have taken a job of the name meanwhile.
    async fn look_up<R: OfCopy, T>(
        &self,
        (job, sight): (&JobKey, &JobSight),
        request: &R,
        open: impl Fn(R::Answer) -> Result<T, NotFound>,
    ) -> Result<SeenOfJob<T>, VcError>
    where
        for<'a> AtLeader<'a>: Answers<R>,
        for<'a> AtCopy<'a>: Answers<R>,
    {
        let vc = match self.place_of(job, sight).await? {
            Ok(vc) => vc,
            Err(missing) => return Ok(Err(missing.into())),
        };
        if let Err(hidden) = sight.check(&vc, job) {
            return Ok(Err(hidden.into()));
        }
        let Dated { value, age } = self.look_at(&vc, request).await?;
        let found = open(value).map(|value| (vc, Dated { value, age }));
        Ok(found.map_err(UnseenJob::from))
    }

    /// The virtual cluster that has a job; of two, the one with the newest. Of only one it is known without
    /// asking, unless its jobs are hidden: what is not there is missing, and not hidden.
    async fn place_of(
        &self,
        job: &JobKey,
        sight: &JobSight,
    ) -> Result<Result<VcName, NotFound>, VcError> {
        let names = self.names()?;
        if let [only] = names.as_slice()
            && sight.sees(only, &job.user)
        {
            return Ok(Ok(only.clone()));
        }
        let find = FindJob {
            job: job.clone(),
            sight: sight.clone(),
        };
        let mut newest: Option<(u64, VcName)> = None;
        let mut unheard = None;
        for (vc, seen) in self.look_at_all(names, &find).await {
            match seen {
                Ok(Dated { value, .. }) => {
                    newest = newest.max(value.0.map(|job| (job.submitted, vc)));
                }
                Err(why) => unheard = unheard.or(Some(why)),
            }
        }
        match (newest, unheard) {
            (Some((_, vc)), _) => Ok(Ok(vc)),
            (None, Some(why)) => Err(why),
            (None, None) => Ok(Err(NotFound::Job(job.clone()))),
        }
    }

    /// Looks at these virtual clusters at the same time.
    async fn look_at_all<R: OfCopy>(
        &self,
        vcs: Vec<VcName>,
        request: &R,
    ) -> Vec<(VcName, Result<Dated<R::Answer>, VcError>)>
    where
        for<'a> AtLeader<'a>: Answers<R>,
        for<'a> AtCopy<'a>: Answers<R>,
    {
        let is_only = vcs.len() == 1;
        let look = |vc: VcName| async move {
            let seen = match is_only {
                true => self.look_at(&vc, request).await,
                false => self.look_at_soon(&vc, request).await,
            };
            (vc, seen)
        };
        join_all(vcs.into_iter().map(look)).await
    }

    /// Looks at a virtual cluster. Where no copy says more, its leader is waited for.
    async fn look_at<R: OfCopy>(
        &self,
        vc: &VcName,
        request: &R,
    ) -> Result<Dated<R::Answer>, VcError>
    where
        for<'a> AtLeader<'a>: Answers<R>,
        for<'a> AtCopy<'a>: Answers<R>,
    {
        let asked = self.ask(vc, request.clone());
        tokio::pin!(asked);
        let patience = self.silent.patience(vc, Instant::now());
        let soon = timeout(patience, &mut asked).await;
        match self.judge(vc, soon) {
            Some(Err(VcError::Away(why))) => {
                let copy = self.ask_copies(vc, request).await;
                copy.ok_or(VcError::Away(why))
            }
            Some(answer) => answer.map(Dated::now),
            None => match self.ask_copies(vc, request).await {
                Some(seen) => Ok(seen),
                None => asked.await.map(Dated::now),
            },
        }
    }

    /// Looks at a virtual cluster while others wait to be shown too.
    async fn look_at_soon<R: OfCopy>(
        &self,
        vc: &VcName,
        request: &R,
    ) -> Result<Dated<R::Answer>, VcError>
    where
        for<'a> AtLeader<'a>: Answers<R>,
        for<'a> AtCopy<'a>: Answers<R>,
    {
        match self.in_time(vc, self.ask(vc, request.clone())).await {
            Err(VcError::Away(why)) => {
                let copy = self.ask_copies(vc, request).await;
                copy.ok_or(VcError::Away(why))
            }
            answer => answer.map(Dated::now),
        }
    }

    /// Asks a copy of the log, the newest that can be reached.
    async fn ask_copies<R: OfCopy>(&self, vc: &VcName, request: &R) -> Option<Dated<R::Answer>>
    where
        for<'a> AtCopy<'a>: Answers<R>,
    {
        let Seat::Shared(vcs, requests) = self.seat().borrow().clone() else {
            return None;
        };
        let group = *vcs.get(vc)?;
        let Aged { value, age_ms } = requests.copy(group, request).await?;
        let age = Age {
            vc: vc.clone(),
            seconds: age_ms.map(|ms| ms.div_ceil(1000)),
        };
        Some(Dated {
            value,
            age: Some(age),
        })
    }
}
