//! A state of the exploration: leaders, machines, and what is on its way between them.

use std::sync::Arc;

use muster_control::vc::VcEntry;

use super::books::{self, Books, CheckResult};
use super::leader::{self, Leader, LeaderInput};
use super::machine::{self, Machine, MachineInput};
use super::mail::{Mail, SentOrder, SentTell};
use super::part::{InternPool, Memo, Part};

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
    /// The leader hears that a machine cannot be reached, whether that is so or not.
    pub(super) cuts: u8,
}

/// There are many millions of them: what is large is shared.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct World {
    pub(super) leader: Part<Leader>,
    /// Who led before, and does not know that it does not any more.
    pub(super) old: Option<Part<Leader>>,
    pub(super) machines: [Part<Machine>; MACHINES],
    pub(super) orders: Mail<SentOrder>,
    pub(super) tells: Mail<SentTell>,
    /// An order that comes once more.
    pub(super) echo: Option<Part<SentOrder>>,
    /// The machine that the leader takes for unreachable.
    pub(super) cut: Option<usize>,
    pub(super) budget: Budget,
    pub(super) books: Part<Books>,
    /// A ledger was lost, and with it what only it knew.
    pub(super) loses_ledgers: bool,
    /// What must not be.
    pub(super) wrong: Option<Box<str>>,
}

/// The cores' steps that were worked out, and what came out of them.
#[derive(Debug, Default)]
pub(super) struct Cores {
    leaders: Memo<Leader, Led>,
    machines: Memo<Machine, Worked>,
    books: Memo<Books, CheckResult>,
    entries: InternPool<VcEntry>,
    orders: InternPool<SentOrder>,
    tells: InternPool<SentTell>,
}

/// What comes out of a leader.
#[derive(Debug)]
struct Led {
    term: u64,
    orders: Vec<Part<SentOrder>>,
    /// Machines that it asks for a report.
    asks: Vec<usize>,
    committed: Vec<Part<VcEntry>>,
}

/// What comes out of a machine.
#[derive(Debug)]
struct Worked {
    tells: Vec<Part<SentTell>>,
    facts: Vec<machine::Fact>,
    steps: usize,
    checked: CheckResult,
}

impl Cores {
    /// How many different leaders and machines there were.
    pub(super) fn parts(&self) -> (usize, usize) {
        (self.leaders.parts(), self.machines.parts())
    }

    /// What comes of an input.
    fn lead(&self, leader: &Part<Leader>, input: LeaderInput) -> (Part<Leader>, Arc<Led>) {
        self.leaders.step(leader, input, |leader, input| {
            let out = leader.handle(input);
            self.led(leader.term, out)
        })
    }

    /// What comes of an input to this machine.
    fn work(
        &self,
        at: usize,
        to: &Part<Machine>,
        input: MachineInput,
    ) -> (Part<Machine>, Arc<Worked>) {
        self.machines.step(to, input, |machine, input| {
            let out = machine.handle(input);
            self.worked(at, machine, out)
        })
    }

    fn led(&self, term: u64, out: leader::LeaderOutcome) -> Led {
        let numbered = |node| machine::names().position(|name| name == node);
        let orders = out.orders.into_iter().filter_map(|(node, order)| {
            let at = numbered(node)?;
            Some(self.orders.part(SentOrder { term, at, order }))
        });
        let committed = out.committed.into_iter();
        Led {
            term,
            orders: orders.collect(),
            asks: out.asks.into_iter().filter_map(numbered).collect(),
            committed: committed.map(|entry| self.entries.part(entry)).collect(),
        }
    }

    fn worked(&self, at: usize, machine: &Machine, out: machine::MachineOutcome) -> Worked {
        let tells = out.tells.into_iter();
        let tells = tells.map(|(term, tell)| self.tells.part(SentTell { at, term, tell }));
        Worked {
            tells: tells.collect(),
            facts: out.facts,
            steps: out.steps,
            checked: books::check_machine(machine),
        }
    }
}

impl World {
    /// A leader of idle machines, which has heard of none of them yet.
    pub(super) fn new(cores: &Cores, budget: Budget) -> Self {
        let mut out = leader::LeaderOutcome::default();
        let leader = Leader::first(&mut out);
        let out = cores.led(leader.term, out);
        let mut world = Self {
            leader: Part::new(leader),
            old: None,
            machines: std::array::from_fn(|at| Part::new(Machine::new(machine::name(at)))),
            orders: Mail::default(),
            tells: Mail::default(),
            echo: None,
            cut: None,
            budget,
            books: Part::new(Books::default()),
            loses_ledgers: false,
            wrong: None,
        };
        world.send(cores, &out);
        world
    }

    /// Something happens to the leader, or to the one before.
    pub(super) fn lead(&mut self, cores: &Cores, is_old: bool, input: LeaderInput) {
        let part = match (is_old, &self.old) {
            (true, Some(old)) => old,
            _ => &self.leader,
        };
        let (after, out) = cores.lead(part, input);
        match is_old {
            true => self.old = Some(after),
            false => self.leader = after,
        }
        self.send(cores, &out);
    }

    /// Something happens to a machine.
    pub(super) fn work(&mut self, cores: &Cores, at: usize, input: MachineInput) {
        let (after, out) = cores.work(at, &self.machines[at], input);
        self.machines[at] = after;
        for tell in &out.tells {
            self.tells.put(tell.clone());
        }
        for fact in &out.facts {
            self.note(cores, books::BooksInput::Seen(at, fact.clone()));
        }
        self.expect(&out.checked);
        self.retire(cores);
    }

    /// Forgets who led before once all machines know of the later term: whatever it still sends is refused,
    /// and it is told of nothing. That nothing comes of what it has sent is looked at. Should an agent die
    /// later, or lose its ledger, it learns of no term before this one.
    fn retire(&mut self, cores: &Cores) {
        let term = self.leader.term;
        if self.old.is_none() || !self.machines.iter().all(|machine| machine.is_past(term)) {
            return;
        }
        let sent = self.orders.all().iter().chain(&self.echo);
        let taken = sent
            .filter(|order| order.term != term)
            .find(|order| !self.is_refused(cores, order));
        if let Some(order) = taken.cloned() {
            let wrong = format!("{:?} of a leader before is not refused", order.order);
            self.expect(&Err(wrong.into()));
        }
        self.old = None;
        self.orders.retain(|order| order.term == term);
        self.tells.retain(|told| told.term == term);
        self.echo.take_if(|order| order.term != term);
    }

    /// Whether nothing at all comes of an order.
    fn is_refused(&self, cores: &Cores, order: &Part<SentOrder>) -> bool {
        let machine = &self.machines[order.at];
        let (after, out) = cores.work(order.at, machine, MachineInput::Order(order.clone()));
        after == *machine && out.tells.is_empty() && out.facts.is_empty()
    }

    /// Somebody else is elected, who has so many of the entries that the leader wanted.
    pub(super) fn elect(&mut self, cores: &Cores, committed: usize) {
        let (old, _) = cores.lead(&self.leader, LeaderInput::Deposed);
        self.old = Some(old);
        // What the one before has heard nobody knows.
        self.cut = None;
        self.lead(cores, false, LeaderInput::Succeeded(committed));
    }

    /// The steps that an order leads to at once.
    pub(super) fn steps_of(&self, cores: &Cores, order: &Part<SentOrder>) -> usize {
        let at = order.at;
        let input = MachineInput::Order(order.clone());
        let (_, out) = cores.work(at, &self.machines[at], input);
        out.steps
    }

    fn send(&mut self, cores: &Cores, out: &Led) {
        for entry in &out.committed {
            self.note(cores, books::BooksInput::Committed(entry.clone()));
        }
        for order in &out.orders {
            self.orders.put(order.clone());
        }
        // Who is asked for a report gives it at once; it may be late, or lost.
        for at in &out.asks {
            self.work(cores, *at, MachineInput::Asked(out.term));
        }
    }

    pub(super) fn note(&mut self, cores: &Cores, what: books::BooksInput) {
        let running = books::RunningTasks::of(&self.machines);
        let (after, checked) = cores.books.step(&self.books, (what, running), Books::note);
        self.books = after;
        self.expect(&checked);
    }

    pub(super) fn expect(&mut self, checked: &CheckResult) {
        if let Err(wrong) = checked {
            self.wrong.get_or_insert_with(|| wrong.clone());
        }
    }
}
