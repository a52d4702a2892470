//! The invariants, from an account of its own of what was committed.

use std::collections::BTreeSet;

use muster_control::gang::GangRun;
use muster_control::ledger::{ExecutorStep, Ledger};
use muster_control::vc::{TaskEnd, VcEntry};
use muster_model::exit::{Behavior, Cause, Verdict};
use muster_model::id::{AttemptUid, NodeId};
use muster_model::node::Device;

use super::World;
use super::reign::Reign;
use crate::executor::Phase;

impl World {
    /// Keeps an own account of what was committed, for the checks.
    pub(super) fn note(&mut self, vc: usize, entry: &VcEntry) {
        match entry {
            VcEntry::Elected { term } => self.reigns[vc].elected = term.0,
            VcEntry::Accept(job) => {
                self.reigns[vc].accepted.insert(job.key.clone());
            }
            VcEntry::Placed(placed) => {
                let run = &placed.run;
                let live = self
                    .machines
                    .values()
                    .flat_map(|m| m.executor.containers.values());
                for container in live.filter(|c| matches!(c.phase, Phase::Running)) {
                    let uid = &container.spec.placement.uid;
                    let Some(same) = self.reigns[vc].run_of(uid) else {
                        continue;
                    };
                    if self.ended.get(uid) == Some(&TaskEnd::Overlapped) {
                        continue;
                    }
                    assert_ne!(same.gang, run.gang, "{run} was placed while {same:?} runs");
                }
                self.reigns[vc].note_placed(placed);
            }
            VcEntry::Go {
                run,
                limit_s,
                at_ms,
            } => {
                let reign = &mut self.reigns[vc];
                let ends = limit_s.map(|seconds| (run.clone(), at_ms + seconds * 1000));
                reign.ends.extend(ends);
                for (_, uid) in reign.placed.iter().filter(|(known, _)| known == run) {
                    let mut machines = self.machines.values();
                    let ready = machines.any(|m| m.executor.readied.contains(uid));
                    assert!(ready, "Go of {run} before {uid} was ready");
                }
                reign.going.insert(run.clone());
            }
            VcEntry::Stopping {
                run,
                cause: Cause::Preempted,
                ..
            } => {
                self.reigns[vc].preempted.insert(run.clone());
            }
            VcEntry::Stopping {
                run,
                cause: Cause::Drained,
                ..
            } => self.check_moved(vc, run),
            VcEntry::Stopping {
                run,
                cause: Cause::RunTimeOver,
                at_ms,
                ..
            } => {
                self.reigns[vc].failed.insert(run.gang.job);
                let ends = self.reigns[vc].ends.get(run);
                assert!(
                    ends.is_some_and(|ends| at_ms >= ends),
                    "{run} was ended too early: {ends:?}"
                );
            }
            VcEntry::TaskEnded {
                run,
                task,
                uid,
                end,
                ..
            } => {
                self.ended.insert(uid.clone(), end.clone());
                if let TaskEnd::Exit(verdict) = end {
                    let reign = &mut self.reigns[vc];
                    reign.check_record(run, task, uid, verdict);
                    if self.evicted.contains(uid) {
                        // All of the gang has to go then.
                        reign.preempted.insert(run.clone());
                    }
                    if is_failure(verdict) {
                        reign.failed.insert(run.gang.job);
                    }
                }
            }
            _ => {}
        }
    }

    /// No container without a committed placement, no command before its round's Go.
    pub(super) fn check_step(&mut self, id: &NodeId, step: &ExecutorStep) {
        match step {
            ExecutorStep::Create(spec) => {
                let uid = &spec.placement.uid;
                assert!(self.owner(uid).is_some(), "{uid} on {id}");
                assert_eq!(spec.placement.node, *id);
                assert!(!spec.placement.ports.is_empty());
            }
            ExecutorStep::Go(uid) => {
                let (reign, run) = self.owner(uid).unwrap();
                assert!(reign.going.contains(run), "{uid} on {id} before Go");
            }
            ExecutorStep::Stop {
                uid,
                cause: Cause::Preempted,
                ..
            } => self.check_eviction(id, uid),
            ExecutorStep::Adopt(_) | ExecutorStep::Stop { .. } | ExecutorStep::Remove(_) => {}
        }
    }

    /// The virtual cluster that placed a task, and in which run.
    fn owner(&self, uid: &AttemptUid) -> Option<(&Reign, &GangRun)> {
        let mut reigns = self.reigns.iter();
        reigns.find_map(|reign| Some((reign, reign.run_of(uid)?)))
    }

    /// What its own leader did not tell to give way uses what was promised to others, and one of
    /// them was placed there.
    fn check_eviction(&mut self, id: &NodeId, uid: &AttemptUid) {
        let (owner, run) = self.owner(uid).unwrap();
        if owner.preempted.contains(run) {
            return;
        }
        assert!(
            owner.is_opportunistic(run),
            "{uid} on {id} of {run} has to give way, and was promised what it uses"
        );
        let others = self.reigns.iter().filter(|reign| reign.vc != owner.vc);
        let mut placed = others.flat_map(|reign| {
            let here = |run: &GangRun| reign.places.get(run).is_some_and(|on| on.contains(id));
            reign.placed.iter().filter(move |(run, _)| here(run))
        });
        let executor = &self.machines[id].executor;
        let is_next = |uid: &AttemptUid| {
            !self.ended.contains_key(uid)
                && !executor.containers.contains_key(uid)
                && !executor.exits.contains_key(uid)
        };
        assert!(
            placed.any(|(_, next)| is_next(next)) || self.evicted.contains(uid),
            "{uid} on {id} has to give way for nobody"
        );
        self.evicted.insert(uid.clone());
    }

    pub(super) fn check(&self) {
        for reign in &self.reigns {
            for key in &reign.accepted {
                assert!(reign.state.job_id(key).is_some(), "{key} is lost");
            }
            if let Err(problem) = reign.coordinator.audit(&reign.state) {
                panic!("{}: {problem}", reign.vc);
            }
        }
    }

    /// However a container ended, that is what was committed of it.
    pub(super) fn check_exits(&self) {
        for (id, machine) in &self.machines {
            for (uid, exit) in &machine.executor.exits {
                let committed = self.ended.get(uid);
                let kept = match committed {
                    Some(TaskEnd::Exit(verdict)) => **verdict == *exit,
                    // Its word came too late.
                    Some(
                        TaskEnd::Lost | TaskEnd::Overlapped | TaskEnd::Off | TaskEnd::NotStarted,
                    ) => true,
                    // In the round that followed it had another name.
                    None => self
                        .owner(uid)
                        .is_some_and(|(reign, run)| reign.has_passed(run)),
                    Some(TaskEnd::Gone) => false,
                };
                assert!(kept, "{uid} on {id}: {exit:?} became {committed:?}");
            }
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
                Some(TaskEnd::Overlapped) => false,
                // What waits for Go holds devices until its node is back, and runs nothing.
                Some(TaskEnd::Lost | TaskEnd::NotStarted) => {
                    matches!(container.phase, Phase::Running)
                }
                Some(TaskEnd::Exit(_) | TaskEnd::Gone | TaskEnd::Off) | None => {
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
                let claims = task.state == "Claimed";
                assert!(
                    devices.insert((device, claims)),
                    "device {device} of {id} is granted or claimed twice"
                );
            }
        }
        let used = tasks
            .iter()
            .filter(|it| !["Free", "Claimed"].contains(&&*it.state));
        let used = used.fold((0, 0), |sum, it| (sum.0 + it.cpu, sum.1 + it.memory_mb));
        let capacity = ledger.capacity();
        assert!(
            used.0 <= capacity.cpu && used.1 <= capacity.memory_mb,
            "{used:?} of {id} are granted"
        );
        let mut known = ledger.capacity().devices.iter();
        let taken = |d: &Device| [true, false].map(|claims| devices.contains(&(&d.index, claims)));
        let idle = |d: &&Device| d.fault.is_none() && taken(d) == [false; 2];
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
