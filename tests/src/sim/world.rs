//! One cluster in virtual time: nodes of a protocol, the network between them, and what is known
//! of both.

use muster_gossip::mesh::Reach;
use muster_model::time::Time;

use super::engine::{ProtocolStep, SimEngine};
use super::marks::{Fit, Marks, News};
use super::network::Weather;
use super::progress::RunProgress;
use super::protocol::{Arrival, Edit, Effects, Protocol, ProtocolEvent};
use super::random::Random;
use super::views::Views;

/// Something the script does again and again; says when next, or never.
pub(crate) type Chore<P> = Box<dyn FnMut(&mut World<P>) -> Option<Time>>;

/// One cluster in virtual time.
pub(crate) struct World<P: Protocol> {
    pub(crate) engine: SimEngine<P::Frame>,
    pub(crate) protocol: P,
    pub(crate) views: Views,
    pub(crate) marks: Marks,
    pub(crate) random: Random,
    pub(crate) life: Lives,
    /// Steps done, as a measure of work.
    pub(crate) steps: u64,
    progress: RunProgress,
    chores: Vec<Option<Chore<P>>>,
    effects: Effects<P::Frame>,
    changes: u64,
}

/// When nodes ran.
#[derive(Debug)]
pub(crate) struct Lives {
    /// Since when a node's process runs.
    started: Vec<Option<Time>>,
    /// Its last pause.
    paused: Vec<(Time, Time)>,
    /// Whether it can be reached, as far as the script has cut it off.
    pub(crate) cut_off: Vec<bool>,
}

impl Fit for Lives {
    fn fit(&self, node: usize, from: Time, to: Time) -> bool {
        let ran = self.started[node].is_some_and(|since| since <= from);
        let (still, again) = self.paused[node];
        ran && !self.cut_off[node] && (again <= from || still > to)
    }
}

impl<P: Protocol> World<P> {
    /// A cluster whose nodes are all down.
    pub(crate) fn new(protocol: P, nodes: usize, seed: u64, weather: Weather) -> Self {
        Self {
            engine: SimEngine::new(nodes, seed, weather),
            protocol,
            views: Views::new(nodes),
            marks: Marks::new(nodes),
            random: Random::new(seed, 3),
            life: Lives {
                started: vec![None; nodes],
                paused: vec![(Time(0), Time(0)); nodes],
                cut_off: vec![false; nodes],
            },
            steps: 0,
            progress: RunProgress::new(),
            chores: Vec::new(),
            effects: Effects::default(),
            changes: 0,
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.engine.now
    }

    pub(crate) fn nodes(&self) -> usize {
        self.engine.nodes()
    }

    /// Lets time pass.
    pub(crate) fn run_for(&mut self, ms: u64) {
        self.run_until(self.now().plus_millis(ms));
    }

    /// Lets time pass until then.
    pub(crate) fn run_until(&mut self, until: Time) {
        while let Some(step) = self.engine.next(until) {
            self.steps += 1;
            self.step(step);
            self.progress.tell(self.steps, self.now());
        }
    }

    /// Lets time pass until `done` holds, looked at every `step_ms`; whether it did within
    /// `limit_ms`, and after how long, ms.
    pub(crate) fn run_while(
        &mut self,
        limit_ms: u64,
        step_ms: u64,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Option<u64> {
        let start = self.now();
        let mut passed = 0;
        while passed <= limit_ms {
            if done(self) {
                return Some(self.now().micros_since(start) / 1_000);
            }
            self.run_for(step_ms);
            passed += step_ms;
        }
        None
    }

    /// Does `chore` at that time, and again whenever it says.
    pub(crate) fn add_chore(&mut self, first: Time, chore: Chore<P>) {
        let index = u32::try_from(self.chores.len()).unwrap_or(u32::MAX);
        self.chores.push(Some(chore));
        self.engine.schedule(first, index);
    }

    /// Ends all chores.
    pub(crate) fn end_chores(&mut self) {
        self.chores.iter_mut().for_each(|chore| *chore = None);
    }

    /// Starts a node's process.
    pub(crate) fn start(&mut self, node: usize) {
        let now = self.now();
        self.engine.start(node);
        self.life.started[node] = Some(now);
        self.life.paused[node] = (Time(0), Time(0));
        self.act(node, |protocol, now, out| protocol.start(now, node, out));
        self.views.start(node, now);
        for subject in 0..self.nodes() {
            let reach = self.protocol.reach(node, subject);
            if reach != self.views.reach(node, subject) {
                self.views.learn(now, node, subject, reach);
            }
        }
    }

    /// Starts all that are down.
    pub(crate) fn start_all(&mut self) {
        for node in 0..self.nodes() {
            if !self.engine.up(node) {
                self.start(node);
            }
        }
    }

    /// Ends a node's process without a word.
    pub(crate) fn crash(&mut self, node: usize) {
        self.engine.stop(node);
        self.life.started[node] = None;
        self.protocol.stop(node);
        self.views.stop(node);
    }

    /// A node stands still for a while.
    pub(crate) fn pause(&mut self, node: usize, us: u64) {
        let until = Time(self.now().0 + us);
        if self.engine.up(node) && !self.engine.paused(node) {
            self.life.paused[node] = (self.now(), until);
            self.engine.pause(node, until);
        }
    }

    /// A node gets hardly any time to run from now on, until chores end.
    pub(crate) fn starve(&mut self, node: usize)
    where
        P: 'static,
    {
        let first = self.now();
        self.add_chore(
            first,
            Box::new(move |world| {
                let still = 500_000 + world.random.below(1_000_000);
                world.pause(node, still);
                let runs = 20_000 + world.random.below(100_000);
                Some(Time(world.now().0 + still + runs))
            }),
        );
    }

    /// The number of the next change.
    pub(crate) const fn next_change(&self) -> u64 {
        self.changes + 1
    }

    /// All who stand still go on.
    pub(crate) fn wake_all(&mut self) {
        for node in 0..self.nodes() {
            self.engine.wake_up(node);
        }
        self.run_for(0);
    }

    /// A node says something new of itself.
    pub(crate) fn change(&mut self, node: usize) {
        let number = self.next_change();
        self.changes = number;
        self.act(node, |protocol, now, out| {
            protocol.change(now, node, number, out)
        });
    }

    /// A document gets a new version; whether the protocol has documents.
    pub(crate) fn edit(&mut self, edit: Edit) -> bool {
        let mut effects = std::mem::take(&mut self.effects);
        let node = self.protocol.edit(self.now(), edit, &mut effects);
        self.effects = effects;
        if let Some(node) = node {
            self.perform(node);
        }
        node.is_some()
    }

    /// One node does something on its own.
    pub(crate) fn act(
        &mut self,
        node: usize,
        does: impl FnOnce(&mut P, Time, &mut Effects<P::Frame>),
    ) {
        let mut effects = std::mem::take(&mut self.effects);
        does(&mut self.protocol, self.engine.now, &mut effects);
        self.effects = effects;
        self.perform(node);
    }

    /// Those who run and do not stand still.
    pub(crate) fn awake(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes()).filter(|&node| self.engine.up(node) && !self.engine.paused(node))
    }

    /// Whether all who are awake, and not cut off, know the same.
    pub(crate) fn identical(&self) -> bool {
        let mut seen = None;
        self.awake()
            .filter(|&node| !self.life.cut_off[node])
            .all(|node| {
                let view = (self.protocol.root(node), self.views.digest(node));
                *seen.get_or_insert(view) == view
            })
    }

    /// Whether all who are awake think this of `subject`.
    pub(crate) fn all_think(&self, subject: usize, reach: Reach) -> bool {
        let others = self
            .awake()
            .filter(|&node| node != subject && !self.life.cut_off[node]);
        others
            .into_iter()
            .all(|node| self.views.reach(node, subject) == reach)
    }

    fn step(&mut self, step: ProtocolStep<P::Frame>) {
        match step {
            ProtocolStep::Frame {
                to,
                from,
                frame,
                corrupt,
            } => {
                let arrival = Arrival {
                    to,
                    from,
                    frame,
                    corrupt,
                };
                self.act(to, |protocol, now, out| protocol.receive(now, arrival, out));
            }
            ProtocolStep::Wake(node) => self.wake(node),
            ProtocolStep::Chore(index) => self.chore(index),
        }
    }

    fn wake(&mut self, node: usize) {
        let due = self.protocol.deadline(node);
        if due.is_some_and(|due| due <= self.engine.now) {
            self.act(node, |protocol, now, out| protocol.wake(now, node, out));
        } else {
            self.engine.arm(node, due);
        }
    }

    fn chore(&mut self, index: u32) {
        let place = usize::try_from(index).unwrap_or(usize::MAX);
        let Some(mut chore) = self.chores.get_mut(place).and_then(Option::take) else {
            return;
        };
        if let Some(next) = chore(self) {
            self.chores[place] = Some(chore);
            self.engine.schedule(next, index);
        }
    }

    fn perform(&mut self, node: usize) {
        let mut effects = std::mem::take(&mut self.effects);
        for sending in effects.sends.drain(..) {
            self.engine.send(node, sending);
        }
        for seen in effects.seen.drain(..) {
            self.note(node, seen);
        }
        self.effects = effects;
        self.engine.arm(node, self.protocol.deadline(node));
    }

    fn note(&mut self, node: usize, seen: ProtocolEvent) {
        let now = self.engine.now;
        match seen {
            ProtocolEvent::Reach { subject, reach } => {
                self.views.learn(now, node, subject, reach);
                for news in News::of_reach(reach) {
                    self.marks.note(now, node, news(subject));
                }
            }
            ProtocolEvent::Change { subject, number } => {
                self.marks.note(now, node, News::Change(subject, number));
            }
            ProtocolEvent::Document { version } => {
                self.marks.note(now, node, News::Document(version))
            }
        }
    }
}
