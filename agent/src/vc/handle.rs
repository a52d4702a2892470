//! What others hold of the virtual cluster.

use std::collections::BTreeSet;

use muster_consensus::{GroupId, NodeId};
use muster_control::fence::Term;
use muster_control::vc::{AcceptedJob, Applied, Entry, NotFound, Rejected};
use muster_model::explanation::Explanation;
use muster_model::id::{self, JobKey, TaskId};
use muster_model::vc::{VcView, WhatIf};
use muster_model::view::{Event, JobDetail, JobSummary, TaskView};
use muster_portal_gateway::cluster::JobFilter;
use tokio::sync::watch;

use super::desk::Desk;
use super::question::{Answer, Question};
use super::view::View;
use crate::affairs::question as affairs;
use crate::affairs::question::Rejection;
use crate::groups::message::Seen;
use crate::groups::{Groups, name};
use crate::mesh::authority::Authority;

/// Why the virtual cluster did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// It cannot be asked, or cannot keep anything now. It says whether it may have come about.
    #[error("{0}")]
    Away(String),
    /// The state refused; nothing was changed.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The cluster could never run the job.
    #[error("{0}")]
    Impossible(String),
}

/// Which virtual cluster this node serves.
#[derive(Clone, Debug)]
pub(crate) enum Seat {
    /// Its own: it is in no cluster.
    Own(GroupId),
    /// One of the cluster's. It may be led by another member.
    Shared(GroupId, Box<Authority>),
    /// The cluster's, but they are not known yet.
    Unknown,
}

/// What others hold of the virtual cluster.
#[derive(Clone, Debug)]
pub(crate) struct VcHandle {
    groups: Groups,
    seat: watch::Receiver<Seat>,
}

impl VcHandle {
    pub(crate) const fn new(groups: Groups, seat: watch::Receiver<Seat>) -> Self {
        Self { groups, seat }
    }

    /// Which virtual cluster this node serves; changes when it joins or leaves a cluster.
    pub(crate) fn seat(&self) -> watch::Receiver<Seat> {
        self.seat.clone()
    }

    /// The number of its group, if it is known.
    pub(crate) fn group(&self) -> Option<GroupId> {
        match &*self.seat.borrow() {
            Seat::Own(group) | Seat::Shared(group, _) => Some(*group),
            Seat::Unknown => None,
        }
    }

    /// Asks whoever leads.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn ask(&self, question: Question) -> Result<Answer, Error> {
        let seat = self.seat.borrow().clone();
        let answer = match seat {
            Seat::Own(group) => {
                let desk = Desk::new(self.groups.clone(), name::ALONE);
                desk.answer(group, question).await
            }
            Seat::Shared(group, authority) => {
                let group = group.0;
                let question = affairs::Question::Vc { group, question };
                match authority.ask(question).await {
                    affairs::Answer::Vc(answer) => Ok(answer),
                    affairs::Answer::Rejected(rejection) => Err(rejection),
                    _ => Err(Rejection::Unavailable("the answer makes no sense".into())),
                }
            }
            Seat::Unknown => Err(Rejection::Unavailable(
                "this node does not know yet which virtual clusters its cluster has; try again"
                    .into(),
            )),
        };
        answer.map_err(|rejection| Error::Away(rejection.to_string()))
    }

    async fn asked<T>(
        &self,
        question: Question,
        pick: impl FnOnce(Answer) -> Option<T>,
    ) -> Result<T, Error> {
        match self.ask(question).await? {
            Answer::Rejected(rejected) => Err(Error::Rejected(rejected)),
            Answer::Impossible(why) => Err(Error::Impossible(why)),
            answer => pick(answer).ok_or_else(|| {
                let why = "the virtual cluster's leader answers something else; is it of an older \
                           release?";
                Error::Away(why.into())
            }),
        }
    }

    /// Has a job taken. When this returns `Ok`, it is on the disks of a majority of the voters.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn submit(&self, job: AcceptedJob) -> Result<Applied, Error> {
        let question = Question::Submit(Box::new(job));
        let done = |answer| match answer {
            Answer::Done(applied) => Some(applied),
            _ => None,
        };
        self.asked(question, done).await
    }

    /// Commits a user's change.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn change(&self, entry: Entry) -> Result<Applied, Error> {
        let question = Question::Change(Box::new(entry));
        let done = |answer| match answer {
            Answer::Done(applied) => Some(applied),
            _ => None,
        };
        self.asked(question, done).await
    }

    /// The generation and the term, by the word of a majority given after this was asked, and the
    /// number of who leads.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn term(&self) -> Result<(u32, Term, NodeId), Error> {
        let told = |answer| match answer {
            Answer::Term {
                generation,
                term,
                leader,
            } => Some((generation, term, NodeId(leader))),
            _ => None,
        };
        self.asked(Question::Term, told).await
    }

    /// Renews the run leases of a node. When this returns `Ok`, somebody has led the virtual
    /// cluster after this was asked.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn renew(&self, node: id::NodeId) -> Result<(), Error> {
        let renewed = |answer| matches!(answer, Answer::Renewed).then_some(());
        self.asked(Question::Renew(node), renewed).await
    }

    /// The same, by the leader of the `cluster` group.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn renew_at_cluster(&self, node: id::NodeId) -> Result<(), Error> {
        let seat = self.seat.borrow().clone();
        let Seat::Shared(_, authority) = seat else {
            return Err(Error::Away("this node is in no cluster".to_owned()));
        };
        match authority.ask(affairs::Question::Renew { node }).await {
            affairs::Answer::Done => Ok(()),
            affairs::Answer::Rejected(why) => Err(Error::Away(why.to_string())),
            _ => Err(Error::Away("the answer makes no sense".to_owned())),
        }
    }

    /// The images that jobs want.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn images_wanted(&self) -> Result<BTreeSet<String>, Error> {
        let told = |answer| match answer {
            Answer::Images(images) => Some(images),
            _ => None,
        };
        self.asked(Question::ImagesWanted, told).await
    }

    /// The jobs that a filter takes, with why they wait.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobSummary>, Error> {
        let told = |answer| match answer {
            Answer::Jobs(jobs) => Some(jobs),
            _ => None,
        };
        self.asked(Question::Jobs(Box::new(filter)), told).await
    }

    /// One job, with why it waits.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn job(&self, key: JobKey) -> Result<Option<JobSummary>, Error> {
        let told = |answer| match answer {
            Answer::Job(job) => Some(job.map(|job| *job)),
            _ => None,
        };
        self.asked(Question::Job(key), told).await
    }

    /// A job at an attempt, the latest if none is named.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn detail(
        &self,
        job: JobKey,
        attempt: Option<u32>,
    ) -> Result<Result<JobDetail, NotFound>, Error> {
        let told = |answer| match answer {
            Answer::Detail(detail) => Some(detail.map(|detail| *detail)),
            _ => None,
        };
        let question = Question::Detail { job, attempt };
        self.asked(question, told).await
    }

    /// Why a job waits, in full.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn explanation(
        &self,
        key: JobKey,
    ) -> Result<Result<Explanation, NotFound>, Error> {
        let told = |answer| match answer {
            Answer::Explanation(why) => Some(why.map(|why| *why)),
            _ => None,
        };
        self.asked(Question::Explanation(key), told).await
    }

    /// Every virtual cluster.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn virtual_clusters(&self) -> Result<Vec<VcView>, Error> {
        let told = |answer| match answer {
            Answer::VirtualClusters(vcs) => Some(vcs),
            _ => None,
        };
        self.asked(Question::VirtualClusters, told).await
    }

    /// The version of the description that the leader goes by, once it is known there.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn description(&self) -> Result<Option<u64>, Error> {
        let told = |answer| match answer {
            Answer::Description(version) => Some(version),
            _ => None,
        };
        self.asked(Question::Description, told).await
    }

    /// A description of what was found, promised to one virtual cluster: to be edited.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn found(&self) -> Result<String, Error> {
        let told = |answer| match answer {
            Answer::Found(text) => Some(text),
            _ => None,
        };
        self.asked(Question::Found, told).await
    }

    /// What would become of jobs and promises by a description; or what is wrong with it, line by
    /// line.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn what_if(&self, text: String) -> Result<Result<WhatIf, Vec<String>>, Error> {
        let told = |answer| match answer {
            Answer::WhatIf(what) => Some(what.map(|what| *what)),
            _ => None,
        };
        self.asked(Question::WhatIf(text), told).await
    }

    /// A job as it was submitted, as JSON.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn config(&self, key: JobKey) -> Result<Result<String, NotFound>, Error> {
        let told = |answer| match answer {
            Answer::Config(config) => Some(config),
            _ => None,
        };
        self.asked(Question::Config(key), told).await
    }

    /// What happened to a job.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn events(&self, key: JobKey) -> Result<Result<Vec<Event>, NotFound>, Error> {
        let told = |answer| match answer {
            Answer::Events(events) => Some(events),
            _ => None,
        };
        self.asked(Question::Events(key), told).await
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
    ) -> Result<Result<TaskView, NotFound>, Error> {
        let told = |answer| match answer {
            Answer::Task(task) => Some(task.map(|task| *task)),
            _ => None,
        };
        let question = Question::Task { job, attempt, task };
        self.asked(question, told).await
    }

    /// The tasks that may be running on a node.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn tasks_on(&self, node: id::NodeId) -> Result<Vec<(JobKey, TaskId)>, Error> {
        let told = |answer| match answer {
            Answer::Tasks(tasks) => Some(tasks),
            _ => None,
        };
        self.asked(Question::TasksOn(node), told).await
    }

    /// Gives up the tasks on a node that is off, as an admin says: soon after this returns.
    ///
    /// # Errors
    /// [`Error::Away`], also where the node can be reached.
    pub(crate) async fn off(&self, node: id::NodeId) -> Result<(), Error> {
        let done = |answer| matches!(answer, Answer::Off).then_some(());
        self.asked(Question::Off(node), done).await
    }

    /// Whether it is led here.
    pub(crate) fn leads(&self) -> bool {
        let led = self.groups.led();
        let led = led.borrow();
        self.group().is_some_and(|group| led.contains_key(&group))
    }

    /// Looks at it, if it is led here.
    pub(crate) async fn here<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let group = self.group().filter(|_| self.leads())?;
        let look = |seen: Seen<'_>| View::of(seen).map(|view| look(&view));
        self.groups.read(group, look).await.ok().flatten()
    }

    /// Changes whenever an entry was applied to a copy here.
    pub(crate) fn applied(&self) -> watch::Receiver<u64> {
        self.groups.applied()
    }

    /// Why nothing can be committed here now, if so.
    pub(crate) fn problem(&self) -> Option<String> {
        self.groups.problem()
    }

    /// Whether the loop under it is alive.
    pub(crate) async fn is_alive(&self) -> bool {
        self.groups.store().await.is_ok()
    }
}
