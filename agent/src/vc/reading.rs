//! What is only to be shown: had from the leaders, and from a copy of the log where one does not answer.
//! Such an answer says how old it is.

use std::collections::BTreeMap;

use futures::future::join_all;
use muster_control::vc::NotFound;
use muster_model::id::{JobKey, TaskId, VcName};
use muster_model::vc::{Amount, VcView};
use muster_model::view::{Age, Dated, Event, JobDetail, TaskView};
use muster_portal_gateway::cluster::{JobQuery, Listed};
use tokio::time::{Instant, timeout};

use super::everywhere::views;
use super::handle::{Error, Seat, VcHandle};
use super::question::{Answer, Question};

/// What is heard of virtual clusters.
enum Word {
    /// By a leader's word: every one.
    Views(Vec<VcView>),
    /// By a copy's: what its own uses.
    Used(Amount),
}

impl VcHandle {
    /// The jobs that are asked for, with why they wait.
    ///
    /// # Errors
    /// When nothing is to be heard of any virtual cluster that the filter takes.
    pub(crate) async fn listed(&self, query: JobQuery) -> Result<Listed, Error> {
        let vcs = self.wanted(&query)?;
        let question = Question::Jobs(Box::new(query));
        let told = |answer| match answer {
            Answer::Jobs { jobs, total } => Some((jobs, total)),
            _ => None,
        };
        let mut listed = Listed::default();
        let mut unheard = None;
        let all = self.look_at_all(vcs, &question, told).await;
        let heard = all.iter().any(|(_, seen)| seen.is_ok());
        for (vc, seen) in all {
            match seen {
                Ok(Dated { value, age }) => {
                    let (jobs, total) = value;
                    listed.jobs.extend(jobs);
                    listed.total += total;
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

    /// A job at an attempt, the latest if none is named.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn detail(
        &self,
        job: JobKey,
        attempt: Option<u32>,
    ) -> Result<Result<Dated<JobDetail>, NotFound>, Error> {
        let told = |answer| match answer {
            Answer::Detail(detail) => Some(detail.map(|detail| *detail)),
            _ => None,
        };
        let question = Question::Detail {
            job: job.clone(),
            attempt,
        };
        self.look_up(&job, &question, told).await
    }

    /// A job as it was submitted, as JSON.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn config(
        &self,
        key: JobKey,
    ) -> Result<Result<Dated<String>, NotFound>, Error> {
        let told = |answer| match answer {
            Answer::Config(config) => Some(config),
            _ => None,
        };
        let question = Question::Config(key.clone());
        self.look_up(&key, &question, told).await
    }

    /// What happened to a job.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn events(
        &self,
        key: JobKey,
    ) -> Result<Result<Dated<Vec<Event>>, NotFound>, Error> {
        let told = |answer| match answer {
            Answer::Events(events) => Some(events),
            _ => None,
        };
        let question = Question::Events(key.clone());
        self.look_up(&key, &question, told).await
    }

    /// A task of an attempt.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn task(
        &self,
        job: JobKey,
        attempt: u32,
        task: TaskId,
    ) -> Result<Result<Dated<TaskView>, NotFound>, Error> {
        let told = |answer| match answer {
            Answer::Task(task) => Some(task.map(|task| *task)),
            _ => None,
        };
        let key = job.clone();
        let question = Question::Task { job, attempt, task };
        self.look_up(&key, &question, told).await
    }

    /// Every virtual cluster, by the word of its own leader; where that one is away, by another's.
    ///
    /// # Errors
    /// When nobody answers.
    pub(crate) async fn virtual_clusters(&self) -> Result<Vec<VcView>, Error> {
        let told = |answer| match answer {
            Answer::VirtualClusters(vcs) => Some(Word::Views(vcs)),
            Answer::Used(amount) => Some(Word::Used(amount)),
            _ => None,
        };
        let question = Question::VirtualClusters;
        let all = self.look_at_all(self.names()?, &question, told).await;
        let (mut told, mut away, mut used) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut unheard = None;
        for (vc, seen) in all {
            match seen {
                Ok(Dated { value, age }) => match value {
                    Word::Views(views) => told.push((vc, views)),
                    Word::Used(amount) => {
                        away.push((vc.clone(), age));
                        used.insert(vc, amount);
                    }
                },
                Err(why) => {
                    away.push((vc, None));
                    unheard.get_or_insert(why);
                }
            }
        }
        match unheard.filter(|_| told.is_empty() && used.is_empty()) {
            Some(why) => Err(why),
            None => Ok(views(told, &used, &away)),
        }
    }

    /// Looks for something of a job where the job is.
    async fn look_up<T>(
        &self,
        key: &JobKey,
        question: &Question,
        pick: impl Fn(Answer) -> Option<Result<T, NotFound>> + Copy,
    ) -> Result<Result<Dated<T>, NotFound>, Error> {
        let vc = match self.place_of(key).await? {
            Ok(vc) => vc,
            Err(missing) => return Ok(Err(missing)),
        };
        let Dated { value, age } = self.look_at(&vc, question, pick).await?;
        Ok(value.map(|value| Dated { value, age }))
    }

    /// The virtual cluster that has a job; of two, the one with the newest.
    async fn place_of(&self, key: &JobKey) -> Result<Result<VcName, NotFound>, Error> {
        let mut names = self.names()?;
        if names.len() == 1
            && let Some(only) = names.pop()
        {
            return Ok(Ok(only));
        }
        let told = |answer| match answer {
            Answer::Job(job) => Some(job.map(|job| job.submitted)),
            _ => None,
        };
        let question = Question::Job(key.clone());
        let mut newest: Option<(u64, VcName)> = None;
        let mut unheard = None;
        for (vc, seen) in self.look_at_all(names, &question, told).await {
            match seen {
                Ok(Dated { value, .. }) => newest = newest.max(value.map(|at| (at, vc))),
                Err(why) => unheard = unheard.or(Some(why)),
            }
        }
        match (newest, unheard) {
            (Some((_, vc)), _) => Ok(Ok(vc)),
            (None, Some(why)) => Err(why),
            (None, None) => Ok(Err(NotFound::Job(key.clone()))),
        }
    }

    /// Looks at these virtual clusters at the same time.
    async fn look_at_all<T>(
        &self,
        vcs: Vec<VcName>,
        question: &Question,
        pick: impl Fn(Answer) -> Option<T> + Copy,
    ) -> Vec<(VcName, Result<Dated<T>, Error>)> {
        let is_only = vcs.len() == 1;
        let look = |vc: VcName| async move {
            let seen = match is_only {
                true => self.look_at(&vc, question, pick).await,
                false => self.look_at_soon(&vc, question, pick).await,
            };
            (vc, seen)
        };
        join_all(vcs.into_iter().map(look)).await
    }

    /// Looks at a virtual cluster. Where no copy says more, its leader is waited for.
    async fn look_at<T>(
        &self,
        vc: &VcName,
        question: &Question,
        pick: impl Fn(Answer) -> Option<T> + Copy,
    ) -> Result<Dated<T>, Error> {
        let asked = self.asked(vc, question.clone(), pick);
        tokio::pin!(asked);
        let patience = self.silent.patience(vc, Instant::now());
        let soon = timeout(patience, &mut asked).await;
        match self.judge(vc, soon) {
            Some(Err(Error::Away(why))) => {
                let copy = self.ask_copies(vc, question, pick).await;
                copy.ok_or(Error::Away(why))
            }
            Some(answer) => answer.map(Dated::now),
            None => match self.ask_copies(vc, question, pick).await {
                Some(seen) => Ok(seen),
                None => asked.await.map(Dated::now),
            },
        }
    }

    /// Looks at a virtual cluster while others wait to be shown too.
    async fn look_at_soon<T>(
        &self,
        vc: &VcName,
        question: &Question,
        pick: impl Fn(Answer) -> Option<T> + Copy,
    ) -> Result<Dated<T>, Error> {
        match self
            .in_time(vc, self.asked(vc, question.clone(), pick))
            .await
        {
            Err(Error::Away(why)) => {
                let copy = self.ask_copies(vc, question, pick).await;
                copy.ok_or(Error::Away(why))
            }
            answer => answer.map(Dated::now),
        }
    }

    /// Asks a copy of the log, the newest that can be reached.
    async fn ask_copies<T>(
        &self,
        vc: &VcName,
        question: &Question,
        pick: impl Fn(Answer) -> Option<T>,
    ) -> Option<Dated<T>> {
        let Seat::Shared(vcs, authority) = self.seat().borrow().clone() else {
            return None;
        };
        let group = *vcs.get(vc)?;
        let (answer, ms) = authority.ask_copies(group, question).await?;
        let age = Age {
            vc: vc.clone(),
            seconds: ms.map(|ms| ms.div_ceil(1000)),
        };
        Some(Dated {
            value: pick(answer)?,
            age: Some(age),
        })
    }
}
