//! What can happen next.

use muster_control::order::{Order, Tell};
use muster_control::vc::Entry;
use muster_model::id::AttemptUid;
use muster_model::row::JobRow as _;
use muster_model::state::ExecutionType;

use super::leader::{self, Leader};
use super::machine::{self, Death, Event, Machine, Phase};
use super::part::Part;
use super::world::{Cores, OrderSlot, TellSlot, World};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// The first entry that the leader wants is committed.
    Commit,
    /// Somebody else is elected, with so many of those entries.
    Elect(usize),
    /// An order arrives. If so, it comes again later.
    Order(OrderSlot, bool),
    /// It does, later.
    Echo,
    /// It arrives, and the agent dies after so many of the things that follow.
    OrderAndDeath(OrderSlot, usize),
    /// A leader hears something.
    Tell(TellSlot),
    /// The waits of the leader, or of the old one, end.
    LeaderTick(bool),
    MachineTick(usize),
    /// An agent hears that this term's leader leads.
    Learn(usize, u64),
    /// It looks at its containers.
    Look(usize),
    Container(usize, AttemptUid, Event),
    Death(usize, Death),
    /// The user stops the first job.
    Stop,
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
        for (slot, order) in &self.orders {
            actions.push(Action::Order(slot.clone(), false));
            if budget.echoes > 0 {
                actions.push(Action::Order(slot.clone(), true));
            }
            if budget.deaths > 0 {
                let steps = self.steps_of(cores, slot.1, order);
                let cuts = (1..steps).map(|cut| Action::OrderAndDeath(slot.clone(), cut));
                actions.extend(cuts);
            }
        }
        if self.echo.is_some() {
            actions.push(Action::Echo);
        }
        actions.extend(self.tells.keys().cloned().map(Action::Tell));
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
            let events: &[(Event, bool)] = match container.phase {
                Phase::Starting => &[(Event::Launched, true), (Event::Failed, may_fail)],
                Phase::Running => &[(Event::Exits(0), true), (Event::Exits(1), may_err)],
                Phase::Ready | Phase::Ended(_) => &[],
            };
            let stopped = (
                Event::Stopped,
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
            Action::Commit => self.lead(cores, false, leader::LeaderInput::Commit),
            Action::Elect(committed) => {
                self.budget.elections -= 1;
                self.elect(cores, committed);
            }
            Action::Order(slot, again) => {
                let Some(order) = self.orders.remove(&slot) else {
                    return;
                };
                if again {
                    self.budget.echoes -= 1;
                    self.echo = Some((slot.1, order.clone()));
                }
                self.ordered(cores, slot.1, &order);
            }
            Action::Echo => {
                if let Some((at, order)) = self.echo.take() {
                    self.ordered(cores, at, &order);
                }
            }
            Action::OrderAndDeath(slot, cut) => {
                let Some(order) = self.orders.remove(&slot) else {
                    return;
                };
                self.budget.deaths -= 1;
                let order = Box::new(Order::clone(&order));
                let term = self.leader.term;
                self.work(
                    cores,
                    slot.1,
                    machine::MachineInput::DiesAt(order, cut, term),
                );
            }
            Action::Tell(slot) => self.tell(cores, &slot),
            Action::LeaderTick(is_old) => {
                self.budget.leader_ticks -= 1;
                self.lead(cores, is_old, leader::LeaderInput::Tick);
            }
            Action::MachineTick(at) => {
                self.budget.machine_ticks -= 1;
                self.work(cores, at, machine::MachineInput::Tick);
            }
            Action::Learn(at, term) => self.work(cores, at, machine::MachineInput::Learned(term)),
            Action::Look(at) => self.work(cores, at, machine::MachineInput::Looks),
            Action::Container(at, uid, event) => {
                match event {
                    Event::Failed => self.budget.failures -= 1,
                    Event::Exits(code) if code != 0 => self.budget.errors -= 1,
                    Event::Launched | Event::Exits(_) | Event::Stopped => {}
                }
                self.work(cores, at, machine::MachineInput::Container(uid, event));
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
                self.work(cores, at, machine::MachineInput::Restarts(death, term));
            }
            Action::Stop => {
                self.budget.stops -= 1;
                let job = self.leader.state.rows().next();
                if let Some(job) = job {
                    let stop = Entry::SetExecution {
                        job: job.key().clone(),
                        value: ExecutionType::Stop,
                        at_ms: 1,
                    };
                    self.lead(cores, false, leader::LeaderInput::Entry(Box::new(stop)));
                }
            }
        }
    }

    fn ordered(&mut self, cores: &Cores, at: usize, order: &Part<Order>) {
        let order = Box::new(Order::clone(order));
        self.work(cores, at, machine::MachineInput::Order(order));
    }

    fn tell(&mut self, cores: &Cores, slot: &TellSlot) {
        let Some(tell) = self.tells.remove(slot) else {
            return;
        };
        let (at, term, _) = slot;
        let is_old = *term != self.leader.term;
        if is_old && self.old.as_ref().is_none_or(|old| old.term != *term) {
            return;
        }
        let told = leader::LeaderInput::Told {
            node: self.machines[*at].name.clone(),
            tell: Box::new(Tell::clone(&tell)),
        };
        self.lead(cores, is_old, told);
    }
}
