//! A job that has not ended for good.

use std::collections::VecDeque;

use muster_model::exit::{Cause, Verdict};
use muster_model::id::{NodeId, TaskId};
use muster_model::state::ExecutionType;
use muster_model::view::{Event, Trigger};
use serde::{Deserialize, Serialize};

use super::attempt::{Attempt, Outcome, Phase};
use super::completion;
use super::entry::{AcceptedJob, Placed};
use super::retry::{self, Count, Next, Policy};
use crate::gang::{AttemptNo, GangId, JobId, Run, hash, named_uid};
use crate::verdict;

/// Ended attempts that are kept with all they hold.
pub const ATTEMPTS_KEPT: usize = 20;
/// Events kept of one job; the oldest but the first goes.
pub const EVENTS_KEPT: usize = 64;
/// Rounds of one attempt; then it counts as not placed in time.
pub const ROUNDS_MAX: u32 = 16;
/// The longest pause before another round, milliseconds.
pub const ROUND_PAUSE_MAX_MS: u64 = 60_000;

/// A job with all its attempts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) accepted: AcceptedJob,
    pub(crate) execution: ExecutionType,
    pub(crate) tags: Vec<String>,
    pub(crate) retries: Count,
    pub(crate) created: Option<u64>,
    pub(crate) launched: Option<u64>,
    pub(crate) completed: Option<u64>,
    pub(crate) attempt: Attempt,
    pub(crate) old: VecDeque<Attempt>,
    pub(crate) events: Vec<Event>,
    event_count: u32,
}

/// News about a job, before it is made an event.
#[derive(Debug)]
pub(super) struct News<'a> {
    pub(super) reason: &'a str,
    pub(super) message: String,
    pub(super) at_ms: u64,
    pub(super) warning: bool,
    pub(super) task: Option<(&'a TaskId, Option<NodeId>)>,
}

impl Job {
    pub(super) fn new(id: JobId, accepted: AcceptedJob) -> Self {
        let attempt = Attempt::new(&accepted.spec, 0, 0);
        let mut job = Self {
            id,
            execution: ExecutionType::Start,
            tags: Vec::new(),
            retries: Count::default(),
            created: None,
            launched: None,
            completed: None,
            attempt,
            old: VecDeque::new(),
            events: Vec::new(),
            event_count: 0,
            accepted,
        };
        job.news(
            "Accepted",
            "The job was accepted.".to_owned(),
            job.accepted.submitted_ms,
        );
        job
    }

    /// The run that the gang is in.
    pub(crate) fn run_of(&self, task: Option<&TaskId>) -> Option<Run> {
        let gang = self.attempt.gang(task)?;
        Some(Run {
            gang: GangId {
                job: self.id,
                task: gang.task.clone(),
            },
            attempt: AttemptNo {
                job: self.attempt.id,
                task: gang.no,
            },
            round: gang.round,
        })
    }

    pub(super) fn place(&mut self, placed: &Placed) {
        let at_ms = placed.at_ms;
        self.created.get_or_insert(at_ms);
        self.attempt.created.get_or_insert(at_ms);
        let gang_task = placed.run.gang.task.as_ref();
        for (task, place) in self.attempt.tasks_of_mut(gang_task).zip(&placed.members) {
            task.place(place, at_ms);
        }
        if let Some(gang) = self.attempt.gang_mut(gang_task) {
            gang.phase = Phase::Placed { at_ms };
            gang.ledgers.clone_from(&placed.ledgers);
        }
        let nodes: Vec<&str> = placed
            .ledgers
            .iter()
            .map(|(node, _)| node.as_str())
            .collect();
        let message = format!(
            "{} tasks were placed on {}.",
            placed.members.len(),
            nodes.join(", ")
        );
        self.news("Placed", message, at_ms);
    }

    pub(super) fn go(&mut self, run: &Run, at_ms: u64) {
        self.launched.get_or_insert(at_ms);
        self.attempt.launched.get_or_insert(at_ms);
        for task in self.attempt.tasks_of_mut(run.gang.task.as_ref()) {
            task.launch(at_ms);
        }
        if let Some(gang) = self.attempt.gang_mut(run.gang.task.as_ref()) {
            gang.phase = Phase::Going;
        }
        self.news(
            "Started",
            "All tasks were ready; the commands were started.".to_owned(),
            at_ms,
        );
    }

    pub(super) fn void(&mut self, run: &Run, reason: &str, at_ms: u64) {
        if let Some(gang) = self.attempt.gang_mut(run.gang.task.as_ref()) {
            gang.phase = Phase::Voiding;
        }
        self.warn(
            "PlacedAgain",
            format!("The placement was given up: {reason}."),
            at_ms,
        );
    }

    /// The platform ends a run.
    pub(super) fn stop_run(&mut self, run: &Run, cause: Cause, at_ms: u64) {
        let verdict = verdict::stopped(cause);
        self.warn(
            &verdict.spec.phrase.clone(),
            verdict.diagnostics.clone(),
            at_ms,
        );
        match run.gang.task.as_ref() {
            None => self.decide(verdict, None, cause, at_ms),
            Some(task) => {
                if let Some(gang) = self.attempt.gang_mut(Some(task)) {
                    gang.phase = Phase::Stopping { cause };
                }
            }
        }
    }

    /// The user ends the job.
    pub(super) fn stop(&mut self, at_ms: u64) {
        self.execution = ExecutionType::Stop;
        self.news(
            "StopRequested",
            "The user stopped the job.".to_owned(),
            at_ms,
        );
        if self.attempt.outcome.is_none() {
            let verdict = verdict::stopped(Cause::UserStop);
            self.decide(verdict, None, Cause::UserStop, at_ms);
        }
        self.settle(at_ms);
    }

    fn decide(&mut self, verdict: Verdict, task: Option<TaskId>, cause: Cause, at_ms: u64) {
        let trigger = Trigger {
            message: verdict.diagnostics.clone(),
            task,
        };
        let outcome = Outcome {
            verdict,
            trigger,
            at_ms,
        };
        self.attempt.decide(outcome, cause);
    }

    /// A live task of the run has ended with this exit, or was found to be gone.
    pub(super) fn end_task(&mut self, run: &Run, task: &TaskId, exit: Option<Verdict>, at_ms: u64) {
        let gang_task = run.gang.task.as_ref();
        let Some(phase) = self.attempt.gang(gang_task).map(|gang| gang.phase) else {
            return;
        };
        match phase {
            Phase::Voiding => self.end_voided(run, task, at_ms),
            Phase::Stopping { cause } => {
                let verdict = match exit {
                    Some(exit) => verdict::overruled(cause, exit),
                    None => verdict::stopped(cause),
                };
                self.finish_task(run, task, verdict, at_ms);
            }
            Phase::Placed { .. } => {
                let verdict = exit.unwrap_or_else(verdict::lost);
                self.finish_task(run, task, verdict.clone(), at_ms);
                // Without this member the gang can never be ready.
                if run.gang.task.is_none() && self.attempt.outcome.is_none() {
                    let task = Some(task.clone());
                    self.decide(verdict, task, Cause::AttemptCompleted, at_ms);
                }
            }
            Phase::Going => {
                self.finish_task(run, task, exit.unwrap_or_else(verdict::lost), at_ms);
            }
            Phase::Waiting | Phase::Ended => return,
        }
        self.close_gang(run, at_ms);
        self.settle(at_ms);
    }

    fn end_voided(&mut self, run: &Run, task: &TaskId, at_ms: u64) {
        let gang = run.gang.task.as_ref();
        if let Some(task) = self.attempt.tasks_of_mut(gang).find(|t| t.id == *task) {
            task.end(verdict::stopped(Cause::AttemptCompleted), at_ms, false);
        }
    }

    /// Ends a task, or begins its next attempt where tasks are retried alone.
    fn finish_task(&mut self, run: &Run, id: &TaskId, verdict: Verdict, at_ms: u64) {
        let next = self.next_of_task(id, &verdict);
        let gang = run.gang.task.as_ref();
        let Some(task) = self.attempt.tasks_of_mut(gang).find(|task| task.id == *id) else {
            return;
        };
        let node = task.live().map(|placement| placement.node.clone());
        let code = verdict.code();
        task.end(verdict, at_ms, next == Next::Stop);
        if let Next::Retry { charged, pause_ms } = next {
            task.again(charged);
            if let Some(gang) = self.attempt.gang_mut(gang) {
                gang.no += 1;
                gang.round = 0;
                gang.phase = Phase::Waiting;
                gang.not_before_ms = at_ms.saturating_add(pause_ms);
            }
        }
        self.tell(News {
            reason: if code == 0 {
                "TaskSucceeded"
            } else {
                "TaskEnded"
            },
            message: format!("Task {id} ended with exit code {code}."),
            at_ms,
            warning: code > 0,
            task: Some((id, node)),
        });
        if next == Next::Stop && self.attempt.outcome.is_none() {
            let spec = &self.accepted.spec;
            if let Some(outcome) = completion::decide(spec, &self.attempt, id, at_ms) {
                self.attempt.decide(outcome, Cause::AttemptCompleted);
            }
        }
    }

    fn next_of_task(&self, id: &TaskId, verdict: &Verdict) -> Next {
        let spec = &self.accepted.spec;
        let role = spec.roles.iter().find(|role| role.name == id.role);
        let task = self.attempt.tasks.iter().find(|task| task.id == *id);
        let (Some(role), Some(task), false, None) = (role, task, spec.gang, &self.attempt.outcome)
        else {
            return Next::Stop;
        };
        let policy = Policy {
            fancy: true,
            max: role.task_retry_count,
            pauses: false,
        };
        let name = format!(
            "{}/{}/{id}/{}",
            self.accepted.uid, self.attempt.id, task.retries.total
        );
        retry::next(policy, verdict, task.retries, &name)
    }

    /// Moves a gang on once none of its tasks can be running.
    fn close_gang(&mut self, run: &Run, at_ms: u64) {
        let gang_task = run.gang.task.as_ref();
        let Some(gang) = self.attempt.gang(gang_task) else {
            return;
        };
        let live = self
            .attempt
            .tasks_of(gang)
            .any(|task| task.live().is_some());
        if live || !gang.is_live() {
            return;
        }
        if gang.phase == Phase::Voiding {
            return self.next_round(run, at_ms);
        }
        if let Phase::Stopping { cause } = gang.phase {
            // Tasks that ended while the round was void, before the stop.
            let open = self.attempt.tasks_of_mut(gang_task);
            for task in open.filter(|task| task.completed.is_none()) {
                task.end(verdict::stopped(cause), at_ms, true);
            }
        }
        if let Some(gang) = self.attempt.gang_mut(gang_task) {
            gang.phase = Phase::Ended;
        }
    }

    fn next_round(&mut self, run: &Run, at_ms: u64) {
        let gang_task = run.gang.task.as_ref();
        let last_round = run.round + 1 >= ROUNDS_MAX;
        if last_round {
            let verdict = verdict::stopped(Cause::BarrierTimeout);
            let ids: Vec<TaskId> = {
                let tasks = self.attempt.tasks_of_mut(gang_task);
                tasks.map(|task| task.id.clone()).collect()
            };
            if run.gang.task.is_none() {
                self.decide(verdict.clone(), None, Cause::BarrierTimeout, at_ms);
            }
            for id in ids {
                self.finish_task(run, &id, verdict.clone(), at_ms);
            }
            let gang = self.attempt.gang_mut(gang_task);
            if let Some(gang) = gang.filter(|gang| gang.is_live()) {
                gang.phase = Phase::Ended;
            }
            return;
        }
        for task in self.attempt.tasks_of_mut(gang_task) {
            task.unplace();
        }
        let pause = (1000_u64 << run.round.min(10)).min(ROUND_PAUSE_MAX_MS);
        let jitter = hash(&format!("{}/{run}", self.accepted.uid)) % (pause / 2);
        if let Some(gang) = self.attempt.gang_mut(gang_task) {
            gang.round += 1;
            gang.phase = Phase::Waiting;
            gang.not_before_ms = at_ms.saturating_add(pause / 2 + jitter);
        }
    }

    /// Completes the attempt if everything has ended, and the job if nothing follows.
    fn settle(&mut self, at_ms: u64) {
        if !self.attempt.all_ended() || self.attempt.completed.is_some() {
            return;
        }
        let Some(outcome) = &self.attempt.outcome else {
            return;
        };
        let verdict = outcome.verdict.clone();
        self.attempt.completed = Some(at_ms);
        match self.next_of_job(&verdict) {
            Next::Stop => {
                self.completed = Some(at_ms);
                self.news(
                    "Completed",
                    format!("The job ended: {}.", verdict.spec.phrase),
                    at_ms,
                );
            }
            Next::Retry { charged, pause_ms } => self.again(charged, pause_ms, at_ms),
        }
    }

    fn next_of_job(&self, verdict: &Verdict) -> Next {
        if self.execution == ExecutionType::Stop {
            return Next::Stop;
        }
        let max = self.accepted.spec.retry_count;
        let policy = Policy {
            fancy: max != -2,
            max,
            pauses: true,
        };
        let name = format!("{}/{}", self.accepted.uid, self.attempt.id);
        retry::next(policy, verdict, self.retries, &name)
    }

    fn again(&mut self, charged: bool, pause_ms: u64, at_ms: u64) {
        self.retries.add(charged);
        let not_before_ms = at_ms.saturating_add(pause_ms);
        let next = Attempt::new(&self.accepted.spec, self.attempt.id + 1, not_before_ms);
        let ended = std::mem::replace(&mut self.attempt, next);
        self.old.push_back(ended);
        if self.old.len() > ATTEMPTS_KEPT {
            self.old.pop_front();
        }
        let message = format!("Attempt {} follows after {pause_ms} ms.", self.attempt.id);
        self.news("Retried", message, at_ms);
    }

    fn news(&mut self, reason: &str, message: String, at_ms: u64) {
        self.tell(News {
            reason,
            message,
            at_ms,
            warning: false,
            task: None,
        });
    }

    fn warn(&mut self, reason: &str, message: String, at_ms: u64) {
        self.tell(News {
            reason,
            message,
            at_ms,
            warning: true,
            task: None,
        });
    }

    /// Adds an event; the same again only counts.
    fn tell(&mut self, news: News<'_>) {
        let task = news.task.as_ref().map(|(task, _)| (*task).clone());
        let same = |event: &&mut Event| {
            event.reason == news.reason && event.message == news.message && event.task == task
        };
        if let Some(event) = self.events.iter_mut().rev().find(same) {
            event.last = news.at_ms;
            event.count += 1;
            return;
        }
        if self.events.len() >= EVENTS_KEPT {
            self.events.remove(1);
        }
        self.event_count += 1;
        let name = format!("event/{}", self.event_count);
        self.events.push(Event {
            uid: named_uid(self.accepted.uid.as_str(), &name).to_string(),
            attempt_uid: None,
            task,
            warning: news.warning,
            reason: news.reason.to_owned(),
            message: news.message,
            first: news.at_ms,
            last: news.at_ms,
            count: 1,
            node: news.task.and_then(|(_, node)| node),
        });
    }
}
