//! Does to the nodes what a schedule says, and undoes it.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::runtime::Handle;

use super::{Fault, HarmKind, Strike};
use crate::net::{Faults, Lan};

/// How long a dead agent is tried to be started again at the end.
const REVIVAL: Duration = Duration::from_secs(90);
/// After so long something that could not be undone is tried again.
const AGAIN: Duration = Duration::from_secs(3);
/// How long who leads is asked of one node.
const ASK: Duration = Duration::from_secs(1);

/// A fault that lasts.
struct LastingFault {
    until: Instant,
    kind: HarmKind,
    fault: Fault,
}

/// The nodes, and what is wrong with them.
pub(in crate::nemesis) struct Harm<'a> {
    lan: &'a mut Lan,
    standing: Vec<LastingFault>,
    counts: BTreeMap<&'static str, u64>,
    start: Instant,
    over: Receiver<()>,
}

impl<'a> Harm<'a> {
    /// Nothing more is done when the other end of `over` is dropped.
    pub(in crate::nemesis) fn new(lan: &'a mut Lan, over: Receiver<()>) -> Self {
        Self {
            lan,
            over,
            standing: Vec::new(),
            counts: BTreeMap::new(),
            start: Instant::now(),
        }
    }

    /// Does all of a schedule, each at its time, and gives how many faults of each kind there were.
    /// Called on a thread that may wait.
    pub(in crate::nemesis) fn run(mut self, strikes: &[Strike]) -> BTreeMap<&'static str, u64> {
        let mut strikes = strikes.iter().peekable();
        loop {
            let next = strikes.peek().map(|strike| self.start + strike.at);
            let ends = self.standing.iter().map(|it| it.until).min();
            let Some(due) = next.into_iter().chain(ends).min() else {
                return self.counts;
            };
            let pause = due.saturating_duration_since(Instant::now());
            if self.over.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                return self.counts;
            }
            if ends.is_some_and(|end| end <= due) {
                self.end_those_due(strikes.peek().is_some());
            } else if let Some(strike) = strikes.next() {
                self.begin(strike);
            }
        }
    }

    fn begin(&mut self, strike: &Strike) {
        let fault = match strike.fault {
            Fault::CutLeader => self.leader().map_or(Fault::CutLeader, Fault::CutNode),
            ref fault => fault.clone(),
        };
        self.say(&format!("{fault:?} for {:?}", strike.lasts));
        let standing = LastingFault {
            until: self.start + strike.at + strike.lasts,
            kind: strike.kind,
            fault,
        };
        match self.strike(&standing.fault) {
            Ok(()) => {
                *self.counts.entry(standing.kind.name()).or_default() += 1;
                self.standing.push(standing);
                self.show_network();
            }
            Err(error) => self.say(&format!("{:?} was not done: {error:#}", standing.fault)),
        }
    }

    /// What cannot be undone is tried again later, if there is more to come: an agent does not start
    /// on a full disk.
    fn end_those_due(&mut self, more: bool) {
        let now = Instant::now();
        let (ended, standing): (Vec<_>, Vec<_>) =
            self.standing.drain(..).partition(|it| it.until <= now);
        self.standing = standing;
        self.show_network();
        for mut standing in ended {
            let fault = &standing.fault;
            match self.undo(fault) {
                Ok(()) => self.say(&format!("{fault:?} is over")),
                Err(error) => {
                    self.say(&format!("{fault:?} is not undone: {error:#}"));
                    standing.until = Instant::now() + AGAIN;
                    self.standing.extend(more.then_some(standing));
                }
            }
        }
    }

    /// What is not of the network.
    fn strike(&mut self, fault: &Fault) -> Result<()> {
        match fault {
            Fault::Kill(node) => self.lan.node_mut(*node).kill(),
            Fault::Pause(node) => self.lan.node(*node).pause(),
            Fault::FullDisk(node) => self.lan.node(*node).disk()?.fill(),
            Fault::Clock { node, seconds } => self.lan.node(*node).clock()?.shift(*seconds),
            Fault::Delay { node, milliseconds } => self.lan.delay(*node, *milliseconds),
            Fault::CutLeader => anyhow::bail!("nobody leads"),
            Fault::CutNode(_) | Fault::CutOneWay { .. } | Fault::Halves(_) | Fault::Loss { .. } => {
                Ok(())
            }
        }
    }

    fn undo(&mut self, fault: &Fault) -> Result<()> {
        match fault {
            Fault::Kill(node) => self.lan.node_mut(*node).start(),
            Fault::Pause(node) => self.lan.node(*node).resume(),
            Fault::FullDisk(node) => self.lan.node(*node).disk()?.free(),
            Fault::Clock { node, .. } => self.lan.node(*node).clock()?.shift(0),
            Fault::Delay { node, .. } => self.lan.delay(*node, 0),
            Fault::CutLeader
            | Fault::CutNode(_)
            | Fault::CutOneWay { .. }
            | Fault::Halves(_)
            | Fault::Loss { .. } => Ok(()),
        }
    }

    /// Makes the network as wrong as the faults that last make it.
    fn show_network(&mut self) {
        let nodes = self.lan.nodes().len();
        let faults = self.standing.iter().map(|it| &it.fault);
        if let Err(error) = self.lan.impose(network(faults, nodes)) {
            self.say(&format!("the network is not as it should be: {error:#}"));
        }
    }

    /// The number of the node that leads the jobs, as the first one says that knows.
    fn leader(&self) -> Option<usize> {
        let runtime = Handle::try_current().ok()?;
        let nodes = self.lan.nodes();
        let named = nodes.iter().find_map(|node| {
            let visitor = node.visitor();
            let look = async { tokio::time::timeout(ASK, visitor.get("/status.json")).await };
            let status = runtime.block_on(look).ok()?.ok()?;
            Some(
                status["mesh"]["vcs"]["default"]["leader"]
                    .as_str()?
                    .to_owned(),
            )
        })?;
        let leader = nodes.iter().find(|node| node.name() == named)?;
        Some(leader.number())
    }

    fn say(&self, what: &str) {
        eprintln!("{:7.1} s  {what}", self.start.elapsed().as_secs_f64());
    }
}

/// What the network does wrong by all these faults.
fn network<'f>(standing: impl Iterator<Item = &'f Fault>, nodes: usize) -> Faults {
    let mut faults = Faults::default();
    for fault in standing {
        match fault {
            Fault::CutNode(node) => faults.cut_node(*node),
            Fault::CutOneWay { from, to } => faults.cut(*from, *to),
            Fault::Loss { node, percent } => faults.lose(*node, *percent),
            Fault::Halves(half) => {
                for one in half {
                    for other in (1..=nodes).filter(|other| !half.contains(other)) {
                        faults.cut(*one, other);
                        faults.cut(other, *one);
                    }
                }
            }
            Fault::Kill(_)
            | Fault::Pause(_)
            | Fault::CutLeader
            | Fault::Delay { .. }
            | Fault::FullDisk(_)
            | Fault::Clock { .. } => {}
        }
    }
    faults
}

/// Undoes everything that can be wrong with nodes, and gives what could not be undone.
pub(in crate::nemesis) fn heal(lan: &mut Lan) -> Vec<String> {
    let mut trouble = Vec::new();
    let mut note = |done: Result<()>| trouble.extend(done.err().map(|error| format!("{error:#}")));
    note(lan.heal());
    for node in lan.nodes() {
        note(node.disk().map_or(Ok(()), |disk| disk.free()));
        note(node.clock().map_or(Ok(()), |clock| clock.shift(0)));
        // It does no harm to those that run.
        note(if node.runs() { node.resume() } else { Ok(()) });
    }
    let until = Instant::now() + REVIVAL;
    loop {
        let started = lan.start();
        if started.is_ok() || Instant::now() > until {
            note(started.context("an agent does not start any more"));
            return trouble;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_the_network_add_up() {
        let faults = [Fault::Halves(vec![1, 2]), Fault::CutNode(3), Fault::Kill(4)];
        let drops = network(faults.iter(), 3).rules().matches("drop").count();
        // Two of the left and one of the right, both ways; and the one alone, in and out.
        assert_eq!(drops, 2 * 2 + 2);
    }
}
