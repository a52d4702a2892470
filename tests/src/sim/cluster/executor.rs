//! A machine's containers. They outlive the agent: what happens to them is worked out when somebody
//! looks, and happened when it was due.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::ledger::{ExecutorStep, Observation};
use muster_control::verdict;
use muster_model::exit::{Behavior, Cause, Verdict};
use muster_model::id::AttemptUid;
use muster_model::launch::TaskSpec;
use muster_model::time::Time;

use super::clock::MachineClocks;
use super::ranks;
use crate::sim::random::Random;

/// How long before the end of its lease a task is told to end, ms.
const LAST_CALL_MS: u64 = 20_000;

/// A container.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) spec: TaskSpec,
    pub(super) phase: Phase,
    /// When its launch is done, or its commands end by themselves.
    due: Option<Time>,
    /// When it has ended after it was told to, and why it was.
    stop: Option<(Time, Cause)>,
    /// When its muster-init ends it, by the clock since boot.
    lease: Option<Time>,
    /// When its commands fail for want of a peer.
    alone: Option<Time>,
}

#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// The agent's part of the launch; lost when the agent dies.
    Starting,
    Ready,
    Running,
    Ended(Box<Verdict>),
}

/// How tasks behave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// Launches take up to so long, ms.
    pub(super) launch_ms: u64,
    /// One launch in so many fails; none if 0.
    pub(super) fails_in: u64,
}

/// What is observed.
pub(super) type Seen = Vec<(AttemptUid, Observation)>;

/// All containers of a machine.
#[derive(Debug, Default)]
pub(super) struct SimExecutor {
    pub(super) containers: BTreeMap<AttemptUid, Container>,
    /// How every container ended.
    pub(super) exits: BTreeMap<AttemptUid, Verdict>,
    /// Every container that came to wait for Go.
    ready: BTreeSet<AttemptUid>,
}

impl SimExecutor {
    /// Whether there is a container of this, or was one.
    pub(super) fn has_had(&self, uid: &AttemptUid) -> bool {
        self.containers.contains_key(uid) || self.exits.contains_key(uid)
    }

    /// Whether a container of this ever was all set but for Go.
    pub(super) fn was_ready(&self, uid: &AttemptUid) -> bool {
        self.ready.contains(uid)
    }

    /// The next moment at which something happens by itself, by the world's clock.
    pub(super) fn next(&self, clock: MachineClocks) -> Option<Time> {
        let next = |container: &Container| Some(container.next(clock)?.0);
        self.containers.values().filter_map(next).min()
    }

    /// Lets everything happen that is due. `agent`: whether one is there.
    pub(super) fn advance(
        &mut self,
        (now, clock, agent): (Time, MachineClocks, bool),
        habits: Habits,
        random: &mut Random,
    ) -> Seen {
        let mut seen = Vec::new();
        for (uid, container) in &mut self.containers {
            let Some((_, what)) = container.next(clock).filter(|(at, _)| *at <= now) else {
                continue;
            };
            let observed = match what {
                Happens::Launched if !agent => continue,
                Happens::Launched => container.launched(habits, random),
                Happens::Ended(verdict) => container.end(*verdict),
            };
            match &container.phase {
                Phase::Ready => {
                    self.ready.insert(uid.clone());
                }
                Phase::Ended(verdict) => {
                    self.exits.insert(uid.clone(), (**verdict).clone());
                }
                Phase::Starting | Phase::Running => {}
            }
            seen.push((uid.clone(), observed));
        }
        seen
    }

    /// Does what the ledger says. `ends`: until when what is created may run.
    pub(super) fn step(
        &mut self,
        now: Time,
        step: ExecutorStep,
        ends: Option<Time>,
        (habits, random): (Habits, &mut Random),
    ) -> Seen {
        match step {
            ExecutorStep::Adopt(uid) => {
                let seen = self.look(&uid);
                vec![(uid, seen)]
            }
            ExecutorStep::Create(spec) => {
                let uid = spec.placement.uid.clone();
                let takes = 1 + random.below(habits.launch_ms.max(1));
                let container = || Container {
                    spec: *spec,
                    phase: Phase::Starting,
                    due: Some(now.plus_millis(takes)),
                    stop: None,
                    lease: ends,
                    alone: None,
                };
                self.containers.entry(uid).or_insert_with(container);
                Vec::new()
            }
            ExecutorStep::Go(uid) => match self.containers.get_mut(&uid) {
                Some(container) if matches!(container.phase, Phase::Ready) => {
                    container.phase = Phase::Running;
                    let runs = container.spec.entrypoint.parse().unwrap_or(1_000);
                    container.due = Some(now.plus_millis(runs));
                    vec![(uid, Observation::Running)]
                }
                Some(_) | None => Vec::new(),
            },
            ExecutorStep::Stop {
                uid,
                cause,
                grace_ms,
            } => self.stop(now, uid, cause, random.below(1 + grace_ms.min(2_000))),
            ExecutorStep::Remove(uid) => {
                self.containers.remove(&uid);
                vec![(uid, Observation::Gone)]
            }
        }
    }

    fn stop(&mut self, now: Time, uid: AttemptUid, cause: Cause, takes_ms: u64) -> Seen {
        let Some(container) = self.containers.get_mut(&uid) else {
            return vec![(uid, Observation::Gone)];
        };
        if let Phase::Ended(verdict) = &container.phase {
            return vec![(uid, Observation::Ended(verdict.clone()))];
        }
        let at = now.plus_millis(takes_ms);
        container.stop.get_or_insert((at, cause));
        Vec::new()
    }

    /// A renewal reaches a task's muster-init; too late if the lease is over.
    pub(super) fn renew(&mut self, uid: &AttemptUid, boot: Time, ends: Time) {
        if let Some(container) = self.containers.get_mut(uid)
            && let Some(lease) = &mut container.lease
            && *lease > boot
        {
            *lease = ends.max(*lease);
        }
    }

    fn look(&self, uid: &AttemptUid) -> Observation {
        match self.containers.get(uid).map(|container| &container.phase) {
            None | Some(Phase::Starting) => Observation::Absent,
            Some(Phase::Ready) => Observation::Ready,
            Some(Phase::Running) => Observation::Running,
            Some(Phase::Ended(verdict)) => Observation::Ended(verdict.clone()),
        }
    }

    /// The machine has no power any more: of what ran there is nothing left.
    pub(super) fn power_off(&mut self) {
        let has_ended = |container: &Container| matches!(container.phase, Phase::Ended(_));
        self.containers.retain(|_, container| has_ended(container));
    }

    /// The agent died: launches under way come to nothing, whether their container was made or not.
    pub(super) fn orphan(&mut self, random: &mut Random) {
        let exits = &mut self.exits;
        self.containers.retain(|uid, container| {
            if !matches!(container.phase, Phase::Starting) {
                return true;
            }
            let made = random.below(2) == 0;
            if made {
                container.phase = Phase::Ended(Box::new(verdict::lost()));
                exits.insert(uid.clone(), verdict::lost());
            }
            made
        });
    }
}

enum Happens {
    Launched,
    Ended(Box<Verdict>),
}

impl Container {
    /// Whether a process of it is there at this time.
    pub(super) fn lives(&self, now: Time, clock: MachineClocks) -> bool {
        match self.phase {
            Phase::Ended(_) => false,
            Phase::Starting => true,
            Phase::Ready | Phase::Running => {
                !matches!(self.next(clock), Some((at, Happens::Ended(_))) if at <= now)
            }
        }
    }

    /// Whether its user's commands run at this time.
    pub(super) fn runs(&self, now: Time, clock: MachineClocks) -> bool {
        matches!(self.phase, Phase::Running) && self.lives(now, clock)
    }

    /// Whether its lease is over at this time, by the clock since boot, but for what it is told to end before.
    pub(super) fn is_last_call(&self, boot: Time) -> bool {
        self.lease
            .is_some_and(|ends| ends <= boot.plus_millis(LAST_CALL_MS))
    }

    /// Whether its commands go on for as long as its peers do.
    pub(super) fn needs_peers(&self) -> bool {
        let runs = matches!(self.phase, Phase::Running) && self.alone.is_none();
        runs && self.stop.is_none() && self.has_peers()
    }

    fn has_peers(&self) -> bool {
        ranks::are_coupled(&self.spec.entrypoint)
    }

    pub(super) const fn is_told_to_end(&self) -> bool {
        self.stop.is_some()
    }

    pub(super) const fn lose_peer(&mut self, at: Time) {
        self.alone = Some(at);
    }

    /// Whether its next end is no success.
    pub(super) fn fails(&self, clock: MachineClocks) -> bool {
        let next = self.next(clock);
        matches!(next, Some((_, Happens::Ended(verdict))) if verdict.code() != 0)
    }

    /// What happens to it next, and when.
    fn next(&self, clock: MachineClocks) -> Option<(Time, Happens)> {
        let stopped = |cause| Happens::Ended(Box::new(verdict::stopped(cause)));
        let stop = self.stop.map(|(at, cause)| (at, stopped(cause)));
        let under_init = matches!(self.phase, Phase::Ready | Phase::Running);
        let lease = self.lease.filter(|_| under_init);
        let lease = lease.map(|ends| (clock.when(ends), stopped(Cause::LeaseEnded)));
        let own = self.due.and_then(|at| match self.phase {
            Phase::Starting => Some((at, Happens::Launched)),
            Phase::Running => {
                let code = i32::from(self.spec.entrypoint.ends_with('1'));
                Some((at, Happens::Ended(Box::new(exit(code)))))
            }
            Phase::Ready | Phase::Ended(_) => None,
        });
        let lost = || Happens::Ended(Box::new(exit(ranks::PEER_LOST)));
        let alone = self.alone.map(|at| (at, lost()));
        // Told to end it has left its peers: whatever its commands do then, it ends for that.
        let by_itself = |_: &(Time, Happens)| self.stop.is_none() || !self.has_peers();
        let (own, alone) = (own.filter(by_itself), alone.filter(by_itself));
        let all = [stop, lease, own, alone].into_iter().flatten();
        let alive = !matches!(self.phase, Phase::Ended(_));
        all.filter(|_| alive).min_by_key(|(at, _)| *at)
    }

    fn launched(&mut self, habits: Habits, random: &mut Random) -> Observation {
        self.due = None;
        if habits.fails_in > 0 && random.below(habits.fails_in) == 0 {
            let verdict = failure(250, Behavior::Transient);
            self.phase = Phase::Ended(Box::new(verdict.clone()));
            return Observation::LaunchFailed(Box::new(verdict));
        }
        self.phase = Phase::Ready;
        Observation::Ready
    }

    fn end(&mut self, verdict: Verdict) -> Observation {
        self.phase = Phase::Ended(Box::new(verdict.clone()));
        Observation::Ended(Box::new(verdict))
    }
}

/// The task never ran.
pub(crate) fn failure(code: i32, behavior: Behavior) -> Verdict {
    let mut verdict = verdict::succeeded();
    verdict.spec.code = code;
    verdict.spec.behavior = behavior;
    verdict
}

/// The user's commands ended so.
pub(crate) fn exit(code: i32) -> Verdict {
    Verdict {
        container_exit_code: Some(code),
        ..failure(code, Behavior::Unknown)
    }
}
