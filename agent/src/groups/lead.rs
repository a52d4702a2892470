//! A virtual cluster that may be led here, and its coordinator, which leads the gangs while this
//! copy leads the group.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_consensus::NodeId;
use muster_control::coordinator::{Coordinator, Input, Output};
use muster_control::fence::Term;
use muster_control::lease::{Question, Watch};
use muster_control::vc::VcState;
use muster_model::id::{self, VcName};
use muster_model::time::Time;
use tokio::time::Instant;

/// Nodes that a new leader has not heard of are asked again after this.
const ASK_PAUSE: Duration = Duration::from_secs(1);

/// A virtual cluster that may be led here.
#[derive(Debug)]
pub(crate) struct Lead {
    vc: VcName,
    coordinator: Coordinator,
    term: Option<Term>,
    /// Nodes that reported in this term.
    heard: BTreeSet<NodeId>,
    ask_at: Option<Instant>,
    /// Who was heard of in this term, once all before it is known.
    watch: Option<Watch>,
}

impl Lead {
    pub(crate) const fn new(vc: VcName, coordinator: Coordinator) -> Self {
        Self {
            vc,
            coordinator,
            term: None,
            heard: BTreeSet::new(),
            ask_at: None,
            watch: None,
        }
    }

    pub(crate) const fn vc(&self) -> &VcName {
        &self.vc
    }

    /// The term that it leads in, if it does.
    pub(crate) const fn term(&self) -> Option<Term> {
        self.term
    }

    /// The coordinator, while it leads.
    pub(crate) fn coordinator(&self) -> Option<&Coordinator> {
        self.term.is_some().then_some(&self.coordinator)
    }

    /// This copy leads from now on.
    pub(crate) fn elected(&mut self, now: Time, state: &VcState, term: u64) -> Vec<Output> {
        let term = Term(term);
        self.term = Some(term);
        self.heard.clear();
        self.watch = None;
        self.ask_at = Some(Instant::now());
        self.feed(now, state, Input::Elected { term })
    }

    /// Another one leads, or none.
    pub(crate) fn deposed(&mut self) {
        self.term = None;
        self.ask_at = None;
        self.watch = None;
    }

    /// Gives the coordinator an input, if it leads.
    pub(crate) fn feed(&mut self, now: Time, state: &VcState, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        if self.term.is_some() {
            self.coordinator.handle(now, state, input, &mut outputs);
        }
        outputs
    }

    /// A node reported.
    pub(crate) fn heard_of(&mut self, node: NodeId) {
        self.heard.insert(node);
    }

    /// Everything of the terms before is applied: from now on silence counts.
    pub(crate) fn begin_watch(&mut self, now: Time, state: &VcState) {
        self.watch = Some(Watch::new(now, self.coordinator.nodes_in_use(state)));
    }

    /// Something of the node arrived.
    pub(crate) fn heard(&mut self, now: Time, node: &id::NodeId) {
        if let Some(watch) = &mut self.watch {
            watch.heard(now, node);
        }
    }

    /// What the leader of the `cluster` group is to be asked about silent nodes.
    pub(crate) fn questions(&mut self, now: Time, state: &VcState) -> Vec<Question> {
        let coordinator = &self.coordinator;
        let Some(watch) = &mut self.watch else {
            return Vec::new();
        };
        watch.questions(now, |node, silence_ms| {
            coordinator.overdue(state, node, silence_ms)
        })
    }

    /// Whether tasks with leases that are over are lost, by the other leader's answer.
    pub(crate) fn is_lost(&mut self, now: Time, question: &Question, silent: Option<bool>) -> bool {
        let watch = self.watch.as_mut();
        watch.is_some_and(|watch| watch.answered(now, question, silent))
    }

    /// Whether it is time to look at silent nodes, and to ask whom it has not heard of.
    pub(crate) fn is_ask_due(&self, now: Instant) -> bool {
        self.ask_at.is_some_and(|at| at <= now)
    }

    /// Nodes that can be reached and are to be asked for a report now: what they told before was
    /// told to another leader, or to none.
    pub(crate) fn unheard(&mut self, now: Instant, nodes: &BTreeMap<NodeId, bool>) -> Vec<NodeId> {
        if !self.is_ask_due(now) {
            return Vec::new();
        }
        self.ask_at = Some(now + ASK_PAUSE);
        let reachable = nodes.iter().filter(|(_, reachable)| **reachable);
        let missing = reachable.filter(|(node, _)| !self.heard.contains(node));
        missing.map(|(node, _)| *node).collect()
    }

    /// When the coordinator wants [`Input::Tick`].
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.coordinator()?.deadline()
    }

    /// When nodes are to be asked again.
    pub(crate) const fn ask_at(&self) -> Option<Instant> {
        self.ask_at
    }
}
