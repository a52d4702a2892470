//! The loop of this node: the ledger decides what is granted, the executor carries it out.
//!
//! Outputs are performed in the ledger's order. When the disk refuses a write, everything after
//! it waits and is tried again: nothing is answered and nothing started that is not on disk.

use std::collections::VecDeque;
use std::time::Duration;

use muster_control::fence::Term;
use muster_control::ledger::{Input, Ledger, Observation, Output};
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
use crate::groups::VcHandle;
use crate::ledger_store::LedgerStore;

/// Messages that may wait. An order beyond it is dropped and sent again by its leader.
const QUEUE_MAX: usize = 8192;
/// Raised only by disaster recovery of a virtual cluster, which one node does not have.
pub(crate) const GENERATION: u32 = 1;
/// Pause before a refused write is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Message {
    Input(Box<Input>),
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
    queue: mpsc::Sender<Message>,
    problem: watch::Receiver<Option<String>>,
}

impl NodeHandle {
    /// Passes on a leader's order. Dropped when too much waits: the leader sends it again.
    pub(crate) fn order(&self, order: Order) {
        self.send(Input::Order(Box::new(order)));
    }

    /// Tells the ledger the present term of a virtual cluster, read from its group. Waits for
    /// room, if it has to, beside its caller: the ledger admits no order before it knows.
    pub(crate) fn learned(&self, vc: VcName, term: Term) {
        let message = Message::Input(Box::new(Input::Learned {
            vc,
            generation: GENERATION,
            term,
        }));
        if let Err(mpsc::error::TrySendError::Full(message)) = self.queue.try_send(message) {
            let queue = self.queue.clone();
            tokio::spawn(async move { queue.send(message).await });
        }
    }

    /// Asks for a report to the leaders.
    pub(crate) fn ask_report(&self) {
        self.send(Input::Report);
    }

    /// Tells the ledger the hardware as it is now.
    pub(crate) fn capacity(&self, capacity: Capacity) {
        self.send(Input::Capacity(capacity));
    }

    /// Tells the ledger what a task did. Waits for room: the executor says it only once.
    pub(crate) async fn observed(&self, uid: AttemptUid, what: Observation) {
        let message = Message::Input(Box::new(Input::Observed { uid, what }));
        // The loop ends only with the agent; the next life observes anew.
        let _ = self.queue.send(message).await;
    }

    /// What the ledger holds; `None` when the agent is ending.
    pub(crate) async fn view(&self) -> Option<LedgerView> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Message::Read(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Why nothing can be granted now, if so.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }

    fn send(&self, input: Input) {
        if self
            .queue
            .try_send(Message::Input(Box::new(input)))
            .is_err()
        {
            tracing::warn!("an order was dropped: the node's queue is full");
        }
    }
}

/// The loop itself.
#[derive(Debug)]
pub(crate) struct NodeLoop {
    node: NodeId,
    ledger: Ledger,
    store: LedgerStore,
    executor: Executor,
    vc: VcHandle,
    queue: mpsc::Receiver<Message>,
    problem: watch::Sender<Option<String>>,
    outputs: VecDeque<Output>,
    retry_at: Option<Instant>,
}

/// Where messages for a loop that is not made yet wait.
#[derive(Debug)]
pub(crate) struct NodeQueue(mpsc::Receiver<Message>, watch::Sender<Option<String>>);

/// The handle first: the executor needs it before the loop can be made.
pub(crate) fn queue() -> (NodeHandle, NodeQueue) {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    let (problem_sender, problem) = watch::channel(None);
    (
        NodeHandle {
            queue: sender,
            problem,
        },
        NodeQueue(receiver, problem_sender),
    )
}

impl NodeLoop {
    /// A loop over a recovered ledger.
    pub(crate) fn new(
        node: NodeId,
        (ledger, store): (Ledger, LedgerStore),
        executor: Executor,
        vc: VcHandle,
        NodeQueue(queue, problem): NodeQueue,
    ) -> Self {
        Self {
            node,
            ledger,
            store,
            executor,
            vc,
            queue,
            problem,
            outputs: VecDeque::new(),
            retry_at: None,
        }
    }

    /// Runs until every handle is gone.
    pub(crate) async fn run(mut self) {
        self.feed(Input::Started);
        self.feed(Input::Report);
        self.perform();
        loop {
            let deadline = self.deadline();
            tokio::select! {
                message = self.queue.recv() => match message {
                    Some(Message::Input(input)) => self.take(*input),
                    Some(Message::Read(reply)) => self.answer(reply),
                    None => return,
                },
                () = sleep_until(deadline) => self.feed(Input::Tick),
            }
            self.perform();
        }
    }

    /// While the disk refuses writes, what its sender repeats is not taken: its outputs would
    /// only pile up.
    fn take(&mut self, input: Input) {
        match input {
            Input::Order(_) | Input::Report if self.retry_at.is_some() => {}
            input => self.feed(input),
        }
    }

    fn feed(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.ledger
            .handle(clock::now(), input, &port::is_free, &mut outputs);
        self.outputs.extend(outputs);
    }

    fn answer(&self, reply: oneshot::Sender<LedgerView>) {
        // A reader that went away needs no answer.
        let _ = reply.send(LedgerView {
            capacity: self.ledger.capacity().clone(),
            free: self.ledger.free().free,
            tasks: self.ledger.tasks(),
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
                Output::Persist(changes) => {
                    let written = tokio::task::block_in_place(|| self.store.write(&changes));
                    if let Err(error) = written {
                        let text = causes(&error);
                        tracing::error!(error = text, "the node ledger cannot be written");
                        self.problem.send_replace(Some(text));
                        self.retry_at = Some(Instant::now() + RETRY_PAUSE);
                        self.outputs.push_front(Output::Persist(changes));
                        return;
                    }
                    self.problem
                        .send_if_modified(|problem| problem.take().is_some());
                }
                Output::Tell(tell) => self.vc.tell(self.node.clone(), tell),
                Output::Step(step) => self.executor.perform(step),
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let core = self
            .ledger
            .deadline()
            .map(|at| Instant::now() + Duration::from_micros(at.micros_since(clock::now())));
        [core, self.retry_at].into_iter().flatten().min()
    }
}
