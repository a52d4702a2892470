//! The invariants, from an account of its own of what was committed.

use std::collections::BTreeSet;

use muster_control::gang::Run;
use muster_control::ledger::{Ledger, Step};
use muster_control::vc::{End, Entry};
use muster_control::verdict::{EXIT_BARRIER_TIMEOUT, EXIT_PREEMPTED};
use muster_model::exit::{Behavior, Cause, Verdict};
use muster_model::id::{AttemptUid, NodeId, TaskId};
use muster_model::node::Device;
use muster_model::state::{EXIT_ATTEMPT_COMPLETED, EXIT_STOPPED, State};

use super::World;
use crate::executor::Phase;

impl World {
    /// Keeps an own account of what was committed, for the checks.
    pub(super) fn note(&mut self, entry: &Entry) {
        match entry {
            Entry::Elected { term } => self.elected = term.0,
            Entry::Accept(job) => {
                self.accepted.insert(job.key.clone());
            }
            Entry::Placed(placed) => {
                let run = &placed.run;
                let live = self
                    .machines
                    .values()
                    .flat_map(|m| m.executor.containers.values());
                for container in live.filter(|c| matches!(c.phase, Phase::Running)) {
                    let uid = &container.spec.placement.uid;
                    let same = self.placed.iter().find(|(_, known)| known == uid).unwrap();
                    if self.ended.get(uid) == Some(&End::Overlapped) {
                        continue;
                    }
                    assert_ne!(
                        same.0.gang, run.gang,
                        "{run} was placed while {same:?} runs"
                    );
                }
                for member in &placed.members {
                    self.placed.insert((run.clone(), member.uid.clone()));
                }
                let nodes = placed.members.iter().map(|member| member.node.clone());
                self.places.insert(run.clone(), nodes.collect());
                let place = (run.attempt, run.round);
                let old = self.newest.insert(run.gang.clone(), place);
                assert!(old < Some(place), "{run} came after {old:?}");
            }
            Entry::Go { run, .. } => {
                for (_, uid) in self.placed.iter().filter(|(known, _)| known == run) {
                    let mut machines = self.machines.values();
                    let ready = machines.any(|m| m.executor.readied.contains(uid));
                    assert!(ready, "Go of {run} before {uid} was ready");
                }
                self.going.insert(run.clone());
            }
            Entry::Stopping {
                run,
                cause: Cause::Preempted,
                ..
            } => {
                self.preempted.insert(run.clone());
            }
            Entry::Stopping {
                run,
                cause: Cause::Drained,
                ..
            } => self.check_moved(run),
            Entry::TaskEnded {
                run,
                task,
                uid,
                end,
                ..
            } => {
                self.ended.insert(uid.clone(), end.clone());
                if let End::Exit(verdict) = end {
                    self.check_record(run, task, uid, verdict);
                    if is_failure(verdict) {
                        self.failed.insert(run.gang.job);
                    }
                }
            }
            _ => {}
        }
    }

    /// No container without a committed placement, no command before its round's Go.
    pub(super) fn check_step(&self, id: &NodeId, step: &Step) {
        match step {
            Step::Create(spec) => {
                let uid = &spec.placement.uid;
                assert!(
                    self.placed.iter().any(|(_, known)| known == uid),
                    "{uid} on {id}"
                );
                assert_eq!(spec.placement.node, *id);
                assert!(!spec.placement.ports.is_empty());
            }
            Step::Go(uid) => {
                let run = self.placed.iter().find(|(_, known)| known == uid);
                assert!(
                    self.going.contains(&run.unwrap().0),
                    "{uid} on {id} before Go"
                );
            }
            Step::Adopt(_) | Step::Stop { .. } | Step::Remove(_) => {}
        }
    }

    pub(super) fn check(&self) {
        for key in &self.accepted {
            assert!(self.state.job_id(key).is_some(), "{key} is lost");
        }
        if let Err(problem) = self.coordinator.audit(&self.state) {
            panic!("{problem}");
        }
    }

    /// What a run that had started left behind is shown with its exit, or as stopped.
    fn check_record(&self, run: &Run, task: &TaskId, uid: &AttemptUid, exit: &Verdict) {
        if !self.going.contains(run) {
            return;
        }
        let mut keys = self.accepted.iter();
        let key = keys.find(|key| self.state.job_id(key) == Some(run.gang.job));
        let view = self.state.task(key.unwrap(), run.attempt.job, task);
        let attempts = view.unwrap().attempts;
        let own = attempts.into_iter().find(|a| a.uid.as_ref() == Some(uid));
        let code = own
            .and_then(|own| own.verdict)
            .map(|verdict| verdict.code());
        let stopped = [
            EXIT_STOPPED,
            EXIT_ATTEMPT_COMPLETED,
            EXIT_BARRIER_TIMEOUT,
            EXIT_PREEMPTED,
        ];
        assert!(
            code == Some(exit.code()) || code.is_some_and(|code| stopped.contains(&code)),
            "{uid} ended with {}, its record says {code:?}",
            exit.code()
        );
    }

    /// However a container ended, that is what was committed of it.
    pub(super) fn check_exits(&self) {
        for (id, machine) in &self.machines {
            for (uid, exit) in &machine.executor.exits {
                let committed = self.ended.get(uid);
                let kept = match committed {
                    Some(End::Exit(verdict)) => **verdict == *exit,
                    // Its word came too late.
                    Some(End::Lost | End::Overlapped | End::Off) => true,
                    Some(End::Gone) | None => false,
                };
                assert!(kept, "{uid} on {id}: {exit:?} became {committed:?}");
            }
        }
    }

    /// No job fails unless one of its tasks did.
    pub(super) fn check_failures(&self) {
        for job in self.state.summaries() {
            let id = self.state.job_id(&job.key).unwrap();
            assert!(
                job.state() != State::Failed || self.failed.contains(&id),
                "{} failed by no fault of its own: {:?}",
                job.key,
                job.exit_code
            );
        }
    }

    /// Who gives way is not charged for it, and goes on.
    pub(super) fn check_charges(&self) {
        for job in self.state.summaries() {
            let attempts = 0..=job.retries.total;
            let views = attempts.filter_map(|i| self.state.detail(&job.key, Some(i)).ok()?.attempt);
            let exits: Vec<i32> = views
                .filter_map(|view| Some(view.verdict?.code()))
                .collect();
            let gave_way = exits.iter().filter(|code| **code == EXIT_PREEMPTED).count();
            let free = job.retries.total - job.retries.accountable;
            assert!(gave_way as u64 <= free.into(), "{} was charged", job.key);
            assert_ne!(job.exit_code, Some(EXIT_PREEMPTED), "{} ended", job.key);
        }
    }

    /// Nothing on the machine is used twice, and nothing lives after its committed end.
    pub(super) fn check_machine(&self, id: &NodeId) {
        let machine = &self.machines[id];
        let mut devices = BTreeSet::new();
        let mut ports = BTreeSet::new();
        for container in machine.executor.containers.values() {
            let place = &container.spec.placement;
            let end = self.ended.get(&place.uid);
            let over = end.is_some();
            let alive = match end {
                Some(End::Overlapped) => false,
                // What waits for Go holds devices until its node is back, and runs nothing.
                Some(End::Lost) => matches!(container.phase, Phase::Running),
                Some(End::Exit(_) | End::Gone | End::Off) | None => {
                    !matches!(container.phase, Phase::Ended(_))
                }
            };
            assert!(
                !(over && alive),
                "{} on {id} lives after its end, {end:?}: {:?}, {:?} at {:?}",
                place.uid,
                container.phase,
                machine.executor.lease(&place.uid),
                machine.clock.read(self.now)
            );
            for device in &place.devices {
                assert!(devices.insert(device), "{device:?} on {id} is used twice");
            }
            for port in place.ports.iter().flat_map(|(_, ports)| ports) {
                assert!(ports.insert(port), "port {port} on {id} is used twice");
            }
        }
        self.check_grants(id, &machine.ledger);
    }

    fn check_grants(&self, id: &NodeId, ledger: &Ledger) {
        let mut devices = BTreeSet::new();
        let tasks = ledger.tasks();
        for task in tasks.iter().filter(|task| task.state != "Free") {
            for device in &task.devices {
                assert!(
                    devices.insert(device),
                    "device {device} of {id} is granted twice"
                );
            }
        }
        let mut known = ledger.capacity().devices.iter();
        let idle = |d: &&Device| d.fault.is_none() && !devices.contains(&d.index);
        assert_eq!(
            ledger.free().free.devices.len(),
            known.by_ref().filter(idle).count()
        );
    }
}

/// Whether the task itself, or its image, is to blame.
fn is_failure(verdict: &Verdict) -> bool {
    let exited = verdict.container_exit_code.is_some_and(|code| code != 0);
    exited || verdict.spec.behavior == Behavior::Permanent
}
