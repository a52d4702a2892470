//! The loop of this node: the ledger decides what is granted, the executor carries it out.
//!
//! Outputs are performed in the ledger's order. When the disk refuses a write, everything after
//! it waits and is tried again: nothing is answered and nothing started that is not on disk.

use std::collections::VecDeque;
use std::time::Duration;

use muster_consensus as consensus;
use muster_control::fence::{StartId, Term};
use muster_control::ledger::{ExecutorStep, Ledger, LedgerOutput, Membership, Observation};
pub(crate) use muster_control::node::UnschedulableReason;
use muster_control::node::{NodeCore, NodeInput, NodeOutputs, VcLeader};
use muster_control::order::Order;
use muster_exec::port;
use muster_model::id::{AttemptUid, NodeId, VcName};
use muster_model::node::{Capacity, Free, NodeTask};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::sleep_until;
use crate::causes::causes;
use crate::clock;
use crate::executor::Executor;
use crate::groups::Groups;
use crate::ledger_store::LedgerStore;
use crate::vc::VcHandle;
use leases::Renewals;

mod leases;

/// Messages that may wait. An order beyond it is dropped and sent again by its leader.
const QUEUE_MAX: usize = 8192;
/// Pause before a refused write is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum NodeMessage {
    Input(Box<NodeInput>),
    /// Among other leaders from now on.
    Moved(oneshot::Sender<()>),
    Read(oneshot::Sender<LedgerView>),
}

/// What the ledger holds, for people.
#[derive(Clone, Debug)]
pub(crate) struct LedgerView {
    /// What the node has.
    pub(crate) capacity: Capacity,
    /// What is free of it.
    pub(crate) free: Free,
    /// What is granted.
    pub(crate) tasks: Vec<NodeTask>,
}

/// What others hold of the loop.
#[derive(Clone, Debug)]
pub(crate) struct NodeHandle {
    queue: mpsc::Sender<NodeMessage>,
    problem: watch::Receiver<Option<String>>,
    changes: watch::Receiver<()>,
}

impl NodeHandle {
    /// Passes on a leader's order. Dropped when too much waits: the leader sends it again.
    pub(crate) fn order(&self, from: consensus::NodeId, order: Order) {
        let order = Box::new(order);
        self.send(NodeInput::Order { from, order });
    }

    /// A leader asks for a report. Dropped when too much waits: it asks again.
    pub(crate) fn asked(&self, from: consensus::NodeId, vc: VcName, generation: u32, term: Term) {
        let leader = VcLeader {
            reign: (generation, term),
            node: from,
        };
        self.send(NodeInput::Asked { vc, leader });
    }

    /// Tells the ledger the present term of a virtual cluster, by the word of its group given
    /// after this agent started, and reports to its leader.
    pub(crate) async fn learned(
        &self,
        vc: VcName,
        (generation, term): (u32, Term),
        from: consensus::NodeId,
    ) {
        let leader = VcLeader {
            reign: (generation, term),
            node: from,
        };
        self.say(NodeInput::Learned { vc, leader }).await;
    }

    /// The node is in another cluster from now on, or in none. Returns when no order of before is
    /// admitted any more.
    pub(crate) async fn moved(&self) {
        let (reply, done) = oneshot::channel();
        // The loop ends only with the agent.
        let _ = self.queue.send(NodeMessage::Moved(reply)).await;
        let _ = done.await;
    }

    /// Tells the ledger as which member it takes orders from now on.
    pub(crate) async fn serves(&self, membership: Membership) {
        self.say(NodeInput::Serves(membership)).await;
    }

    /// Tells the ledger why it is to take no new tasks, by the word of this one; none: it has no
    /// reason.
    pub(crate) async fn closed(&self, by: UnschedulableReason, why: Option<String>) {
        self.say(NodeInput::Closed(by, why)).await;
    }

    /// Tells the ledger the hardware as it is now.
    pub(crate) fn capacity(&self, capacity: Capacity) {
        self.send(NodeInput::Capacity(capacity));
    }

    /// Tells the ledger which containers an earlier life of the agent has left.
    pub(crate) async fn found(&self, containers: Vec<AttemptUid>) {
        self.say(NodeInput::Found(containers)).await;
    }

    /// Tells the ledger what a task did. Waits for room: the executor says it only once.
    pub(crate) async fn observed(&self, uid: AttemptUid, what: Observation) {
        // The next life observes anew.
        self.say(NodeInput::Observed { uid, what }).await;
    }

    /// What the ledger holds; `None` when the agent is ending.
    pub(crate) async fn view(&self) -> Option<LedgerView> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(NodeMessage::Read(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Tells when what is granted has changed, and is on disk.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.clone()
    }

    /// Why nothing can be granted now, if so.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }

    /// Waits for room.
    async fn say(&self, input: NodeInput) {
        // The loop ends only with the agent.
        let _ = self.queue.send(NodeMessage::Input(Box::new(input))).await;
    }

    fn send(&self, input: NodeInput) {
        if self
            .queue
            .try_send(NodeMessage::Input(Box::new(input)))
            .is_err()
        {
            tracing::warn!("an order was dropped: the node's queue is full");
        }
    }
}

/// The loop itself.
#[derive(Debug)]
pub(crate) struct NodeLoop {
    id: NodeId,
    node: NodeCore,
    store: LedgerStore,
    executor: Executor,
    groups: Groups,
    queue: mpsc::Receiver<NodeMessage>,
    problem: watch::Sender<Option<String>>,
    changes: watch::Sender<()>,
    /// The way to who renews run leases.
    vc: VcHandle,
    renewals: Renewals,
    outputs: VecDeque<LedgerOutput>,
    retry_at: Option<Instant>,
    /// Those who wait until all of that is done.
    moving: Vec<oneshot::Sender<()>>,
}

/// Where messages for a loop that is not made yet wait.
#[derive(Debug)]
pub(crate) struct NodeQueue {
    queue: mpsc::Receiver<NodeMessage>,
    problem: watch::Sender<Option<String>>,
    changes: watch::Sender<()>,
}

/// The handle first: the executor needs it before the loop can be made.
pub(crate) fn queue() -> (NodeHandle, NodeQueue) {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    let (problem_sender, problem) = watch::channel(None);
    let (changes_sender, changes) = watch::channel(());
    let handle = NodeHandle {
        queue: sender,
        problem,
        changes,
    };
    let queue = NodeQueue {
        queue: receiver,
        problem: problem_sender,
        changes: changes_sender,
    };
    (handle, queue)
}

impl NodeLoop {
    /// A loop over a node whose ledger was recovered.
    pub(crate) fn new(
        id: NodeId,
        (ledger, store): (Ledger, LedgerStore),
        executor: Executor,
        (groups, vc): (Groups, VcHandle),
        queue: NodeQueue,
    ) -> Self {
        Self {
            id,
            node: NodeCore::new(clock::since_boot(), ledger),
            store,
            executor,
            groups,
            queue: queue.queue,
            problem: queue.problem,
            changes: queue.changes,
            vc,
            renewals: Renewals::new(),
            outputs: VecDeque::new(),
            retry_at: None,
            moving: Vec::new(),
        }
    }

    /// Runs until every handle is gone.
    pub(crate) async fn run(mut self) {
        self.feed(NodeInput::Started);
        self.executor.look_around();
        loop {
            let deadline = self.deadline();
            tokio::select! {
                message = self.queue.recv() => match message {
                    Some(NodeMessage::Input(input)) => self.take(*input),
                    Some(NodeMessage::Moved(reply)) => {
                        self.moving.push(reply);
                        self.feed(NodeInput::Moved { start: StartId(rand::random()) });
                    }
                    Some(NodeMessage::Read(reply)) => self.answer(reply),
                    None => return,
                },
                Some((request, granted)) = self.renewals.next() => {
                    self.feed(NodeInput::Renewed { request, granted });
                }
                () = sleep_until(deadline) => self.feed(NodeInput::Tick),
            }
        }
    }

    /// While the disk refuses writes, what its sender repeats is not taken: its outputs would only
    /// pile up.
    fn take(&mut self, input: NodeInput) {
        match input {
            NodeInput::Order { .. } | NodeInput::Asked { .. } if self.retry_at.is_some() => {
                self.node.heard_of(&input);
            }
            input => self.feed(input),
        }
    }

    fn feed(&mut self, input: NodeInput) {
        let mut outputs = NodeOutputs::default();
        self.node
            .handle(clock::since_boot(), input, &port::is_free, &mut outputs);
        self.outputs.extend(outputs.ledger);
        self.perform();
        self.see_to_leases(outputs.leases);
    }

    fn answer(&self, reply: oneshot::Sender<LedgerView>) {
        let ledger = self.node.ledger();
        // A reader that went away needs no answer.
        let _ = reply.send(LedgerView {
            capacity: ledger.capacity().clone(),
            free: ledger.free().free,
            tasks: ledger.tasks(),
        });
    }

    /// Performs what waits, in order, up to a write that the disk refuses.
    fn perform(&mut self) {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.retry_at = None;
        while let Some(output) = self.outputs.pop_front() {
            match output {
                LedgerOutput::Persist(changes) => {
                    let written = tokio::task::block_in_place(|| self.store.write(&changes));
                    if let Err(error) = written {
                        let text = causes(&error);
                        tracing::error!(error = text, "the node ledger cannot be written");
                        self.problem.send_replace(Some(text));
                        self.retry_at = Some(Instant::now() + RETRY_PAUSE);
                        self.outputs.push_front(LedgerOutput::Persist(changes));
                        return;
                    }
                    self.problem
                        .send_if_modified(|problem| problem.take().is_some());
                    self.changes.send_replace(());
                }
                LedgerOutput::Tell(tell) => {
                    for (to, vc) in self.node.addressees(&tell) {
                        let tell = Box::new(tell.clone());
                        self.groups.tell(to, vc, self.id.clone(), tell);
                    }
                }
                LedgerOutput::TellOne(vc, tell) => {
                    if let Some(to) = self.node.leader(&vc) {
                        self.groups.tell(to, vc, self.id.clone(), Box::new(tell));
                    }
                }
                // A disk that refused for long may have outlasted the task's lease.
                LedgerOutput::Step(step) if !self.node.ledger().is_due(&step) => {}
                LedgerOutput::Step(ExecutorStep::Create(spec)) => {
                    let ends = self.node.ends(&spec.placement.uid);
                    self.executor.create(*spec, ends.map(leases::since_boot));
                }
                LedgerOutput::Step(step) => self.executor.perform(step),
            }
        }
        for reply in self.moving.drain(..) {
            // Who went away needs no answer.
            let _ = reply.send(());
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let node = self.node.deadline().map(leases::instant);
        node.into_iter().chain(self.retry_at).min()
    }
}
