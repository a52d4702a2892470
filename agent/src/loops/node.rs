//! The loop of this node: the ledger decides what is granted, the executor carries it out.
//!
//! Outputs are performed in the ledger's order. When the disk refuses a write, everything after
//! it waits and is tried again: nothing is answered and nothing started that is not on disk.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use muster_consensus as consensus;
use muster_control::fence::{StartId, Term};
use muster_control::lease::{self, Holder};
use muster_control::ledger::{Input, Ledger, Observation, Output, Step};
use muster_control::order::{Order, Tell};
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
/// Raised only by disaster recovery of a virtual cluster.
pub(crate) const GENERATION: u32 = 1;
/// Pause before a refused write is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Message {
    Input(Box<Input>),
    /// Of a leader.
    Led {
        vc: VcName,
        leader: Leader,
        what: Box<Input>,
    },
    /// Why it takes no new tasks, if so.
    Closed(Closer, Option<String>),
    /// Among other leaders from now on.
    Moved(oneshot::Sender<()>),
    Read(oneshot::Sender<LedgerView>),
}

/// Who has a node take no new tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Closer {
    /// An admin of the cluster.
    Admin,
    /// The state's disk, which has no room.
    Disk,
    /// The node itself, which is about to leave its cluster.
    Leaving,
}

/// Who leads a virtual cluster, as far as was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Leader {
    /// Generation and term.
    reign: (u32, Term),
    /// Its number.
    node: consensus::NodeId,
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
    pub(crate) fn order(&self, from: consensus::NodeId, order: Order) {
        let led = Message::Led {
            vc: order.vc.clone(),
            leader: Leader {
                reign: order.fence.reign(),
                node: from,
            },
            what: Box::new(Input::Order(Box::new(order))),
        };
        self.send(led);
    }

    /// A leader asks for a report. Dropped when too much waits: it asks again.
    pub(crate) fn asked(&self, from: consensus::NodeId, vc: VcName, generation: u32, term: Term) {
        let led = Message::Led {
            vc,
            leader: Leader {
                reign: (generation, term),
                node: from,
            },
            what: Box::new(Input::Report),
        };
        self.send(led);
    }

    /// Tells the ledger the present term of a virtual cluster, by the word of its group given
    /// after this agent started, and reports to its leader.
    pub(crate) async fn learned(
        &self,
        vc: VcName,
        (generation, term): (u32, Term),
        from: consensus::NodeId,
    ) {
        let learned = Input::Learned {
            vc: vc.clone(),
            generation,
            term,
        };
        let leader = Leader {
            reign: (generation, term),
            node: from,
        };
        for what in [learned, Input::Report] {
            let led = Message::Led {
                vc: vc.clone(),
                leader,
                what: Box::new(what),
            };
            // The loop ends only with the agent.
            let _ = self.queue.send(led).await;
        }
    }

    /// The node is in another cluster from now on, or in none. Returns when no order of before is
    /// admitted any more.
    pub(crate) async fn moved(&self) {
        let (reply, done) = oneshot::channel();
        // As above.
        let _ = self.queue.send(Message::Moved(reply)).await;
        let _ = done.await;
    }

    /// Tells the ledger why it is to take no new tasks, by the word of this one; none: it has no
    /// reason.
    pub(crate) async fn closed(&self, by: Closer, why: Option<String>) {
        // The loop ends only with the agent.
        let _ = self.queue.send(Message::Closed(by, why)).await;
    }

    /// Tells the ledger the hardware as it is now.
    pub(crate) fn capacity(&self, capacity: Capacity) {
        self.send(Message::Input(Box::new(Input::Capacity(capacity))));
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

    fn send(&self, message: Message) {
        if self.queue.try_send(message).is_err() {
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
    groups: Groups,
    leaders: BTreeMap<VcName, Leader>,
    /// Why no new tasks are taken, by whose word.
    closed: BTreeMap<Closer, String>,
    queue: mpsc::Receiver<Message>,
    problem: watch::Sender<Option<String>>,
    /// The way to who renews run leases.
    vc: VcHandle,
    leases: Holder,
    lease_outputs: Vec<lease::Output>,
    renewals: Renewals,
    outputs: VecDeque<Output>,
    retry_at: Option<Instant>,
    /// Those who wait until all of that is done.
    moving: Vec<oneshot::Sender<()>>,
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
        (groups, vc): (Groups, VcHandle),
        NodeQueue(queue, problem): NodeQueue,
    ) -> Self {
        let mut leases = Holder::default();
        leases.adopt(clock::since_boot(), ledger.leased());
        Self {
            node,
            ledger,
            store,
            executor,
            groups,
            leaders: BTreeMap::new(),
            closed: BTreeMap::new(),
            queue,
            problem,
            vc,
            leases,
            lease_outputs: Vec::new(),
            renewals: Renewals::new(),
            outputs: VecDeque::new(),
            retry_at: None,
            moving: Vec::new(),
        }
    }

    /// Runs until every handle is gone.
    pub(crate) async fn run(mut self) {
        self.feed(Input::Started);
        self.perform();
        loop {
            let deadline = self.deadline();
            tokio::select! {
                message = self.queue.recv() => match message {
                    Some(Message::Input(input)) => self.feed(*input),
                    Some(Message::Led { vc, leader, what }) => self.led(vc, leader, *what),
                    Some(Message::Closed(by, why)) => self.close(by, why),
                    Some(Message::Moved(reply)) => {
                        self.leaders.clear();
                        self.close(Closer::Admin, None);
                        self.feed(Input::Moved { start: StartId(rand::random()) });
                        self.moving.push(reply);
                    }
                    Some(Message::Read(reply)) => self.answer(reply),
                    None => return,
                },
                Some((request, granted)) = self.renewals.next() => {
                    self.leases.answered(&request, granted, &mut self.lease_outputs);
                }
                () = sleep_until(deadline) => self.feed(Input::Tick),
            }
            self.perform();
            self.see_to_leases();
        }
    }

    /// Takes what a leader wants, and remembers the newest leader. While the disk refuses writes,
    /// what its sender repeats is not taken: its outputs would only pile up.
    fn led(&mut self, vc: VcName, leader: Leader, what: Input) {
        let known = self.leaders.entry(vc).or_insert(leader);
        if known.reign < leader.reign {
            *known = leader;
        }
        match what {
            Input::Order(_) | Input::Report if self.retry_at.is_some() => {}
            what => self.feed(what),
        }
    }

    /// Answers go to whoever gave the order, if it leads still; reports to all who lead.
    fn tell(&self, tell: Tell) {
        match &tell {
            Tell::Answer(answer) => {
                let leader = self.leaders.get(&answer.vc);
                if let Some(leader) = leader.filter(|it| it.reign == answer.fence.reign()) {
                    let (vc, node) = (answer.vc.clone(), self.node.clone());
                    self.groups.tell(leader.node, vc, node, tell);
                }
            }
            Tell::Report(_) => {
                for (vc, leader) in &self.leaders {
                    let (vc, node) = (vc.clone(), self.node.clone());
                    self.groups.tell(leader.node, vc, node, tell.clone());
                }
            }
        }
    }

    fn close(&mut self, by: Closer, why: Option<String>) {
        match why {
            Some(why) => self.closed.insert(by, why),
            None => self.closed.remove(&by),
        };
        let why = self.closed.values().next().cloned();
        self.feed(Input::Closed(why));
    }

    fn feed(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.ledger
            .handle(clock::now(), input, &port::is_free, &mut outputs);
        self.outputs.extend(outputs);
        // Before anything of it is told.
        self.leases
            .follow(clock::since_boot(), self.ledger.leased());
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
                Output::Tell(tell) => self.tell(tell),
                Output::Step(Step::Create(spec)) => {
                    let ends = self.leases.ends(&spec.placement.uid);
                    self.executor.create(*spec, ends.map(leases::since_boot));
                }
                Output::Step(step) => self.executor.perform(step),
            }
        }
        for reply in self.moving.drain(..) {
            // Who went away needs no answer.
            let _ = reply.send(());
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let core = self
            .ledger
            .deadline()
            .map(|at| Instant::now() + Duration::from_micros(at.micros_since(clock::now())));
        let leases = self.leases.deadline().map(leases::instant);
        let times = [core, leases, self.retry_at];
        times.into_iter().flatten().min()
    }
}
