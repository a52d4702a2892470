//! A node's executor without containers: what survives an agent's restart, and what does not.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::ledger::{ExecutorStep, Observation};
use muster_control::verdict;
use muster_model::exit::{Behavior, Cause, Verdict};
use muster_model::id::AttemptUid;
use muster_model::launch::TaskSpec;
use muster_model::time::Time;

use crate::world::Chance;

/// A container, as the engine keeps it while agents come and go.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) spec: TaskSpec,
    pub(crate) phase: Phase,
}

#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// The agent's part of the launch; lost when the agent dies.
    Starting,
    Ready,
    Running,
    Ended(Box<Verdict>),
}

#[derive(Debug, Default)]
pub(crate) struct FakeExecutor {
    pub(crate) containers: BTreeMap<AttemptUid, Container>,
    /// Tasks that were brought to Ready.
    pub(crate) readied: BTreeSet<AttemptUid>,
    /// How every container ended.
    pub(crate) exits: BTreeMap<AttemptUid, Verdict>,
    /// Until when its muster-init lets each task run, by the node's clock.
    ends: BTreeMap<AttemptUid, Time>,
}

/// Something that the executor will do after a while.
#[derive(Clone, Debug)]
pub(crate) enum DelayedWork {
    Step(ExecutorStep),
    /// A container was looked for.
    Looked(AttemptUid),
    /// The launch comes to its end.
    Launched(AttemptUid),
    /// The user's commands come to their end.
    Finished(AttemptUid),
    /// The grace of a task that was told to end is over.
    Stopped(AttemptUid, Cause),
}

/// Who is told to end takes no longer, milliseconds.
const GRACE_MS: u64 = 5_000;

/// What is observed at once.
pub(crate) type Seen = Vec<(AttemptUid, Observation)>;
/// What happens after so many milliseconds.
type Later = Vec<(u64, DelayedWork)>;

impl FakeExecutor {
    /// Does something; gives what is observed and what happens later, with its delay.
    pub(crate) fn run(&mut self, job: DelayedWork, chance: &mut Chance) -> (Seen, Later) {
        match job {
            DelayedWork::Step(step) => self.step(step, chance),
            DelayedWork::Looked(uid) => {
                let seen = self.look(&uid);
                (vec![(uid, seen)], Vec::new())
            }
            DelayedWork::Launched(uid) => (self.launched(uid, chance), Vec::new()),
            DelayedWork::Finished(uid) => (self.finished(uid, chance), Vec::new()),
            DelayedWork::Stopped(uid, cause) => (self.stopped(uid, cause), Vec::new()),
        }
    }

    fn step(&mut self, step: ExecutorStep, chance: &mut Chance) -> (Seen, Later) {
        let mut later = Vec::new();
        let seen = match step {
            ExecutorStep::Adopt(uid) => {
                later.push((chance.below(200), DelayedWork::Looked(uid)));
                Vec::new()
            }
            ExecutorStep::Create(spec) => {
                let uid = spec.placement.uid.clone();
                self.containers.entry(uid.clone()).or_insert(Container {
                    spec: *spec,
                    phase: Phase::Starting,
                });
                later.push((chance.below(3_000), DelayedWork::Launched(uid)));
                Vec::new()
            }
            ExecutorStep::Go(uid) => match self.containers.get_mut(&uid) {
                Some(container) if matches!(container.phase, Phase::Ready) => {
                    container.phase = Phase::Running;
                    let most = [20_000, 20_000, 400_000][chance.below(3) as usize];
                    later.push((chance.below(most), DelayedWork::Finished(uid.clone())));
                    vec![(uid, Observation::Running)]
                }
                Some(_) | None => Vec::new(),
            },
            ExecutorStep::Stop {
                uid,
                cause,
                grace_ms,
            } => {
                let running = self.containers.get(&uid);
                let is_slow = running.is_some_and(|it| matches!(it.phase, Phase::Running))
                    && chance.one_in(2);
                match is_slow {
                    true => {
                        let after = chance.below(1 + grace_ms.min(GRACE_MS));
                        later.push((after, DelayedWork::Stopped(uid, cause)));
                        Vec::new()
                    }
                    false => self.stopped(uid, cause),
                }
            }
            ExecutorStep::Remove(uid) => {
                self.containers.remove(&uid);
                vec![(uid, Observation::Gone)]
            }
        };
        (seen, later)
    }

    fn stopped(&mut self, uid: AttemptUid, cause: Cause) -> Seen {
        match self.containers.get_mut(&uid) {
            None => vec![(uid, Observation::Gone)],
            Some(container) => {
                if !matches!(container.phase, Phase::Ended(_)) {
                    let verdict = verdict::stopped(cause);
                    container.phase = Phase::Ended(Box::new(verdict.clone()));
                    self.exits.insert(uid.clone(), verdict);
                }
                vec![(uid.clone(), self.look(&uid))]
            }
        }
    }

    /// A renewal reaches a task's muster-init.
    pub(crate) fn renew(&mut self, uid: AttemptUid, now: Time, ends: Time) {
        let before = self.ends.entry(uid).or_insert(ends);
        if *before > now {
            *before = ends.max(*before);
        }
    }

    /// Until when a task's muster-init lets it run.
    pub(crate) fn lease(&self, uid: &AttemptUid) -> Option<Time> {
        self.ends.get(uid).copied()
    }

    fn under_init(&self) -> impl Iterator<Item = (&AttemptUid, Time)> {
        let alive = self.containers.iter();
        let alive = alive.filter(|(_, it)| matches!(it.phase, Phase::Ready | Phase::Running));
        alive.filter_map(|(uid, _)| Some((uid, *self.ends.get(uid)?)))
    }

    /// When the next task is ended by its muster-init.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.under_init().map(|(_, ends)| ends).min()
    }

    /// Tasks whose leases are over end, agent or no agent.
    pub(crate) fn end_leases(&mut self, now: Time) -> Seen {
        let over = self.under_init().filter(|(_, ends)| *ends <= now);
        let over: Vec<AttemptUid> = over.map(|(uid, _)| uid.clone()).collect();
        let mut seen = Vec::new();
        for uid in over {
            let verdict = verdict::stopped(Cause::LeaseEnded);
            self.exits.insert(uid.clone(), verdict.clone());
            if let Some(container) = self.containers.get_mut(&uid) {
                container.phase = Phase::Ended(Box::new(verdict.clone()));
            }
            seen.push((uid, Observation::Ended(Box::new(verdict))));
        }
        seen
    }

    fn look(&self, uid: &AttemptUid) -> Observation {
        match self.containers.get(uid).map(|container| &container.phase) {
            None | Some(Phase::Starting) => Observation::Absent,
            Some(Phase::Ready) => Observation::Ready,
            Some(Phase::Running) => Observation::Running,
            Some(Phase::Ended(verdict)) => Observation::Ended(verdict.clone()),
        }
    }

    fn launched(&mut self, uid: AttemptUid, chance: &mut Chance) -> Vec<(AttemptUid, Observation)> {
        let Some(container) = self.containers.get_mut(&uid) else {
            return Vec::new();
        };
        if !matches!(container.phase, Phase::Starting) {
            return Vec::new();
        }
        if chance.one_in(12) {
            let behavior = [Behavior::Transient, Behavior::Permanent][chance.below(2) as usize];
            let verdict = Box::new(failure(253, behavior));
            self.exits.insert(uid.clone(), (*verdict).clone());
            container.phase = Phase::Ended(verdict.clone());
            return vec![(uid, Observation::LaunchFailed(verdict))];
        }
        container.phase = Phase::Ready;
        self.readied.insert(uid.clone());
        vec![(uid, Observation::Ready)]
    }

    fn finished(&mut self, uid: AttemptUid, chance: &mut Chance) -> Vec<(AttemptUid, Observation)> {
        let Some(container) = self.containers.get_mut(&uid) else {
            return Vec::new();
        };
        if !matches!(container.phase, Phase::Running) {
            return Vec::new();
        }
        let verdict = Box::new(match chance.below(6) {
            0 => exit(1, Behavior::Unknown),
            1 => exit(137, Behavior::Transient),
            _ => exit(0, Behavior::Unknown),
        });
        self.exits.insert(uid.clone(), (*verdict).clone());
        container.phase = Phase::Ended(verdict.clone());
        vec![(uid, Observation::Ended(verdict))]
    }

    /// The machine is off: only the exits of what had ended are on its disk.
    pub(crate) fn power_off(&mut self) {
        let has_ended = |container: &Container| matches!(container.phase, Phase::Ended(_));
        self.containers.retain(|_, container| has_ended(container));
    }

    /// The agent died: launches under way come to nothing, whether their container was made
    /// or not.
    pub(crate) fn crash(&mut self, chance: &mut Chance) {
        self.containers.retain(|uid, container| {
            if !matches!(container.phase, Phase::Starting) {
                return true;
            }
            let made = chance.one_in(2);
            if made {
                container.phase = Phase::Ended(Box::new(verdict::lost()));
                self.exits.insert(uid.clone(), verdict::lost());
            }
            made
        });
    }
}

/// The task never ran.
fn failure(code: i32, behavior: Behavior) -> Verdict {
    let mut verdict = verdict::succeeded();
    verdict.spec.code = code;
    verdict.spec.behavior = behavior;
    verdict
}

/// The user's commands ended so.
fn exit(code: i32, behavior: Behavior) -> Verdict {
    Verdict {
        container_exit_code: Some(code),
        ..failure(code, behavior)
    }
}
