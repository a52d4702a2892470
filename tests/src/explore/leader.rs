//! A leader: its coordinator, the state that it has applied, and what it wants committed.

use std::collections::{BTreeSet, VecDeque};

use muster_control::coordinator::{
    Coordinator, CoordinatorInput, CoordinatorOptions, CoordinatorOutput, LeaderPolicy,
};
use muster_control::fence::Term;
use muster_control::order::{Order, Tell};
use muster_control::vc::{VcEntry, VcState};
use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::NodeId;
use muster_model::time::Time;

use super::mail::SentTell;
use super::part::Part;
use super::{bug, machine};

/// Waits are short beside each other, so that few ticks reach the end of each.
fn policy() -> LeaderPolicy {
    LeaderPolicy {
        reserve_ttl_ms: 1_000,
        round_timeout_ms: 1_500,
        resend_ms: 1_000,
        resend_max_ms: 1_000,
        barrier_ms: 2_500,
        launch_ms: 2_500,
        stop_grace_ms: 100,
        report_ms: 4_000,
        disk_mb: 0,
        ..LeaderPolicy::default()
    }
}

/// The name of the only virtual cluster.
pub(super) const VC: &str = "default";

#[derive(Clone, Debug)]
pub(super) struct Leader {
    /// Its term, which names it too.
    pub(super) term: u64,
    coordinator: Coordinator,
    pub(super) state: VcState,
    /// Entries that were committed.
    index: u64,
    /// What it wants committed, in this order.
    pub(super) wants: VecDeque<VcEntry>,
    /// Machines that have not reported to it. They are asked until they do.
    unheard: BTreeSet<NodeId>,
    now: Time,
}

/// What happens to a leader.
#[derive(Debug, Hash)]
pub(super) enum LeaderInput {
    /// The first of what it wants is committed.
    Commit,
    /// Somebody else's entry is.
    Entry(Part<VcEntry>),
    /// A node tells it something.
    Told(Part<SentTell>),
    /// What it waits for is due.
    Tick,
    /// It hears that this machine cannot be reached, or that all can.
    Cut(Option<usize>),
    /// Nothing that it wants is committed any more, and it does not know.
    Deposed,
    /// It is whoever leads in the next term. Of what the one before wanted, so many entries had come to a
    /// majority.
    Succeeded(usize),
}

/// What comes out of one.
#[derive(Debug, Default)]
pub(super) struct LeaderOutcome {
    pub(super) orders: Vec<(NodeId, Order)>,
    /// Nodes that it asks for a report.
    pub(super) asks: Vec<NodeId>,
    /// What was committed and took.
    pub(super) committed: Vec<VcEntry>,
}

impl Leader {
    /// The first one, of an empty log.
    pub(super) fn first(out: &mut LeaderOutcome) -> Self {
        Self::elected(1, VcState::default(), 0, Time::from_millis(1_000_000), out)
    }

    fn succeed(&mut self, committed: usize, out: &mut LeaderOutcome) {
        let (mut state, mut index) = (self.state.clone(), self.index);
        for entry in self.wants.drain(..committed) {
            index += 1;
            if state.apply(index, &entry).is_ok() {
                out.committed.push(entry);
            }
        }
        *self = Self::elected(self.term + 1, state, index, self.now, out);
    }

    fn elected(term: u64, state: VcState, index: u64, now: Time, out: &mut LeaderOutcome) -> Self {
        let options = CoordinatorOptions {
            vc: VC.parse().unwrap_or_else(bug),
            generation: 1,
            seed: 1,
            policy: policy(),
        };
        let mut leader = Self {
            term,
            coordinator: Coordinator::new(options),
            state,
            index,
            wants: VecDeque::new(),
            unheard: machine::names().collect(),
            now,
        };
        // In this order, as the group host of a group does.
        leader.feed(CoordinatorInput::Elected { term: Term(term) }, out);
        leader.feed(
            CoordinatorInput::Described(Some(Box::new(ClusterSpec::default()))),
            out,
        );
        leader.feed(CoordinatorInput::Leases(false), out);
        leader.feed(CoordinatorInput::BoundByCluster(false), out);
        out.asks.extend(leader.unheard.iter().cloned());
        leader
    }

    pub(super) fn handle(&mut self, input: LeaderInput) -> LeaderOutcome {
        let mut out = LeaderOutcome::default();
        match input {
            LeaderInput::Commit => {
                if let Some(entry) = self.wants.pop_front() {
                    self.commit(entry, &mut out);
                }
            }
            LeaderInput::Entry(entry) => self.commit(VcEntry::clone(&entry), &mut out),
            LeaderInput::Told(told) => {
                let (node, tell) = (machine::name(told.at), told.tell.clone());
                if matches!(tell, Tell::Report(_)) {
                    self.unheard.remove(&node);
                }
                self.feed(CoordinatorInput::Tell { node, tell }, &mut out);
            }
            LeaderInput::Tick => {
                let due = self.coordinator.deadline();
                self.now = due.unwrap_or(self.now).max(self.now);
                self.feed(CoordinatorInput::Tick, &mut out);
                out.asks.extend(self.unheard.iter().cloned());
            }
            LeaderInput::Cut(at) => {
                let away = at.map(machine::name).into_iter().collect();
                self.feed(CoordinatorInput::Unreachable(away), &mut out);
            }
            LeaderInput::Deposed => self.wants.clear(),
            LeaderInput::Succeeded(committed) => self.succeed(committed, &mut out),
        }
        out
    }

    /// Whether it waits for anything.
    pub(super) fn waits(&self) -> bool {
        self.coordinator.deadline().is_some() || !self.unheard.is_empty()
    }

    fn commit(&mut self, entry: VcEntry, out: &mut LeaderOutcome) {
        self.index += 1;
        let applied = self.state.apply(self.index, &entry);
        out.committed.extend(applied.is_ok().then_some(entry));
        self.feed(CoordinatorInput::Applied(applied), out);
    }

    fn feed(&mut self, input: CoordinatorInput, out: &mut LeaderOutcome) {
        let mut outputs = Vec::new();
        let now = self.now.into();
        self.coordinator
            .handle(now, &self.state, input, &mut outputs);
        for output in outputs {
            match output {
                CoordinatorOutput::Propose(entry) => self.wants.push_back(*entry),
                CoordinatorOutput::Send { node, order } => out.orders.push((node, *order)),
                CoordinatorOutput::AskReport { node } => out.asks.push(node),
                CoordinatorOutput::Bind { .. } => {}
            }
        }
    }
}
