//! Where a virtual cluster's leader is asked: the node that leads answers, the others name it.

use std::time::Duration;

use futures::future::join_all;
use muster_consensus::{GroupId, NodeId};
use muster_control::fence::Term;
use muster_control::groups::{Error, Outcome, Seen};
use muster_control::vc::{AcceptedJob, Entry};
use muster_gossip::member::MemberId;
use muster_model::cluster_spec::SpecProblem;
use muster_model::id;
use muster_model::remark::Remark;
use muster_model::vc::WhatIf;
use tokio::time::timeout;

use super::copies::VcCopies;
use super::question::{Answer, Question};
use super::view::View;
use crate::affairs::copies::give_up;
use crate::affairs::question::Rejection;
use crate::description::Description;
use crate::groups::Groups;

/// How long a group's majority is waited for by those who asked of several: one without a majority holds up
/// no other.
const MAJORITY_LIMIT: Duration = Duration::from_secs(1);

/// Answers for the virtual clusters that are led here.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    groups: Groups,
    me: NodeId,
}

impl Desk {
    pub(crate) const fn new(groups: Groups, me: NodeId) -> Self {
        Self { groups, me }
    }

    /// Answers a question about a virtual cluster.
    ///
    /// # Errors
    /// When this node does not lead it, or cannot keep anything now.
    pub(crate) async fn answer(
        &self,
        group: GroupId,
        question: Question,
    ) -> Result<Answer, Rejection> {
        let read = Read {
            groups: &self.groups,
            group,
        };
        Ok(match question {
            Question::Submit(job) => self.submit(group, *job).await?,
            Question::Change(entry) => self.commit(group, &entry).await?,
            Question::Term => self.term(&read).await?,
            Question::Renew(node) => {
                self.groups.renew(group, node).await?;
                Answer::Renewed
            }
            Question::ImagesWanted => {
                read.of(|view| Answer::Images(view.state.images_wanted()))
                    .await?
            }
            Question::Jobs(query) => {
                read.of(move |view| {
                    let (jobs, total) = view.summaries(&query);
                    Answer::Jobs { jobs, total }
                })
                .await?
            }
            Question::Job(key) => {
                let job = move |view: &View<'_>| view.summary(&key).map(Box::new);
                read.of(move |view| Answer::Job(job(view))).await?
            }
            Question::Detail { job, attempt } => {
                let detail = move |view: &View<'_>| view.detail(&job, attempt).map(Box::new);
                read.of(move |view| Answer::Detail(detail(view))).await?
            }
            Question::Explanation(key) => {
                let why = move |view: &View<'_>| view.explanation(&key).map(Box::new);
                read.of(move |view| Answer::Explanation(why(view))).await?
            }
            Question::VirtualClusters => {
                read.of(|view| Answer::VirtualClusters(view.virtual_clusters()))
                    .await?
            }
            Question::Description => {
                read.of(|view| Answer::Description(view.description()))
                    .await?
            }
            Question::Found => read.of(|view| Answer::Found(view.found())).await?,
            Question::WhatIf(text) => Answer::WhatIf(what_if(&read, text).await?),
            Question::Config(key) => {
                read.of(move |view| Answer::Config(view.state.config(&key)))
                    .await?
            }
            Question::Events(key) => {
                read.of(move |view| Answer::Events(view.state.events(&key)))
                    .await?
            }
            Question::Task { job, attempt, task } => {
                let found = move |view: &View<'_>| view.state.task(&job, attempt, &task);
                read.of(move |view| Answer::Task(found(view).map(Box::new)))
                    .await?
            }
            Question::TasksOn(node) => {
                read.of(move |view| Answer::Tasks(view.state.tasks_on(&node)))
                    .await?
            }
            Question::Off(node) => {
                self.groups.off(group, node).await?;
                Answer::Off
            }
            // Asked of members only, which know where copies can go.
            Question::GiveUp(_) => {
                return Err(Rejection::Invalid("this node is in no cluster".to_owned()));
            }
        })
    }

    /// Takes a member's copy of the log away, for it is about to leave.
    ///
    /// # Errors
    /// When this node does not lead, or no other place was found in time.
    pub(crate) async fn give_up(
        &self,
        all: &VcCopies,
        group: GroupId,
        member: MemberId,
    ) -> Result<Answer, Rejection> {
        let unknown = || Rejection::Unavailable("no such virtual cluster is known here".to_owned());
        let copies = all.of(group).ok_or_else(unknown)?;
        give_up(&copies, member, || all.see_to(&copies)).await?;
        Ok(Answer::GaveUp)
    }

    /// Up to which entry those of these groups are committed that are led here, by the word of a majority
    /// given after this was asked.
    pub(crate) async fn committed(&self, groups: Vec<u64>) -> Vec<(u64, u64)> {
        let committed = groups.into_iter().map(|group| async move {
            let index = self.groups.read(GroupId(group), |seen| seen.applied);
            let index = timeout(MAJORITY_LIMIT, index).await;
            Some((group, index.ok()?.ok()?))
        });
        join_all(committed).await.into_iter().flatten().collect()
    }

    /// A node asks for renewal of what it holds of these groups. Those that are led here, as a majority has
    /// confirmed after this was asked.
    pub(crate) async fn renew_all(&self, groups: Vec<u64>, node: &id::NodeId) -> Vec<u64> {
        let renewed = groups.into_iter().map(|group| async move {
            let renewed = self.groups.renew(GroupId(group), node.clone());
            let renewed = timeout(MAJORITY_LIMIT, renewed).await;
            matches!(renewed, Ok(Ok(()))).then_some(group)
        });
        join_all(renewed).await.into_iter().flatten().collect()
    }

    async fn submit(&self, group: GroupId, mut job: AcceptedJob) -> Result<Answer, Error> {
        let (spec, user) = (job.spec.clone(), job.key.user.clone());
        let read = Read {
            groups: &self.groups,
            group,
        };
        let judged = read.of(move |view| view.judge(&spec, &user)).await?;
        match judged {
            Err(refused) => Ok(Answer::Impossible(refused)),
            Ok(remark) => {
                job.spec
                    .warnings
                    .extend(remark.map(|told| Remark::at("", told)));
                self.commit(group, &Entry::Accept(Box::new(job))).await
            }
        }
    }

    async fn commit(&self, group: GroupId, entry: &Entry) -> Result<Answer, Error> {
        let bytes = entry.encode().map_err(|error| {
            tracing::error!(%error, "an entry cannot be written");
            Error::Unreadable
        })?;
        match self.groups.propose(group, &bytes).await? {
            Outcome::Vc(Ok(applied)) => Ok(Answer::Done(applied)),
            Outcome::Vc(Err(rejected)) => Ok(Answer::Rejected(rejected)),
            Outcome::Cluster(_) | Outcome::Unreadable(_) => Err(Error::Unreadable),
        }
    }

    /// The term, by the word of a majority given after this was asked.
    async fn term(&self, read: &Read<'_>) -> Result<Answer, Error> {
        let generation = read.of(|view| view.generation()).await?;
        let led = self.groups.led();
        let term = led.borrow().get(&read.group).copied();
        Ok(Answer::Term {
            generation,
            term: Term(term.ok_or(Error::NoLeader)?),
            leader: self.me.0,
        })
    }
}

/// What would become of jobs and promises by a description; or what is wrong with it. Found out
/// beside the loop of the groups, which has others waiting.
async fn what_if(
    read: &Read<'_>,
    text: String,
) -> Result<Result<Box<WhatIf>, Vec<String>>, Rejection> {
    let outlook = read.of(|view| view.outlook()).await?;
    let found = tokio::task::spawn_blocking(move || {
        let description = Description::read(&text, 0)?;
        outlook.what_if(&description.spec)
    });
    let what = found.await;
    let what = what.map_err(|error| Rejection::Unavailable(error.to_string()))?;
    let lines = |problems: Vec<SpecProblem>| problems.iter().map(ToString::to_string).collect();
    Ok(what.map(Box::new).map_err(lines))
}

/// Looks at a virtual cluster that is led here.
struct Read<'a> {
    groups: &'a Groups,
    group: GroupId,
}

impl Read<'_> {
    async fn of<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let look = |seen: Seen<'_>| View::of(seen).map(|view| look(&view));
        let found = self.groups.read(self.group, look).await?;
        found.ok_or(Error::NoLeader)
    }
}
