//! A job that has not ended for good.

use muster_model::exit::{Cause, Verdict};
use muster_model::id::{JobKey, TaskId};
use muster_model::launch::TaskPlacement;
use muster_model::sight::{HIDDEN_JOB, JobSight};
use muster_model::state::ExecutionType;
use muster_model::view::{TaskHold, Trigger};
use serde::{Deserialize, Serialize};

use super::attempt::{AttemptOutcome, AttemptRecord, GangPhase, Pause};
use super::document::JobDocument;
use super::entry::{AcceptedJob, Placed};
use super::news::{Happened, JobNews, NewsSubject, some_of};
use super::retry::Count;
use crate::gang::{AttemptNo, GangId, GangRun, JobId};
use crate::verdict;

/// Why an event tells of a warning.
const NOT_CARRIED_OUT: &str = "NotCarriedOut";
/// How an event begins that names the job which the job gave way to.
const GIVES_WAY_TO: &str = "It gives way to ";
/// So many warnings of a job are events.
const WARNINGS_TOLD_MAX: usize = 8;

/// A job with all its attempts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    pub(crate) id: JobId,
    pub(crate) accepted: AcceptedJob,
    pub(crate) execution: ExecutionType,
    pub(crate) tags: Vec<String>,
    pub(crate) retries: Count,
    pub(crate) created: Option<u64>,
    pub(crate) launched: Option<u64>,
    pub(crate) completed: Option<u64>,
    pub(crate) attempt: AttemptRecord,
    pub(crate) old: Vec<AttemptRecord>,
    pub(super) happened: Happened,
}

impl JobRecord {
    pub(super) fn new(id: JobId, accepted: AcceptedJob) -> Self {
        let attempt = AttemptRecord::new(&accepted.spec, 0, Pause::default());
        let mut job = Self {
            id,
            execution: ExecutionType::Start,
            tags: Vec::new(),
            retries: Count::default(),
            created: None,
            launched: None,
            completed: None,
            attempt,
            old: Vec::new(),
            happened: Happened::default(),
            accepted,
        };
        job.news(
            "Accepted",
            "The job was accepted.".to_owned(),
            job.accepted.submitted_ms,
        );
        job.tell_warnings();
        job
    }

    /// The same without what only people look at.
    pub(super) fn sketch(&self) -> Self {
        let accepted = &self.accepted;
        Self {
            id: self.id,
            accepted: AcceptedJob {
                key: accepted.key.clone(),
                uid: accepted.uid.clone(),
                spec: accepted.spec.clone(),
                document: JobDocument::default(),
                sealed_secrets: Vec::new(),
                submitted_ms: accepted.submitted_ms,
            },
            execution: self.execution,
            tags: Vec::new(),
            retries: self.retries,
            created: self.created,
            launched: self.launched,
            completed: self.completed,
            attempt: self.attempt.clone(),
            old: Vec::new(),
            happened: Happened::default(),
        }
    }

    /// What of it is not carried out. Its other events find room beside.
    fn tell_warnings(&mut self) {
        let (at_ms, warnings) = (
            self.accepted.submitted_ms,
            self.accepted.spec.warnings.clone(),
        );
        let more = warnings.len().saturating_sub(WARNINGS_TOLD_MAX);
        for warning in warnings.iter().take(WARNINGS_TOLD_MAX) {
            self.warn(NOT_CARRIED_OUT, warning.to_string(), at_ms);
        }
        if more > 0 {
            let message = format!("{more} more warnings stand in the job's detail.");
            self.warn(NOT_CARRIED_OUT, message, at_ms);
        }
    }

    /// The run that the gang is in.
    pub(crate) fn run_of(&self, task: Option<&TaskId>) -> Option<GangRun> {
        let gang = self.attempt.gang(task)?;
        Some(GangRun {
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
        let mut moves = Vec::new();
        for (task, place) in self.attempt.tasks_of_mut(gang_task).zip(&placed.members) {
            let before = task.live().filter(|before| !before.is_same_place(place));
            moves.extend(before.map(|before| movement(before, place)));
            task.place(place, at_ms);
        }
        if let Some(gang) = self.attempt.gang_mut(gang_task) {
            gang.phase = GangPhase::Placed { at_ms };
            gang.lease = placed.lease;
            gang.round = placed.run.round;
        }
        if let Some(reason) = &placed.instead {
            let moves = match moves.is_empty() {
                true => "the same places were reserved again".to_owned(),
                false => some_of(moves.into_iter(), ", "),
            };
            let message = format!("{moves}, for {reason}.");
            return self.warn("PlacedAgain", message, at_ms);
        }
        let nodes: Vec<&str> = placed
            .ledgers
            .iter()
            .map(|(node, _)| node.as_str())
            .collect();
        let tasks = match placed.members.len() {
            1 => "1 task was".to_owned(),
            count => format!("{count} tasks were"),
        };
        let message = format!("{tasks} placed on {}.", nodes.join(", "));
        self.news("Placed", message, at_ms);
    }

    pub(super) fn go(&mut self, run: &GangRun, limit_s: Option<u64>, at_ms: u64) {
        self.launched.get_or_insert(at_ms);
        self.attempt.launched.get_or_insert(at_ms);
        for task in self.attempt.tasks_of_mut(run.gang.task.as_ref()) {
            task.launch(at_ms);
        }
        if let Some(gang) = self.attempt.gang_mut(run.gang.task.as_ref()) {
            gang.phase = GangPhase::Going;
            gang.run_limit_s = limit_s;
        }
        let ends = limit_s.map(|seconds| format!(" They may run for {seconds} s."));
        let message = format!(
            "All tasks were ready; the commands were started.{}",
            ends.unwrap_or_default()
        );
        self.news("Started", message, at_ms);
    }

    /// A task has failed, and its container is kept.
    pub(super) fn hold_task(&mut self, run: &GangRun, id: &TaskId, hold: &TaskHold, at_ms: u64) {
        let gang = run.gang.task.as_ref();
        let Some(task) = self.attempt.tasks_of_mut(gang).find(|task| task.id == *id) else {
            return;
        };
        let live = task.live();
        let place = live.map(|placement| (placement.uid.clone(), placement.node.clone()));
        task.hold(hold);
        let seconds = hold.until.saturating_sub(at_ms) / 1000;
        let message = format!(
            "Task {id} failed with exit code {}. Its container is kept for {seconds} s; muster job stop ends that.",
            hold.code
        );
        self.tell(JobNews {
            reason: "TaskOnHold",
            message,
            at_ms,
            warning: true,
            task: Some(NewsSubject { task: id, place }),
        });
    }

    pub(super) fn void(&mut self, run: &GangRun, reason: &str, at_ms: u64) {
        if let Some(gang) = self.attempt.gang_mut(run.gang.task.as_ref()) {
            gang.phase = GangPhase::Voiding;
        }
        self.warn(
            "PlacedAgain",
            format!("The placement was given up: {reason}."),
            at_ms,
        );
    }

    /// Leaves the name of another job out of what happened, if the user does not see that job. It is of the
    /// same virtual cluster.
    pub(super) fn hide_name(&self, message: &mut String, sight: &JobSight) {
        let name = message.strip_prefix(GIVES_WAY_TO);
        let name = name.and_then(|text| text.strip_suffix('.')?.parse::<JobKey>().ok());
        if name.is_some_and(|by| !sight.sees(&self.accepted.spec.vc, &by.user)) {
            *message = format!("{GIVES_WAY_TO}{HIDDEN_JOB}.");
        }
    }

    /// The platform ends a run.
    pub(super) fn stop_run(
        &mut self,
        run: &GangRun,
        cause: Cause,
        by: Option<&JobKey>,
        at_ms: u64,
    ) {
        let gang = self.attempt.gang(run.gang.task.as_ref());
        let limit_s = gang.and_then(|gang| gang.run_limit_s);
        let verdict = match (cause, limit_s) {
            (Cause::RunTimeOver, Some(seconds)) => verdict::run_time_over_after(seconds),
            _ => verdict::stopped(cause),
        };
        match by {
            Some(by) => self.warn("Preempted", format!("{GIVES_WAY_TO}{by}."), at_ms),
            None => self.warn(
                &verdict.spec.phrase.clone(),
                verdict.diagnostics.clone(),
                at_ms,
            ),
        }
        match run.gang.task.as_ref() {
            None => self.decide(verdict, None, cause, at_ms),
            Some(task) => {
                if let Some(gang) = self.attempt.gang_mut(Some(task)) {
                    gang.phase = GangPhase::Stopping { cause };
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

    pub(super) fn decide(
        &mut self,
        verdict: Verdict,
        task: Option<TaskId>,
        cause: Cause,
        at_ms: u64,
    ) {
        let trigger = Trigger {
            message: verdict.diagnostics.clone(),
            task,
        };
        let outcome = AttemptOutcome {
            verdict,
            trigger,
            at_ms,
        };
        self.attempt.decide(outcome, cause);
    }
}

/// Where a task goes instead, in words.
fn movement(before: &TaskPlacement, now: &TaskPlacement) -> String {
    let (task, from, to) = (&now.task, &before.node, &now.node);
    if from == to {
        return format!("{task} was given another place on {to}");
    }
    format!("{task} was placed on {to} instead of {from}")
}
