//! The loop of one virtual cluster: it commits entries, applies them, and leads the gangs.
//!
//! It owns the group and the coordinator. Everything that waits in its queue when it wakes is
//! committed with one sync, so many submissions at once cost little more than one.

use std::time::Duration;

use muster_consensus::Group;
use muster_control::coordinator::{Coordinator, Input, Output};
use muster_control::fence::Term;
use muster_control::order::Tell;
use muster_control::vc::{Applied, Entry, NotFound, VcState};
use muster_model::explanation::Explanation;
use muster_model::id::{JobKey, NodeId, UserName};
use muster_model::job::JobSpec;
use muster_model::state::State;
use muster_model::vc::VcView;
use muster_model::view::{JobDetail, JobSummary};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::node::NodeHandle;
use crate::clock;
use crate::machine::Machine;

/// Messages that may wait. Beyond it a submission is refused and a node's tell dropped, which
/// the protocol heals by asking again.
const QUEUE_MAX: usize = 8192;
/// Messages taken at once: they share a sync.
const BATCH_MAX: usize = 512;
/// Pause before entries are offered to a disk again that refused them.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Why an entry was not committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// The disk refused; nothing was changed.
    #[error("the state cannot be written: {0}")]
    Storage(String),
    /// Too much waits; nothing was changed.
    #[error("the agent is overloaded; try again")]
    Overloaded,
    /// The loop has ended; nothing is known.
    #[error("the agent is shutting down")]
    Ended,
    /// The state refused; nothing was changed.
    #[error(transparent)]
    Rejected(#[from] muster_control::vc::Rejected),
}

enum Message {
    Propose {
        entry: Box<Entry>,
        reply: oneshot::Sender<Result<Applied, Error>>,
    },
    Tell {
        node: NodeId,
        tell: Box<Tell>,
    },
    Read(Box<dyn FnOnce(&View<'_>) + Send>),
}

/// What is committed, and what the leader knows besides.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// The committed state.
    pub(crate) state: &'a VcState,
    coordinator: &'a Coordinator,
}

impl View<'_> {
    /// Every job that `wanted` takes, with why it waits.
    pub(crate) fn summaries(&self, wanted: impl Fn(&JobSummary) -> bool) -> Vec<JobSummary> {
        self.state
            .summaries()
            .filter(wanted)
            .map(|job| self.explained(job))
            .collect()
    }

    /// One job, with why it waits.
    pub(crate) fn summary(&self, key: &JobKey) -> Option<JobSummary> {
        self.state.summary(key).map(|job| self.explained(job))
    }

    /// A job at an attempt, the latest if none is named, with why it waits.
    ///
    /// # Errors
    /// When there is no such job or attempt.
    pub(crate) fn detail(&self, key: &JobKey, attempt: Option<u32>) -> Result<JobDetail, NotFound> {
        let mut detail = self.state.detail(key, attempt)?;
        detail.summary = self.explained(detail.summary);
        Ok(detail)
    }

    /// Why a job waits, in full.
    ///
    /// # Errors
    /// When there is no such job.
    pub(crate) fn explanation(&self, key: &JobKey) -> Result<Explanation, NotFound> {
        self.coordinator.explanation(clock::now(), self.state, key)
    }

    /// Whether the cluster could ever run a job, as far as it is described.
    pub(crate) fn judge(&self, job: &JobSpec, user: &UserName) -> Result<(), String> {
        self.coordinator.judge(job, user)
    }

    /// What is wrong with the cells that jobs are placed on.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.coordinator.problems()
    }

    /// Every virtual cluster, where the administrator describes them.
    pub(crate) fn virtual_clusters(&self) -> Option<Vec<VcView>> {
        self.coordinator.virtual_clusters()
    }

    fn explained(&self, mut job: JobSummary) -> JobSummary {
        if job.state() == State::Waiting {
            job.waiting_for = self.coordinator.waiting_for(self.state, &job.key);
        }
        job
    }
}

/// What others hold of the loop.
#[derive(Clone)]
pub(crate) struct VcHandle {
    queue: mpsc::Sender<Message>,
    applied: watch::Receiver<u64>,
    problem: watch::Receiver<Option<String>>,
}

impl std::fmt::Debug for VcHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VcHandle")
    }
}

impl VcHandle {
    /// Commits an entry. When this returns `Ok`, it is on disk and every read shows it.
    ///
    /// # Errors
    /// When the state refused it, or it could not be written.
    pub(crate) async fn propose(&self, entry: Entry) -> Result<Applied, Error> {
        let (reply, answer) = oneshot::channel();
        let message = Message::Propose {
            entry: Box::new(entry),
            reply,
        };
        self.queue.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Error::Overloaded,
            mpsc::error::TrySendError::Closed(_) => Error::Ended,
        })?;
        answer.await.map_err(|_| Error::Ended)?
    }

    /// Runs `read` on the state as it stands after everything committed so far.
    ///
    /// # Errors
    /// When the loop has ended.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let read = Box::new(move |view: &View<'_>| {
            // A reader that went away needs no answer.
            let _ = reply.send(read(view));
        });
        self.queue
            .send(Message::Read(read))
            .await
            .map_err(|_| Error::Ended)?;
        answer.await.map_err(|_| Error::Ended)
    }

    /// Passes on what a node tells. Dropped when too much waits: the coordinator asks again.
    pub(crate) fn tell(&self, node: NodeId, tell: Tell) {
        if self
            .queue
            .try_send(Message::Tell {
                node,
                tell: Box::new(tell),
            })
            .is_err()
        {
            tracing::warn!("a node's report was dropped: the queue is full");
        }
    }

    /// Changes whenever an entry was applied.
    pub(crate) fn applied(&self) -> watch::Receiver<u64> {
        self.applied.clone()
    }

    /// Why nothing can be committed now, if so.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }
}

/// An entry on its way into the log, and who waits for it.
struct Proposal {
    entry: Entry,
    reply: Option<oneshot::Sender<Result<Applied, Error>>>,
}

/// The loop itself.
pub(crate) struct VcLoop {
    group: Group<Machine>,
    coordinator: Coordinator,
    node: NodeHandle,
    queue: mpsc::Receiver<Message>,
    applied: watch::Sender<u64>,
    problem: watch::Sender<Option<String>>,
    pending: Vec<Proposal>,
    retry_at: Option<Instant>,
}

impl std::fmt::Debug for VcLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VcLoop")
            .field("coordinator", &self.coordinator)
            .finish_non_exhaustive()
    }
}

/// Where messages for a loop that is not made yet wait.
#[derive(Debug)]
pub(crate) struct VcQueue(
    mpsc::Receiver<Message>,
    watch::Sender<u64>,
    watch::Sender<Option<String>>,
);

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Propose { .. } => "Propose",
            Self::Tell { .. } => "Tell",
            Self::Read(_) => "Read",
        })
    }
}

/// The handle first: the node's loop needs it before the virtual cluster's loop can be made.
pub(crate) fn queue() -> (VcHandle, VcQueue) {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    let (applied_sender, applied) = watch::channel(0);
    let (problem_sender, problem) = watch::channel(None);
    let handle = VcHandle {
        queue: sender,
        applied,
        problem,
    };
    (handle, VcQueue(receiver, applied_sender, problem_sender))
}

impl VcLoop {
    /// A loop over an opened group.
    pub(crate) fn new(
        group: Group<Machine>,
        coordinator: Coordinator,
        node: NodeHandle,
        queue: VcQueue,
    ) -> Self {
        let VcQueue(queue, applied, problem) = queue;
        Self {
            group,
            coordinator,
            node,
            queue,
            applied,
            problem,
            pending: Vec::new(),
            retry_at: None,
        }
    }

    /// Runs until every handle is gone.
    pub(crate) async fn run(mut self) {
        self.feed(Input::Elected {
            term: Term(self.group.term()),
        });
        self.commit_pending();
        loop {
            let deadline = self.deadline();
            tokio::select! {
                message = self.queue.recv() => match message {
                    Some(message) => self.take(message),
                    None => return,
                },
                () = sleep_until(deadline) => self.feed(Input::Tick),
            }
            self.commit_pending();
            self.compact_if_idle();
        }
    }

    /// Takes a message and whatever else waits by now.
    fn take(&mut self, first: Message) {
        let mut reads = Vec::new();
        let mut next = Some(first);
        let mut taken = 0;
        while let Some(message) = next {
            match message {
                Message::Propose { entry, reply } => {
                    self.pending.push(Proposal {
                        entry: *entry,
                        reply: Some(reply),
                    });
                }
                Message::Tell { node, tell } => self.feed(Input::Tell { node, tell: *tell }),
                Message::Read(read) => reads.push(read),
            }
            taken += 1;
            next = if taken < BATCH_MAX {
                self.queue.try_recv().ok()
            } else {
                None
            };
        }
        if !reads.is_empty() {
            self.commit_pending();
        }
        let view = View {
            state: &self.group.machine().0,
            coordinator: &self.coordinator,
        };
        for read in reads {
            read(&view);
        }
    }

    /// Gives the coordinator an input and performs what comes out.
    fn feed(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.coordinator
            .handle(clock::now(), &self.group.machine().0, input, &mut outputs);
        for output in outputs {
            match output {
                Output::Propose(entry) => self.pending.push(Proposal {
                    entry: *entry,
                    reply: None,
                }),
                Output::Send { order, .. } => self.node.order(*order),
                Output::AskReport { .. } => self.node.ask_report(),
            }
        }
    }

    /// Commits what is pending, and what follows from it, until nothing is pending.
    fn commit_pending(&mut self) {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.retry_at = None;
        if self.pending.is_empty() {
            // What the disk refused was a proposer's, who knows. The next entry will show.
            self.all_is_well();
        }
        while !self.pending.is_empty() && self.retry_at.is_none() {
            let proposals = std::mem::take(&mut self.pending);
            let (encoded, proposals): (Vec<_>, Vec<_>) = proposals
                .into_iter()
                .filter_map(|proposal| match proposal.entry.encode() {
                    Ok(bytes) => Some((bytes, proposal)),
                    Err(error) => {
                        tracing::error!(%error, "an entry cannot be written");
                        None
                    }
                })
                .unzip();
            let committed = tokio::task::block_in_place(|| self.group.commit(encoded));
            match committed {
                Ok(()) => self.committed(proposals),
                Err(error) => self.refused(proposals, &error),
            }
        }
    }

    /// Applies one by one: the coordinator must see the state as each entry left it, or it
    /// would plan a job's next attempt before it has cleared away the last.
    fn committed(&mut self, proposals: Vec<Proposal>) {
        self.all_is_well();
        for proposal in proposals {
            let Some(Some(outcome)) = self.group.apply_next() else {
                continue;
            };
            if let Err(rejected) = &outcome {
                tracing::debug!(%rejected, "an entry changed nothing");
            }
            if let Some(reply) = proposal.reply {
                // A proposer that went away needs no answer; the entry counts all the same.
                let _ = reply.send(outcome.clone().map_err(Error::Rejected));
            }
            self.feed(Input::Applied(outcome));
        }
        self.applied.send_replace(self.group.applied());
    }

    fn all_is_well(&self) {
        self.problem
            .send_if_modified(|problem| problem.take().is_some());
    }

    /// Tells those who wait; keeps the coordinator's own entries for another try.
    fn refused(&mut self, proposals: Vec<Proposal>, error: &muster_consensus::Error) {
        let text = full_text(error);
        tracing::error!(error = text, "the virtual cluster's log cannot be written");
        self.problem.send_replace(Some(text.clone()));
        self.retry_at = Some(Instant::now() + RETRY_PAUSE);
        for proposal in proposals {
            match proposal.reply {
                Some(reply) => {
                    let _ = reply.send(Err(Error::Storage(text.clone())));
                }
                None => self.pending.push(proposal),
            }
        }
    }

    /// Cutting the log waits for a moment without messages.
    fn compact_if_idle(&mut self) {
        if self.group.wants_compaction() && self.queue.is_empty() {
            let compacted = tokio::task::block_in_place(|| self.group.compact());
            if let Err(error) = compacted {
                tracing::error!(error = full_text(&error), "the log cannot be cut");
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let core = self
            .coordinator
            .deadline()
            .map(|at| Instant::now() + Duration::from_micros(at.micros_since(clock::now())));
        [core, self.retry_at].into_iter().flatten().min()
    }
}

/// Waits until then; forever without a time.
pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// An error with its causes, on one line.
pub(crate) fn full_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
