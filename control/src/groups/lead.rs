//! A virtual cluster that may be led here, and its coordinator, which leads the gangs while this
//! copy leads the group.

use std::collections::{BTreeMap, BTreeSet};

use muster_consensus::NodeId;
use muster_model::id::{self, VcName};
use muster_model::time::Time;

use crate::coordinator::{Coordinator, CoordinatorInput, CoordinatorOutput};
use crate::fence::Term;
use crate::lease::{Hearing, SilenceQuestion, SilenceWatch};
use crate::now::Now;
use crate::vc::VcState;

/// Nodes that a new leader has not heard of are asked again after so many milliseconds.
const ASK_PAUSE_MS: u64 = 1_000;

/// A virtual cluster that may be led here.
#[derive(Debug)]
pub struct Lead {
    vc: VcName,
    coordinator: Coordinator,
    term: Option<Term>,
    /// Nodes that reported in this term.
    heard: BTreeSet<NodeId>,
    ask_at: Option<Time>,
    /// Who was heard of in this term, once all before it is known.
    watch: Option<SilenceWatch>,
}

impl Lead {
    /// One that does not lead yet.
    pub const fn new(vc: VcName, coordinator: Coordinator) -> Self {
        Self {
            vc,
            coordinator,
            term: None,
            heard: BTreeSet::new(),
            ask_at: None,
            watch: None,
        }
    }

    /// Which.
    pub const fn vc(&self) -> &VcName {
        &self.vc
    }

    /// The term that it leads in, if it does.
    pub const fn term(&self) -> Option<Term> {
        self.term
    }

    /// The generation of the virtual cluster.
    pub const fn generation(&self) -> u32 {
        self.coordinator.generation()
    }

    /// The coordinator, while it leads.
    pub fn coordinator(&self) -> Option<&Coordinator> {
        self.term.is_some().then_some(&self.coordinator)
    }

    /// This copy leads from now on.
    pub fn elected(&mut self, now: Now, state: &VcState, term: u64) -> Vec<CoordinatorOutput> {
        let term = Term(term);
        self.term = Some(term);
        self.heard.clear();
        self.watch = None;
        self.ask_at = Some(now.steady);
        self.feed(now, state, CoordinatorInput::Elected { term })
    }

    /// Another one leads, or none.
    pub fn deposed(&mut self) {
        self.term = None;
        self.ask_at = None;
        self.watch = None;
    }

    /// Gives the coordinator an input, if it leads.
    pub fn feed(
        &mut self,
        now: Now,
        state: &VcState,
        input: CoordinatorInput,
    ) -> Vec<CoordinatorOutput> {
        let mut outputs = Vec::new();
        if self.term.is_some() {
            self.coordinator.handle(now, state, input, &mut outputs);
        }
        outputs
    }

    /// A node reported.
    pub fn heard_of(&mut self, node: NodeId) {
        self.heard.insert(node);
    }

    /// Everything of the terms before is applied: from now on silence counts.
    pub fn begin_watch(&mut self, now: Time, state: &VcState) {
        self.watch = Some(SilenceWatch::new(now, self.coordinator.nodes_in_use(state)));
    }

    /// Something of the node arrived.
    pub fn heard(&mut self, now: Time, node: &id::NodeId) {
        if let Some(watch) = &mut self.watch {
            watch.heard(now, node);
        }
    }

    /// Whom it has heard in this term.
    pub fn hearing(&self) -> Option<&Hearing> {
        self.watch.as_ref().map(SilenceWatch::hearing)
    }

    /// What the leader of the `cluster` group is to be asked about silent nodes.
    pub fn questions(&mut self, now: Time, state: &VcState) -> Vec<SilenceQuestion> {
        let coordinator = &self.coordinator;
        let Some(watch) = &mut self.watch else {
            return Vec::new();
        };
        watch.questions(now, |node, silence_ms| {
            coordinator.overdue(state, node, silence_ms)
        })
    }

    /// Whether tasks with leases that are over are lost, by the other leader's answer.
    pub fn is_lost(&mut self, now: Time, question: &SilenceQuestion, silent: Option<bool>) -> bool {
        let watch = self.watch.as_mut();
        watch.is_some_and(|watch| watch.answered(now, question, silent))
    }

    /// Whether it is time to look at silent nodes, and to ask whom it has not heard of.
    pub fn is_ask_due(&self, now: Time) -> bool {
        self.ask_at.is_some_and(|at| at <= now)
    }

    /// Nodes that can be reached and are to be asked for a report now: what they told before was
    /// told to another leader, or to none.
    pub fn unheard(&mut self, now: Time, nodes: &BTreeMap<NodeId, bool>) -> Vec<NodeId> {
        if !self.is_ask_due(now) {
            return Vec::new();
        }
        self.ask_at = Some(now.plus_millis(ASK_PAUSE_MS));
        let reachable = nodes.iter().filter(|(_, reachable)| **reachable);
        let missing = reachable.filter(|(node, _)| !self.heard.contains(node));
        missing.map(|(node, _)| *node).collect()
    }

    /// Those that have reported in this term.
    pub(super) const fn reporters(&self) -> &BTreeSet<NodeId> {
        &self.heard
    }

    /// When the coordinator wants [`CoordinatorInput::Tick`].
    pub fn deadline(&self) -> Option<Time> {
        self.coordinator()?.deadline()
    }

    /// When nodes are to be asked again.
    pub const fn ask_at(&self) -> Option<Time> {
        self.ask_at
    }
}
