//! Whatever has happened: once nothing goes wrong any more, everything comes to its end.

use muster_control::vc::TaskEnd;
use muster_model::row::JobRow as _;

use super::action::Action;
use super::books::CheckResult;
use super::machine::{ContainerEvent, Phase};
use super::world::{Cores, MACHINES, World};

/// Far more than it takes.
const STEPS_MAX: usize = 2_000;

impl World {
    /// Goes on without a fault: every job ends, nothing is left of any, and of every exit there is a
    /// record.
    pub(super) fn settles(&self, cores: &Cores) -> CheckResult {
        let mut world = self.clone();
        world.old = None;
        world.echo = None;
        world.budget.stops = 0;
        world.budget.cuts = 0;
        if world.cut.is_some() {
            world.happens(cores, Action::Heal);
        }
        let mut ticks = 0;
        for _ in 0..STEPS_MAX {
            if world.wrong.is_some() {
                break;
            }
            if let Some(action) = world.next() {
                world.happens(cores, action);
                continue;
            }
            if world.has_ended() {
                return world.exits_are_recorded();
            }
            world.tick(cores, ticks);
            ticks += 1;
        }
        Err(world.wrong.unwrap_or_else(|| {
            let jobs: Vec<_> = world.leader.state.rows().map(|row| row.summary()).collect();
            let tasks = world.machines.iter().map(|it| it.node.ledger().tasks());
            let tasks: Vec<_> = tasks.collect();
            format!("it does not come to its end: {jobs:?} {tasks:?}").into()
        }))
    }

    /// Whatever can happen now without a fault, if anything can.
    pub(super) fn next(&self) -> Option<Action> {
        if !self.leader.wants.is_empty() {
            return Some(Action::Commit);
        }
        if !self.orders.all().is_empty() {
            return Some(Action::Order(0, false));
        }
        if !self.tells.all().is_empty() {
            return Some(Action::Tell(0));
        }
        for (at, machine) in self.machines.iter().enumerate() {
            if machine.unlearned.is_some() {
                return Some(Action::Learn(at, self.leader.term));
            }
            if machine.is_blind {
                return Some(Action::Look(at));
            }
            for (uid, container) in &machine.containers {
                let event = match container.phase {
                    _ if container.stop.is_some() && container.lives() => ContainerEvent::Stopped,
                    Phase::Starting => ContainerEvent::Launched,
                    Phase::Running => ContainerEvent::Exits(0),
                    Phase::Ready | Phase::Ended(_) => continue,
                };
                return Some(Action::Container(at, uid.clone(), event));
            }
        }
        None
    }

    /// The waits of the leader and of the machines end in turn.
    fn tick(&mut self, cores: &Cores, nth: usize) {
        match nth % (MACHINES + 1) {
            MACHINES => {
                self.budget.leader_ticks = 1;
                self.happens(cores, Action::LeaderTick(false));
            }
            at => {
                self.budget.machine_ticks = 1;
                self.happens(cores, Action::MachineTick(at));
            }
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        let mut jobs = self.leader.state.rows();
        let are_idle = self.machines.iter().all(|machine| {
            machine.containers.is_empty() && machine.node.ledger().tasks().is_empty()
        });
        are_idle && jobs.all(|job| job.completed().is_some())
    }

    fn exits_are_recorded(&self) -> CheckResult {
        let exits = self.machines.iter().flat_map(|machine| &machine.exits);
        for (uid, code) in exits {
            match self.books.ended.get(uid) {
                Some(TaskEnd::Exit(verdict)) if verdict.code() == *code => {}
                // Only its ledger knew, and was lost.
                Some(TaskEnd::Gone) if self.loses_ledgers => {}
                // It was told to end before its commands began, and nobody waited for its word.
                Some(TaskEnd::NotStarted) => {}
                // In the round that followed it had another name.
                None if self.books.has_passed(uid) => {}
                other => {
                    let wrong = format!("{uid} ended with {code}; its record: {other:?}");
                    return Err(wrong.into());
                }
            }
        }
        Ok(())
    }
}
