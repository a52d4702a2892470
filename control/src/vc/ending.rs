//! From the end of one task to the end, or the next attempt, of its job.

use muster_model::exit::{Cause, Verdict};
use muster_model::id::TaskId;
use muster_model::state::{EXIT_ATTEMPT_COMPLETED, EXIT_STOPPED, ExecutionType};

use super::attempt::{AttemptRecord, GangPhase, Pause, TaskRecord};
use super::completion;
use super::entry::TaskEnd;
use super::job::JobRecord;
use super::news::{JobNews, NewsSubject};
use super::retry::{self, Charge, Count, Next, RetryPolicy};
use crate::gang::{GangRun, hash};
use crate::verdict::{self, EXIT_PREEMPTED, EXIT_RUN_TIME};

/// Ended attempts that are kept with all they hold.
pub const ATTEMPTS_KEPT: usize = 20;
/// Rounds of one attempt; then it counts as not placed in time.
pub const ROUNDS_MAX: u32 = 16;
/// The longest pause before another round, milliseconds.
pub const ROUND_PAUSE_MAX_MS: u64 = 60_000;

/// Whether a task that had ended by itself before it heard of this stop keeps its own end.
const fn spares_ended(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::Preempted | Cause::Drained | Cause::RunTimeOver
    )
}

/// The codes of such stops.
const SPARING: [i32; 2] = [EXIT_PREEMPTED, EXIT_RUN_TIME];

impl JobRecord {
    /// A live task of the run has ended.
    pub(super) fn end_task(&mut self, run: &GangRun, task: &TaskId, end: &TaskEnd, at_ms: u64) {
        let gang_task = run.gang.task.as_ref();
        let ended = match end {
            TaskEnd::Exit(verdict) => (**verdict).clone(),
            TaskEnd::Lost => verdict::stopped(Cause::LeaseEnded),
            TaskEnd::Overlapped => verdict::stopped(Cause::NodeSilent),
            TaskEnd::Off => verdict::stopped(Cause::NodeOff),
            TaskEnd::Gone | TaskEnd::NotStarted => verdict::lost(),
        };
        let Some(mut phase) = self.attempt.gang(gang_task).map(|gang| gang.phase) else {
            return;
        };
        let is_evicted = ended.code() == EXIT_PREEMPTED;
        if is_evicted && matches!(phase, GangPhase::Placed { .. } | GangPhase::Going) {
            // Its node had it give way for another virtual cluster: the whole gang does.
            let cause = Cause::Preempted;
            self.stop_run(run, cause, None, at_ms);
            phase = GangPhase::Stopping { cause };
        }
        let explains = self.blame(run, task, &ended, at_ms);
        match phase {
            GangPhase::Voiding => self.end_voided(run, task, at_ms),
            GangPhase::Stopping { cause } => {
                let verdict = match end {
                    _ if explains => ended,
                    // It had failed before, and was only kept.
                    TaskEnd::Exit(_) if self.is_on_hold(task) => ended,
                    // It had ended by itself before it was told to.
                    TaskEnd::Exit(_) if spares_ended(cause) && !SPARING.contains(&ended.code()) => {
                        ended
                    }
                    TaskEnd::Exit(_) => verdict::overruled(cause, ended),
                    TaskEnd::Gone
                    | TaskEnd::Lost
                    | TaskEnd::Overlapped
                    | TaskEnd::Off
                    | TaskEnd::NotStarted => verdict::stopped(cause),
                };
                self.finish_task(run, task, verdict, at_ms);
            }
            GangPhase::Placed { .. } => {
                self.finish_task(run, task, ended.clone(), at_ms);
                // Without this member the gang can never be ready.
                if run.gang.task.is_none() && self.attempt.outcome.is_none() {
                    let task = Some(task.clone());
                    self.decide(ended, task, Cause::AttemptCompleted, at_ms);
                }
            }
            GangPhase::Going => self.finish_task(run, task, ended, at_ms),
            GangPhase::Waiting | GangPhase::Ended => return,
        }
        self.close_gang(run, at_ms);
        self.settle(at_ms);
    }

    fn is_on_hold(&self, id: &TaskId) -> bool {
        let mut tasks = self.attempt.tasks.iter();
        tasks.any(|task| task.id == *id && task.last().on_hold.is_some())
    }

    fn end_voided(&mut self, run: &GangRun, task: &TaskId, at_ms: u64) {
        let gang = run.gang.task.as_ref();
        if let Some(task) = self.attempt.tasks_of_mut(gang).find(|t| t.id == *task) {
            task.end(verdict::stopped(Cause::AttemptCompleted), at_ms, false);
        }
    }

    /// Ends a task, or begins its next attempt where tasks are retried alone.
    fn finish_task(&mut self, run: &GangRun, id: &TaskId, verdict: Verdict, at_ms: u64) {
        let (next, retries) = self.next_of_task(id, &verdict, at_ms);
        let verdict = match next {
            Next::GiveUp => retry::given_up(verdict, retries.same),
            Next::Stop | Next::Retry { .. } => verdict,
        };
        let gang = run.gang.task.as_ref();
        let Some(task) = self.attempt.tasks_of_mut(gang).find(|task| task.id == *id) else {
            return;
        };
        let live = task.live();
        let place = live.map(|placement| (placement.uid.clone(), placement.node.clone()));
        let (code, message) = (verdict.code(), ended(id, &verdict));
        task.end(verdict, at_ms, next.is_end());
        if let Next::Retry { charge, pause_ms } = next {
            task.again(retries.and(charge));
            if let Some(gang) = self.attempt.gang_mut(gang) {
                gang.no += 1;
                gang.round = 0;
                gang.phase = GangPhase::Waiting;
                gang.pause = Pause::new(at_ms, pause_ms);
            }
        }
        self.tell(JobNews {
            reason: if code == 0 {
                "TaskSucceeded"
            } else {
                "TaskEnded"
            },
            message,
            at_ms,
            warning: ![0, EXIT_STOPPED, EXIT_ATTEMPT_COMPLETED].contains(&code),
            task: Some(NewsSubject { task: id, place }),
        });
        if next.is_end() && self.attempt.outcome.is_none() {
            let spec = &self.accepted.spec;
            if let Some(outcome) = completion::decide(spec, &self.attempt, id, at_ms) {
                self.attempt.decide(outcome, Cause::AttemptCompleted);
                self.blame_earlier(at_ms);
            }
        }
    }

    /// What follows the task's end, and its retries so far.
    fn next_of_task(&self, id: &TaskId, verdict: &Verdict, at_ms: u64) -> (Next, Count) {
        let spec = &self.accepted.spec;
        let role = spec.roles.iter().find(|role| role.name == id.role);
        let task = self.attempt.tasks.iter().find(|task| task.id == *id);
        let (Some(role), Some(task), false, None) = (role, task, spec.gang, &self.attempt.outcome)
        else {
            return (Next::Stop, Count::default());
        };
        let policy = RetryPolicy {
            fancy: true,
            max: role.task_retry_count,
            pauses: false,
        };
        let name = format!(
            "{}/{}/{id}/{}",
            self.accepted.uid, self.attempt.id, task.retries.total
        );
        let before = task.before_last().and_then(|last| last.verdict.as_deref());
        let retries = task.retries.after_run(task.ran_ms(at_ms));
        let retries = retries.ended_after(before, verdict);
        (retry::next(policy, verdict, retries, &name), retries)
    }

    /// Moves a gang on once none of its tasks can be running.
    fn close_gang(&mut self, run: &GangRun, at_ms: u64) {
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
        if gang.phase == GangPhase::Voiding {
            return self.next_round(run, at_ms);
        }
        if let GangPhase::Stopping { cause } = gang.phase {
            // Tasks that ended while the round was void, before the stop.
            let open = self.attempt.tasks_of_mut(gang_task);
            for task in open.filter(|task| task.completed.is_none()) {
                task.end(verdict::stopped(cause), at_ms, true);
            }
        }
        if let Some(gang) = self.attempt.gang_mut(gang_task) {
            gang.phase = GangPhase::Ended;
        }
    }

    fn next_round(&mut self, run: &GangRun, at_ms: u64) {
        if run.round + 1 >= ROUNDS_MAX {
            return self.end_last_round(run, at_ms);
        }
        let gang_task = run.gang.task.as_ref();
        for task in self.attempt.tasks_of_mut(gang_task) {
            task.unplace();
        }
        let pause = (1000_u64 << run.round.min(10)).min(ROUND_PAUSE_MAX_MS);
        let jitter = hash(&format!("{}/{run}", self.accepted.uid)) % (pause / 2);
        if let Some(gang) = self.attempt.gang_mut(gang_task) {
            gang.round += 1;
            gang.phase = GangPhase::Waiting;
            gang.pause = Pause::new(at_ms, pause / 2 + jitter);
        }
    }

    /// The gang was given up so often that it counts as not ready in time.
    fn end_last_round(&mut self, run: &GangRun, at_ms: u64) {
        let gang_task = run.gang.task.as_ref();
        let verdict = verdict::stopped(Cause::BarrierTimeout);
        let tasks = self.attempt.tasks_of_mut(gang_task);
        let ids: Vec<TaskId> = tasks.map(|task| task.id.clone()).collect();
        if gang_task.is_none() {
            self.decide(verdict.clone(), None, Cause::BarrierTimeout, at_ms);
        }
        for id in ids {
            self.finish_task(run, &id, verdict.clone(), at_ms);
        }
        let gang = self.attempt.gang_mut(gang_task);
        if let Some(gang) = gang.filter(|gang| gang.is_live()) {
            gang.phase = GangPhase::Ended;
        }
    }

    /// Completes the attempt if everything has ended, and the job if nothing follows.
    pub(super) fn settle(&mut self, at_ms: u64) {
        if !self.attempt.all_ended() || self.attempt.completed.is_some() {
            return;
        }
        self.undo_late_stop();
        let Some(outcome) = &self.attempt.outcome else {
            return;
        };
        let verdict = outcome.verdict.clone();
        self.attempt.completed = Some(at_ms);
        let ran_ms = self.attempt.launched.map_or(0, |l| at_ms.saturating_sub(l));
        let before = self.old.last().and_then(|old| old.outcome.as_ref());
        let before = before.map(|before| &before.verdict);
        self.retries = self.retries.after_run(ran_ms).ended_after(before, &verdict);
        match self.next_of_job(&verdict) {
            Next::Stop => self.complete(&verdict, at_ms),
            Next::GiveUp => {
                let verdict = retry::given_up(verdict, self.retries.same);
                self.complete(&verdict, at_ms);
                if let Some(outcome) = &mut self.attempt.outcome {
                    outcome.verdict = verdict;
                }
            }
            Next::Retry { charge, pause_ms } => {
                self.again(charge, pause_ms, at_ms);
                // A stop that came while the attempt was ending anyway stops the next one, so
                // that the job is shown as stopped and not with a failure that would have passed.
                if self.execution == ExecutionType::Stop {
                    self.decide(
                        verdict::stopped(Cause::UserStop),
                        None,
                        Cause::UserStop,
                        at_ms,
                    );
                    self.settle(at_ms);
                }
            }
        }
    }

    /// No attempt follows.
    fn complete(&mut self, verdict: &Verdict, at_ms: u64) {
        self.completed = Some(at_ms);
        let phrase = &verdict.spec.phrase;
        let message = match self.retries.same {
            times @ 2.. if verdict.code() != 0 => {
                format!("The job ended: {phrase}, as {times} attempts in a row did.")
            }
            _ => format!("The job ended: {phrase}."),
        };
        self.news("Completed", message, at_ms);
    }

    /// An attempt whose tasks had all ended by themselves when it was told to give way, or that its time was
    /// over, ends as if it had not been told.
    fn undo_late_stop(&mut self) {
        let attempt = &self.attempt;
        let is_stopped = |verdict: &Verdict| SPARING.contains(&verdict.code());
        let outcome = attempt.outcome.as_deref();
        let Some(told) = outcome.filter(|outcome| is_stopped(&outcome.verdict)) else {
            return;
        };
        let mut tasks: Vec<&TaskRecord> = attempt.tasks.iter().collect();
        if tasks
            .iter()
            .any(|task| task.verdict().is_none_or(is_stopped))
        {
            return;
        }
        tasks.sort_by_key(|task| task.completed);
        let (spec, at_ms) = (&self.accepted.spec, told.at_ms);
        let reached = |task: &&TaskRecord| completion::reached(spec, attempt, &task.id, at_ms);
        let at_last = || completion::decide(spec, attempt, &tasks.last()?.id, at_ms);
        let outcome = tasks.iter().find_map(reached).or_else(at_last);
        if outcome.is_some() {
            self.attempt.outcome = outcome.map(Box::new);
            // They may have failed for a peer that was lost.
            self.blame_earlier(at_ms);
        }
    }

    fn next_of_job(&self, verdict: &Verdict) -> Next {
        let max = self.accepted.spec.retry_count;
        let policy = RetryPolicy {
            fancy: max != -2,
            max,
            pauses: true,
        };
        let name = format!("{}/{}", self.accepted.uid, self.attempt.id);
        retry::next(policy, verdict, self.retries, &name)
    }

    fn again(&mut self, charge: Charge, pause_ms: u64, at_ms: u64) {
        self.retries = self.retries.and(charge);
        let pause = Pause::new(at_ms, pause_ms);
        let next = AttemptRecord::new(&self.accepted.spec, self.attempt.id + 1, pause);
        let ended = std::mem::replace(&mut self.attempt, next);
        self.old.push(ended);
        if self.old.len() > ATTEMPTS_KEPT {
            self.old.remove(0);
        }
        let when = match pause_ms.div_ceil(1000) {
            0 => "at once".to_owned(),
            seconds => format!("after {seconds} s"),
        };
        let before = self.old.last().and_then(|old| old.outcome.as_ref());
        let why = before.map_or_else(String::new, |outcome| {
            retried_for(&outcome.verdict, self.retries)
        });
        let message = format!("Attempt {} follows {when}{why}.", self.attempt.id);
        self.news("Retried", message, at_ms);
    }
}

/// The most of a verdict's sentences that an event repeats, in bytes: every voter keeps the events of each job.
const EVENT_REASON_BYTES_MAX: usize = 300;

/// That a task has ended, and why if it failed.
fn ended(id: &TaskId, verdict: &Verdict) -> String {
    let code = verdict.code();
    let why = verdict.diagnostics.trim();
    if code == 0 || why.is_empty() {
        return format!("Task {id} ended with exit code {code}.");
    }
    let told = &why[..why.floor_char_boundary(EVENT_REASON_BYTES_MAX)];
    let more = if told.len() < why.len() { " ..." } else { "" };
    format!("Task {id} ended with exit code {code}: {told}{more}")
}

/// For what another attempt follows, how often in a row, and on whose account, as the end of a sentence.
fn retried_for(verdict: &Verdict, count: Count) -> String {
    let (code, phrase) = (verdict.code(), &verdict.spec.phrase);
    let row = match count.same {
        0 | 1 => String::new(),
        times => format!(", {times} times in a row"),
    };
    let limit = retry::tries_max(verdict).map(|max| format!(", and {max} in a row are the last"));
    let limit = limit.unwrap_or_default();
    let charged = match count.is_charged {
        true => "counts against the job's limit",
        false => "does not count against the job's limit",
    };
    format!(": the last one ended with {code} ({phrase}){row}{limit}; the retry {charged}")
}
