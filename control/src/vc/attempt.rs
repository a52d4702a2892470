//! One attempt of a job: its gangs and tasks.

use std::collections::BTreeSet;

use muster_model::exit::{Cause, Verdict};
use muster_model::id::{AttemptUid, TaskId};
use muster_model::job::{JobSpec, RoleSpec};
use muster_model::launch::TaskPlacement;
use muster_model::view::{TaskHold, Trigger};
use serde::{Deserialize, Serialize};

use super::retry::Count;
use crate::lease::LeaseTime;
use crate::verdict;

/// Attempts of one task that are kept with all they hold.
pub const TASK_ATTEMPTS_KEPT: usize = 20;

/// What decided an attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AttemptOutcome {
    pub(crate) verdict: Verdict,
    pub(crate) trigger: Trigger,
    pub(crate) at_ms: u64,
}

/// A job attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AttemptRecord {
    pub(crate) id: u32,
    pub(crate) created: Option<u64>,
    pub(crate) launched: Option<u64>,
    pub(crate) completed: Option<u64>,
    pub(crate) outcome: Option<Box<AttemptOutcome>>,
    pub(crate) gangs: Vec<AttemptGang>,
    pub(crate) tasks: Vec<TaskRecord>,
}

/// A gang of the attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AttemptGang {
    /// Its only task; all tasks if none is named.
    pub(crate) task: Option<TaskId>,
    /// The task's attempt; 0 for a gang of all tasks.
    pub(crate) no: u32,
    pub(crate) round: u32,
    pub(crate) phase: GangPhase,
    /// By which its tasks hold where they were placed last.
    pub(crate) lease: Option<LeaseTime>,
    /// So many seconds after its Go it is ended, if it had one.
    pub(crate) run_limit_s: Option<u64>,
    /// Not to be placed before its end.
    pub(crate) pause: Pause,
}

/// How long a gang waits before it is placed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pause {
    /// Until then, milliseconds since the epoch, by the clock of whoever said that it begins.
    pub(crate) until_ms: u64,
    /// So long, milliseconds: whatever that clock showed, nobody waits for longer.
    pub(crate) for_ms: u64,
}

impl Pause {
    pub(crate) const fn new(at_ms: u64, for_ms: u64) -> Self {
        Self {
            until_ms: at_ms.saturating_add(for_ms),
            for_ms,
        }
    }
}

/// Where a gang stands, by what is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GangPhase {
    /// Waits to be placed.
    Waiting,
    /// Placed; not all ready yet.
    Placed { at_ms: u64 },
    /// The user's commands may run.
    Going,
    /// Its tasks are to end.
    Stopping { cause: Cause },
    /// Its tasks are to end, and another round follows.
    Voiding,
    /// All its tasks have ended.
    Ended,
}

/// A task within the job attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TaskRecord {
    pub(crate) id: TaskId,
    pub(crate) retries: Count,
    pub(crate) created: Option<u64>,
    pub(crate) launched: Option<u64>,
    /// When it ended for good.
    pub(crate) completed: Option<u64>,
    /// Its attempts before the newest, oldest first.
    earlier: Vec<TaskAttempt>,
    newest: TaskAttempt,
}

/// A task attempt.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TaskAttempt {
    pub(crate) no: u32,
    pub(crate) placement: Option<Box<TaskPlacement>>,
    pub(crate) created: Option<u64>,
    pub(crate) launched: Option<u64>,
    pub(crate) completed: Option<u64>,
    pub(crate) verdict: Option<Box<Verdict>>,
    /// It has failed, and its container was or is kept.
    pub(crate) on_hold: Option<Box<TaskHold>>,
}

impl TaskAttempt {
    fn new(no: u32) -> Self {
        Self {
            no,
            ..Self::default()
        }
    }

    /// The placement, while the task may be running under it.
    pub(crate) fn live(&self) -> Option<&TaskPlacement> {
        match (&self.placement, self.completed) {
            (Some(placement), None) => Some(placement),
            (_, _) => None,
        }
    }
}

impl TaskRecord {
    fn new(id: TaskId) -> Self {
        Self {
            id,
            retries: Count::default(),
            created: None,
            launched: None,
            completed: None,
            earlier: Vec::new(),
            newest: TaskAttempt::default(),
        }
    }

    pub(crate) fn attempts(&self) -> impl Iterator<Item = &TaskAttempt> {
        self.earlier.iter().chain([&self.newest])
    }

    pub(crate) fn live(&self) -> Option<&TaskPlacement> {
        self.newest.live()
    }

    pub(crate) const fn last(&self) -> &TaskAttempt {
        &self.newest
    }

    /// The attempt before the newest, if the newest is a retry.
    pub(crate) fn before_last(&self) -> Option<&TaskAttempt> {
        self.earlier.last()
    }

    /// The exit of the newest attempt.
    pub(crate) fn verdict(&self) -> Option<&Verdict> {
        self.newest.verdict.as_deref()
    }

    pub(crate) fn place(&mut self, placement: &TaskPlacement, at_ms: u64) {
        self.created.get_or_insert(at_ms);
        self.newest.placement = Some(Box::new(placement.clone()));
        self.newest.created.get_or_insert(at_ms);
    }

    pub(crate) fn launch(&mut self, at_ms: u64) {
        self.launched.get_or_insert(at_ms);
        self.newest.launched.get_or_insert(at_ms);
    }

    /// Ends the newest attempt; `for_good` ends the task.
    pub(crate) fn end(&mut self, verdict: Verdict, at_ms: u64, for_good: bool) {
        self.newest.completed = Some(at_ms);
        self.newest.verdict = Some(Box::new(verdict));
        if for_good {
            self.completed = Some(at_ms);
        }
    }

    /// The newest attempt has failed, and its container is kept.
    pub(crate) fn hold(&mut self, hold: &TaskHold) {
        self.newest.on_hold = Some(Box::new(hold.clone()));
    }

    /// How long the newest attempt's commands had run by then, milliseconds.
    pub(crate) fn ran_ms(&self, at_ms: u64) -> u64 {
        let launched = self.newest.launched;
        launched.map_or(0, |launched| at_ms.saturating_sub(launched))
    }

    /// Begins another attempt.
    pub(crate) fn again(&mut self, retries: Count) {
        self.retries = retries;
        let next = TaskAttempt::new(self.newest.no + 1);
        self.earlier.push(std::mem::replace(&mut self.newest, next));
        if self.earlier.len() >= TASK_ATTEMPTS_KEPT {
            self.earlier.remove(0);
        }
    }

    /// Takes back the newest attempt's placement, as if it had never been placed.
    pub(crate) fn unplace(&mut self) {
        self.newest = TaskAttempt::new(self.newest.no);
    }
}

impl AttemptGang {
    pub(crate) fn holds(&self, task: &TaskId) -> bool {
        self.task.as_ref().is_none_or(|own| own == task)
    }

    pub(crate) const fn is_live(&self) -> bool {
        !matches!(self.phase, GangPhase::Waiting | GangPhase::Ended)
    }
}

impl AttemptRecord {
    pub(crate) fn new(spec: &JobSpec, id: u32, pause: Pause) -> Self {
        let ids = spec.roles.iter().flat_map(ids);
        let mut tasks: Vec<TaskRecord> = ids.map(TaskRecord::new).collect();
        // Most have one, and were given room for four.
        tasks.shrink_to_fit();
        let gang = |task| AttemptGang {
            task,
            no: 0,
            round: 0,
            phase: GangPhase::Waiting,
            lease: None,
            run_limit_s: None,
            pause,
        };
        let gangs = if spec.gang {
            vec![gang(None)]
        } else {
            tasks
                .iter()
                .map(|task| gang(Some(task.id.clone())))
                .collect()
        };
        Self {
            id,
            created: None,
            launched: None,
            completed: None,
            outcome: None,
            gangs,
            tasks,
        }
    }

    /// Tasks that have ended for good, with their exits.
    pub(crate) fn ended(&self) -> impl Iterator<Item = (&TaskId, &Verdict)> {
        let ended = self.tasks.iter().filter(|task| task.completed.is_some());
        ended.filter_map(|task| Some((&task.id, task.verdict()?)))
    }

    pub(crate) fn gang(&self, task: Option<&TaskId>) -> Option<&AttemptGang> {
        self.gangs.iter().find(|gang| gang.task.as_ref() == task)
    }

    pub(crate) fn gang_mut(&mut self, task: Option<&TaskId>) -> Option<&mut AttemptGang> {
        self.gangs
            .iter_mut()
            .find(|gang| gang.task.as_ref() == task)
    }

    /// Tasks of a gang, in the job's order.
    pub(crate) fn tasks_of<'a>(
        &'a self,
        gang: &'a AttemptGang,
    ) -> impl Iterator<Item = &'a TaskRecord> {
        self.tasks.iter().filter(|task| gang.holds(&task.id))
    }

    pub(crate) fn tasks_of_mut<'a>(
        &'a mut self,
        gang: Option<&'a TaskId>,
    ) -> impl Iterator<Item = &'a mut TaskRecord> {
        let holds = move |task: &TaskId| gang.is_none_or(|own| own == task);
        self.tasks.iter_mut().filter(move |task| holds(&task.id))
    }

    pub(crate) fn live_task(&self, gang: &AttemptGang, task: &TaskId, uid: &AttemptUid) -> bool {
        let mut tasks = self.tasks_of(gang);
        tasks.any(|t| t.id == *task && t.live().is_some_and(|p| p.uid == *uid))
    }

    /// The names that tasks are placed under.
    pub(super) fn uids(&self) -> BTreeSet<&AttemptUid> {
        let placed = self.tasks.iter().filter_map(|task| task.live());
        placed.map(|placement| &placement.uid).collect()
    }

    /// Decides the attempt: what waits ends now, what may run is to be stopped.
    pub(crate) fn decide(&mut self, outcome: AttemptOutcome, cause: Cause) {
        let at_ms = outcome.at_ms;
        self.outcome.get_or_insert_with(|| Box::new(outcome));
        for i in 0..self.gangs.len() {
            let task = self.gangs[i].task.clone();
            match self.gangs[i].phase {
                GangPhase::Waiting => {
                    self.gangs[i].phase = GangPhase::Ended;
                    let open = self.tasks_of_mut(task.as_ref());
                    for task in open.filter(|task| task.completed.is_none()) {
                        task.end(verdict::stopped(cause), at_ms, true);
                    }
                }
                GangPhase::Placed { .. } | GangPhase::Going | GangPhase::Voiding => {
                    self.gangs[i].phase = GangPhase::Stopping { cause };
                }
                GangPhase::Stopping { .. } | GangPhase::Ended => {}
            }
        }
    }

    /// When the commands of a gang were started, if they were.
    pub(crate) fn started(&self, gang: &AttemptGang) -> Option<u64> {
        let tasks = self.tasks_of(gang);
        tasks.filter_map(|task| task.last().launched).min()
    }

    /// When a gang is ended that is running, if it has a limit.
    pub(crate) fn ends_by(&self, gang: &AttemptGang) -> Option<u64> {
        let limit_ms = gang.run_limit_s?.saturating_mul(1000);
        let started = self
            .started(gang)
            .filter(|_| gang.phase == GangPhase::Going);
        Some(started?.saturating_add(limit_ms))
    }

    pub(crate) fn all_ended(&self) -> bool {
        self.gangs.iter().all(|gang| gang.phase == GangPhase::Ended)
    }
}

fn ids(role: &RoleSpec) -> impl Iterator<Item = TaskId> {
    (0..role.instances).map(|index| TaskId {
        role: role.name.clone(),
        index,
    })
}
