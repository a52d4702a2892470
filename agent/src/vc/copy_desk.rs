//! Where a copy of a virtual cluster's log answers, whoever leads: with how old its word may be.
//!
//! It says what it has, and never that there is nothing: what it lacks may have come since. Nothing is
//! changed here, and nothing is answered from here that somebody acts on.

use muster_consensus::GroupId;
use muster_control::groups::{Local, Machine};
use muster_control::vc::{Row, VcState};

use super::marks::Marks;
use super::question::{Answer, Question};
use crate::affairs::question::Rejection;
use crate::clock;
use crate::groups::Groups;

/// Answers by the copies here.
#[derive(Clone, Debug)]
pub(crate) struct CopyDesk {
    groups: Groups,
    marks: Marks,
}

impl CopyDesk {
    pub(crate) fn new(groups: Groups) -> Self {
        Self {
            groups,
            marks: Marks::default(),
        }
    }

    /// When the copies were known to be up to date.
    pub(crate) const fn marks(&self) -> &Marks {
        &self.marks
    }

    /// How many milliseconds ago the copy of a group was known to be up to date, if that is known.
    ///
    /// # Errors
    /// When there is no copy here.
    pub(crate) async fn age(&self, group: GroupId) -> Result<Option<u64>, Rejection> {
        let applied = self.applied(group).await?;
        Ok(self.age_ms(group, applied))
    }

    /// The last entry that the copy of a group has taken.
    ///
    /// # Errors
    /// When there is no copy here.
    pub(crate) async fn applied(&self, group: GroupId) -> Result<u64, Rejection> {
        let look = self.groups.look(group, |local| local.standing.view.applied);
        look.await?.ok_or_else(no_copy)
    }

    /// What the copy of a group says to a question, and how old that is.
    ///
    /// # Errors
    /// When there is no copy here, it does not have what is asked for, or only a leader may say it.
    pub(crate) async fn answer(
        &self,
        group: GroupId,
        question: Question,
    ) -> Result<(Answer, Option<u64>), Rejection> {
        let look = self.groups.look(group, move |local: Local<'_>| {
            let said = match local.machine {
                Machine::Vc(state) => said(state, question),
                Machine::Cluster(_) => None,
            };
            (said, local.standing.view.applied)
        });
        let (said, applied) = look.await?.ok_or_else(no_copy)?;
        let unsaid = || Rejection::Unavailable("the copy here does not say that".to_owned());
        Ok((said.ok_or_else(unsaid)?, self.age_ms(group, applied)))
    }

    fn age_ms(&self, group: GroupId, applied: u64) -> Option<u64> {
        let known = self.marks.known_at(group, applied)?;
        Some(clock::since_boot().micros_since(known).div_ceil(1000))
    }
}

fn no_copy() -> Rejection {
    Rejection::Unavailable("there is no copy here".to_owned())
}

fn said(state: &VcState, question: Question) -> Option<Answer> {
    match question {
        Question::Jobs(query) => {
            let (rows, total) = query.take(state.rows());
            let jobs = rows.iter().map(Row::summary).collect();
            Some(Answer::Jobs { jobs, total })
        }
        Question::Job(key) => {
            let job = state.summary(&key)?;
            Some(Answer::Job(Some(Box::new(job))))
        }
        Question::Detail { job, attempt } => {
            let detail = state.detail(&job, attempt).ok()?;
            Some(Answer::Detail(Ok(Box::new(detail))))
        }
        Question::Config(key) => Some(Answer::Config(Ok(state.config(&key).ok()?))),
        Question::Events(key) => Some(Answer::Events(Ok(state.events(&key).ok()?))),
        Question::Task { job, attempt, task } => {
            let task = state.task(&job, attempt, &task).ok()?;
            Some(Answer::Task(Ok(Box::new(task))))
        }
        Question::VirtualClusters => Some(Answer::Used(state.used())),
        // They change something, or somebody acts on the answer, or the leader alone knows.
        Question::Submit(_)
        | Question::Change(_)
        | Question::Term
        | Question::Renew(_)
        | Question::ImagesWanted
        | Question::Explanation(_)
        | Question::Description
        | Question::Found
        | Question::WhatIf(_)
        | Question::TasksOn(_)
        | Question::Off(_)
        | Question::GiveUp(_) => None,
    }
}
