//! A state of the exploration: leaders, machines, and what is on its way between them.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use muster_control::gang::{GangId, Run};
use muster_control::order::{Command, Order, Tell};

use super::books::{Books, Checked, check_machine};
use super::leader::{self, Leader};
use super::machine::{self, Machine};
use super::part::{Memo, Part};

/// The machines that there are.
pub(super) const MACHINES: usize = 2;

/// What may still go wrong, or happen that needs not happen. Each time it does, one less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Somebody else is elected.
    pub(super) elections: u8,
    /// A leader's waits end.
    pub(super) leader_ticks: u8,
    /// A machine's waits end.
    pub(super) machine_ticks: u8,
    /// An agent dies and loses nothing but its memory.
    pub(super) deaths: u8,
    /// An agent dies and its ledger is lost.
    pub(super) ledgers: u8,
    /// A machine has no power for a moment.
    pub(super) powers: u8,
    /// A launch fails.
    pub(super) failures: u8,
    /// Commands end with an error.
    pub(super) errors: u8,
    /// An order comes a second time, later.
    pub(super) echoes: u8,
    /// The user stops the job.
    pub(super) stops: u8,
}

/// Whose order it is, to which machine, about which gang, and of which run it clears something away, if
/// it does. A newer one replaces it: a machine that was given both in turn is where it would be had the
/// older one come at once.
pub(super) type OrderSlot = (u64, usize, GangId, Option<Run>);
/// From which machine to which leader, about which gang; a report if about none.
pub(super) type TellSlot = (usize, u64, Option<GangId>);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct World {
    pub(super) leader: Part<Leader>,
    /// Who led before, and does not know that it does not any more.
    pub(super) old: Option<Part<Leader>>,
    pub(super) machines: Vec<Part<Machine>>,
    pub(super) orders: BTreeMap<OrderSlot, Part<Order>>,
    pub(super) tells: BTreeMap<TellSlot, Part<Tell>>,
    /// An order that comes once more.
    pub(super) echo: Option<(usize, Part<Order>)>,
    pub(super) budget: Budget,
    pub(super) books: Part<Books>,
    /// A ledger was lost, and with it what only it knew.
    pub(super) loses_ledgers: bool,
    /// What must not be.
    pub(super) wrong: Option<String>,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.leader.hash(hasher);
        self.old.hash(hasher);
        self.machines.hash(hasher);
        self.orders.hash(hasher);
        self.tells.hash(hasher);
        self.echo.hash(hasher);
        self.budget.hash(hasher);
        self.books.hash(hasher);
        self.loses_ledgers.hash(hasher);
        self.wrong.hash(hasher);
    }
}

/// The cores' steps that were worked out.
#[derive(Debug, Default)]
pub(super) struct Cores {
    leaders: Memo<Leader, leader::Outcome>,
    machines: Memo<Machine, machine::Outcome>,
}

impl Cores {
    /// How many different leaders and machines there were.
    pub(super) fn parts(&self) -> (usize, usize) {
        (self.leaders.parts(), self.machines.parts())
    }
}

impl World {
    /// A leader of idle machines, which has heard of none of them yet.
    pub(super) fn new(cores: &Cores, budget: Budget) -> Self {
        let mut out = leader::Outcome::default();
        let leader = Part::new(Leader::first(&mut out));
        let mut world = Self {
            leader,
            old: None,
            machines: machine::names()
                .map(|name| Part::new(Machine::new(name)))
                .collect(),
            orders: BTreeMap::new(),
            tells: BTreeMap::new(),
            echo: None,
            budget,
            books: Part::new(Books::default()),
            loses_ledgers: false,
            wrong: None,
        };
        world.send(cores, 1, &out);
        world
    }

    /// Something happens to the leader, or to the one before.
    pub(super) fn lead(&mut self, cores: &Cores, is_old: bool, input: leader::LeaderInput) {
        let part = match (is_old, &self.old) {
            (true, Some(old)) => old,
            _ => &self.leader,
        };
        let (after, out) = cores.leaders.step(part, input, Leader::handle);
        let term = after.term;
        match is_old {
            true => self.old = Some(after),
            false => self.leader = after,
        }
        if let Some(entry) = &out.committed {
            self.note(|books, machines| books.committed(entry, machines));
        }
        self.send(cores, term, &out);
    }

    /// Something happens to a machine.
    pub(super) fn work(&mut self, cores: &Cores, at: usize, input: machine::MachineInput) {
        let (after, out) = cores
            .machines
            .step(&self.machines[at], input, Machine::handle);
        self.machines[at] = after;
        self.told(at, &out);
    }

    /// Somebody else is elected, who has so many of the entries that the leader wanted.
    pub(super) fn elect(&mut self, cores: &Cores, committed: usize) {
        let mut out = leader::Outcome::default();
        let (next, took) = self.leader.successor(committed, &mut out);
        let mut old = Leader::clone(&self.leader);
        old.depose();
        let term = next.term;
        self.old = Some(Part::new(old));
        self.leader = Part::new(next);
        for entry in took {
            self.note(|books, machines| books.committed(&entry, machines));
        }
        self.send(cores, term, &out);
    }

    /// The steps that an order leads to at once.
    pub(super) fn steps_of(&self, cores: &Cores, at: usize, order: &Part<Order>) -> usize {
        let input = machine::MachineInput::Order(Box::new(Order::clone(order)));
        let (_, out) = cores
            .machines
            .step(&self.machines[at], input, Machine::handle);
        out.steps
    }

    fn send(&mut self, cores: &Cores, term: u64, out: &leader::Outcome) {
        for (node, order) in &out.orders {
            let Some(at) = self.machines.iter().position(|it| it.name == *node) else {
                continue;
            };
            let clears = matches!(order.command, Command::Settle { .. });
            let clears = clears.then(|| order.run.clone());
            let slot = (term, at, order.run.gang.clone(), clears);
            self.orders.insert(slot, Part::new(order.clone()));
        }
        // Who is asked for a report gives it at once; it may be late, or lost.
        for node in &out.asks {
            if let Some(at) = self.machines.iter().position(|it| it.name == *node) {
                self.work(cores, at, machine::MachineInput::Asked(term));
            }
        }
    }

    fn told(&mut self, at: usize, out: &Arc<machine::Outcome>) {
        for (term, tell) in &out.tells {
            let gang = match tell {
                Tell::Answer(answer) => Some(answer.run.gang.clone()),
                Tell::Report(_) => None,
            };
            self.tells
                .insert((at, *term, gang), Part::new(tell.clone()));
        }
        for fact in &out.facts {
            self.note(|books, machines| books.seen(at, fact, machines));
        }
        let checked = check_machine(&self.machines[at]);
        self.expect(checked);
    }

    pub(super) fn note(&mut self, what: impl FnOnce(&mut Books, &[Part<Machine>]) -> Checked) {
        let mut books = Books::clone(&self.books);
        let checked = what(&mut books, &self.machines);
        self.books = Part::new(books);
        self.expect(checked);
    }

    pub(super) fn expect(&mut self, checked: Checked) {
        if let Err(wrong) = checked {
            self.wrong.get_or_insert(wrong);
        }
    }
}
