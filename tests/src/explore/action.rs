//! What can happen next.

use muster_control::vc::VcEntry;
use muster_model::id::AttemptUid;
use muster_model::row::JobRow as _;
use muster_model::state::ExecutionType;

use super::leader::{Leader, LeaderInput};
use super::machine::{self, ContainerEvent, Death, Machine, MachineInput, Phase};
use super::part::Part;
use super::world::{Cores, MACHINES, World};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// The first entry that the leader wants is committed.
    Commit,
    /// Somebody else is elected, with so many of those entries.
    Elect(usize),
    /// The nth of the orders arrives. If so, it comes again later.
    Order(usize, bool),
    /// It does, later.
    Echo,
    /// It arrives, and the agent dies after so many of the things that follow.
    OrderAndDeath(usize, usize),
    /// A leader hears the nth of what is told.
    Tell(usize),
    /// The waits of the leader, or of the old one, end.
    LeaderTick(bool),
    MachineTick(usize),
    /// An agent hears that this term's leader leads.
    Learn(usize, u64),
    /// It looks at its containers.
    Look(usize),
    Container(usize, AttemptUid, ContainerEvent),
    Death(usize, Death),
    /// The user stops the first job.
    Stop,
    /// The leader hears that a machine cannot be reached.
    Cut(usize),
    /// It hears that all can.
    Heal,
}

impl World {
    /// Everything that can happen, always in the same order.
    pub(super) fn actions(&self, cores: &Cores, actions: &mut Vec<Action>) {
        if self.wrong.is_some() {
            return;
        }
        let budget = &self.budget;
        if !self.leader.wants.is_empty() {
            actions.push(Action::Commit);
        }
        if budget.elections > 0 {
            let wants = self.leader.wants.len();
            actions.extend((0..=wants).map(Action::Elect));
        }
        for (nth, order) in self.orders.all().iter().enumerate() {
            actions.push(Action::Order(nth, false));
            if budget.echoes > 0 {
                actions.push(Action::Order(nth, true));
            }
            if budget.deaths > 0 {
                let steps = self.steps_of(cores, order);
                actions.extend((1..steps).map(|cut| Action::OrderAndDeath(nth, cut)));
            }
        }
        if self.echo.is_some() {
            actions.push(Action::Echo);
        }
        actions.extend((0..self.tells.all().len()).map(Action::Tell));
        let has_ticks = budget.leader_ticks > 0;
        let waits = |of: &Part<Leader>| has_ticks && of.waits();
        if waits(&self.leader) {
            actions.push(Action::LeaderTick(false));
        }
        if self.old.as_ref().is_some_and(waits) {
            actions.push(Action::LeaderTick(true));
        }
        for (at, machine) in self.machines.iter().enumerate() {
            self.actions_at(at, machine, actions);
        }
        if budget.stops > 0 {
            actions.push(Action::Stop);
        }
        match self.cut {
            Some(_) => actions.push(Action::Heal),
            None if budget.cuts > 0 => actions.extend((0..MACHINES).map(Action::Cut)),
            None => {}
        }
    }

    fn actions_at(&self, at: usize, machine: &Machine, actions: &mut Vec<Action>) {
        let budget = &self.budget;
        if budget.machine_ticks > 0 && machine.waits() {
            actions.push(Action::MachineTick(at));
        }
        if let Some(since) = machine.unlearned {
            let terms = since..=self.leader.term;
            actions.extend(terms.map(|term| Action::Learn(at, term)));
        }
        if machine.is_blind {
            actions.push(Action::Look(at));
        }
        for (uid, container) in &machine.containers {
            let may_fail = budget.failures > 0;
            let may_err = budget.errors > 0;
            let events: &[(ContainerEvent, bool)] = match container.phase {
                Phase::Starting => &[
                    (ContainerEvent::Launched, true),
                    (ContainerEvent::Failed, may_fail),
                ],
                Phase::Running => &[
                    (ContainerEvent::Exits(0), true),
                    (ContainerEvent::Exits(1), may_err),
                ],
                Phase::Ready | Phase::Ended(_) => &[],
            };
            let stopped = (
                ContainerEvent::Stopped,
                container.stop.is_some() && container.lives(),
            );
            let events = events.iter().copied().chain([stopped]);
            let events = events.filter(|(_, may)| *may);
            actions.extend(events.map(|(event, _)| Action::Container(at, uid.clone(), event)));
        }
        let deaths = [
            (Death::Clean, budget.deaths),
            (Death::Messy, budget.deaths),
            (Death::Ledger, budget.ledgers),
            (Death::Power, budget.powers),
        ];
        let starts = |it: &machine::Container| matches!(it.phase, Phase::Starting);
        let is_starting = machine.containers.values().any(starts);
        for (death, left) in deaths {
            if left > 0 && (death != Death::Messy || is_starting) {
                actions.push(Action::Death(at, death));
            }
        }
    }

    /// It happens.
    pub(super) fn happens(&mut self, cores: &Cores, action: Action) {
        match action {
            Action::Commit => self.lead(cores, false, LeaderInput::Commit),
            Action::Elect(committed) => {
                self.budget.elections -= 1;
                self.elect(cores, committed);
            }
            Action::Order(nth, again) => {
                let order = self.orders.take(nth);
                if again {
                    self.budget.echoes -= 1;
                    self.echo = Some(order.clone());
                }
                self.work(cores, order.at, MachineInput::Order(order));
            }
            Action::Echo => {
                if let Some(order) = self.echo.take() {
                    self.work(cores, order.at, MachineInput::Order(order));
                }
            }
            Action::OrderAndDeath(nth, cut) => {
                let order = self.orders.take(nth);
                self.budget.deaths -= 1;
                let term = self.leader.term;
                self.work(cores, order.at, MachineInput::DiesAt(order, cut, term));
            }
            Action::Tell(nth) => self.tell(cores, nth),
            Action::LeaderTick(is_old) => {
                self.budget.leader_ticks -= 1;
                self.lead(cores, is_old, LeaderInput::Tick);
            }
            Action::MachineTick(at) => {
                self.budget.machine_ticks -= 1;
                self.work(cores, at, MachineInput::Tick);
            }
            Action::Learn(at, term) => self.work(cores, at, MachineInput::Learned(term)),
            Action::Look(at) => self.work(cores, at, MachineInput::Looks),
            Action::Container(at, uid, event) => {
                match event {
                    ContainerEvent::Failed => self.budget.failures -= 1,
                    ContainerEvent::Exits(code) if code != 0 => self.budget.errors -= 1,
                    ContainerEvent::Launched
                    | ContainerEvent::Exits(_)
                    | ContainerEvent::Stopped => {}
                }
                self.work(cores, at, MachineInput::Container(uid, event));
            }
            Action::Death(at, death) => {
                match death {
                    Death::Clean | Death::Messy => self.budget.deaths -= 1,
                    Death::Ledger => {
                        self.budget.ledgers -= 1;
                        self.loses_ledgers = true;
                    }
                    Death::Power => self.budget.powers -= 1,
                }
                let term = self.leader.term;
                self.work(cores, at, MachineInput::Restarts(death, term));
            }
            Action::Cut(at) => {
                self.budget.cuts -= 1;
                self.cut = Some(at);
                self.lead(cores, false, LeaderInput::Cut(self.cut));
            }
            Action::Heal => {
                self.cut = None;
                self.lead(cores, false, LeaderInput::Cut(None));
            }
            Action::Stop => {
                self.budget.stops -= 1;
                let job = self.leader.state.rows().next();
                if let Some(job) = job {
                    let stop = VcEntry::SetExecution {
                        job: job.key().clone(),
                        value: ExecutionType::Stop,
                        at_ms: 1,
                    };
                    self.lead(cores, false, LeaderInput::Entry(Part::new(stop)));
                }
            }
        }
    }

    fn tell(&mut self, cores: &Cores, nth: usize) {
        let told = self.tells.take(nth);
        let is_old = told.term != self.leader.term;
        if is_old && self.old.as_ref().is_none_or(|old| old.term != told.term) {
            return;
        }
        self.lead(cores, is_old, LeaderInput::Told(told));
    }
}
