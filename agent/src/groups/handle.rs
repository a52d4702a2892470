//! What others hold of the groups' loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_consensus::{GroupId, NodeId, ReplicaHome, ReplicaId, StoreId};
use muster_control::cluster::{ClusterMap, Lineage};
use muster_control::coordinator::{Bindings, LeaderPolicy};
use muster_control::groups::{
    ApplyOutcome, GroupError, GroupHostInput, GroupReply, Local, LocalGroup,
};
use muster_control::lease::SilenceQuestion;
use muster_control::member::routing::RoutingRecord;
use muster_control::member::{self, MembersSeen};
use muster_control::order::Tell;
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::{self, VcName};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout_at};

use super::message::{ClusterAsker, FrameCarrier, GroupsMessage};

/// Messages that may wait. Beyond it an entry is refused, and what nodes tell is dropped,
/// which their protocol heals.
const QUEUE_MAX: usize = 8192;
/// Frames of other nodes that may wait, each of a quarter MiB at most.
const FRAMES_MAX: usize = 256;
/// How long an entry waits for its majority, and a question for its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long both wait for somebody to lead: elections take less than a second.
const LEADERLESS: Duration = Duration::from_secs(3);
/// How long a node that ends waits for others to take its leads: one election.
const HAND_OVER: Duration = Duration::from_millis(500);
/// Pause before a group without a leader is asked again.
const AGAIN: Duration = Duration::from_millis(25);

/// What is told of all groups.
#[derive(Debug)]
pub(crate) struct Telling {
    /// Counts entries that were applied.
    pub(crate) applied: watch::Sender<u64>,
    /// Changes when this node begins or ceases to lead a group: by group, the term it leads in.
    pub(crate) led: watch::Sender<BTreeMap<GroupId, u64>>,
    /// Why nothing can be made durable now, if so.
    pub(crate) problem: watch::Sender<Option<String>>,
    /// What this member tells all others of its copies.
    pub(crate) routing: watch::Sender<RoutingRecord>,
}

/// This node's copies of groups. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    queue: mpsc::Sender<GroupsMessage>,
    frames: mpsc::Sender<(NodeId, Vec<u8>)>,
    applied: watch::Receiver<u64>,
    led: watch::Receiver<BTreeMap<GroupId, u64>>,
    problem: watch::Receiver<Option<String>>,
    routing: watch::Receiver<RoutingRecord>,
}

/// What the loop has of its handles.
#[derive(Debug)]
pub(crate) struct LoopEnds {
    /// What they send.
    pub(crate) queue: mpsc::Receiver<GroupsMessage>,
    /// Frames of other nodes.
    pub(crate) frames: mpsc::Receiver<(NodeId, Vec<u8>)>,
    /// What they watch.
    pub(crate) telling: Telling,
}

/// The handle first: others need it before the loop can be made.
pub(crate) fn queue() -> (Groups, LoopEnds) {
    let (sender, queue) = mpsc::channel(QUEUE_MAX);
    let (frames_sender, frames) = mpsc::channel(FRAMES_MAX);
    let (applied_sender, applied) = watch::channel(0);
    let (led_sender, led) = watch::channel(BTreeMap::new());
    let (problem_sender, problem) = watch::channel(None);
    let (routing_sender, routing) = watch::channel(RoutingRecord::default());
    let groups = Groups {
        queue: sender,
        frames: frames_sender,
        applied,
        led,
        problem,
        routing,
    };
    let telling = Telling {
        applied: applied_sender,
        led: led_sender,
        problem: problem_sender,
        routing: routing_sender,
    };
    let ends = LoopEnds {
        queue,
        frames,
        telling,
    };
    (groups, ends)
}

impl Groups {
    /// Puts an entry into a group that is led here. When this returns `Ok`, a majority of its
    /// voters has it on disk, and it is applied.
    ///
    /// # Errors
    /// [`GroupError`]; each says whether it may have come about.
    pub(crate) async fn propose(
        &self,
        group: GroupId,
        entry: &[u8],
    ) -> Result<ApplyOutcome, GroupError> {
        let propose = |reply| GroupHostInput::Propose {
            group,
            entry: entry.to_vec(),
            reply,
        };
        self.ask(propose).await
    }

    /// Looks at a group that is led here, after everything that was committed anywhere so far.
    ///
    /// # Errors
    /// [`GroupError`], and then nothing was looked at.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        group: GroupId,
        read: impl FnOnce(LocalGroup<'_>) -> T + Send + 'static,
    ) -> Result<T, GroupError> {
        self.read_for(group, None, read).await
    }

    /// A node asks for renewal of its leases by a group that is led here. `Ok`: a majority has
    /// confirmed, after this was asked, that it is.
    ///
    /// # Errors
    /// [`GroupError`], and then nothing is renewed.
    pub(crate) async fn renew(&self, group: GroupId, node: id::NodeId) -> Result<(), GroupError> {
        self.read_for(group, Some(node), |_| ()).await
    }

    async fn read_for<T: Send + 'static>(
        &self,
        group: GroupId,
        heard: Option<id::NodeId>,
        read: impl FnOnce(LocalGroup<'_>) -> T + Send + 'static,
    ) -> Result<T, GroupError> {
        let begun = Instant::now();
        // Asked again only as long as it was not looked.
        let mut read = Some(read);
        loop {
            let Some(once) = read.take() else {
                return Err(GroupError::Ended);
            };
            let (reply, answer) = oneshot::channel();
            let reading = Box::new(move |seen: Result<LocalGroup<'_>, GroupError>| {
                // A reader that went away needs no answer.
                let _ = reply.send(match seen {
                    Ok(seen) => Ok(once(seen)),
                    Err(error) => Err((error, once)),
                });
            });
            let heard = heard.clone();
            self.give(GroupHostInput::Read {
                group,
                heard,
                reading,
            })
            .await?;
            let answered = timeout_at(begun + PATIENCE, answer).await;
            match answered.map_err(|_| GroupError::NoLeader)? {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err((GroupError::NoLeader, once))) if begun.elapsed() < LEADERLESS => {
                    read = Some(once);
                }
                Ok(Err((error, _))) => return Err(error),
                Err(_) => return Err(GroupError::Ended),
            }
            sleep(AGAIN).await;
        }
    }

    /// Looks at a group's copy here, as far as it has come here; `None` if there is none.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        group: GroupId,
        look: impl FnOnce(Local<'_>) -> T + Send + 'static,
    ) -> Result<Option<T>, GroupError> {
        let (reply, answer) = oneshot::channel();
        let looking = Box::new(move |local: Option<Local<'_>>| {
            // As for reads.
            let _ = reply.send(local.map(look));
        });
        self.give(GroupHostInput::Look { group, looking }).await?;
        answer.await.map_err(|_| GroupError::Ended)
    }

    /// A group is born, with these first copies. Nothing happens where it was born before.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    pub(crate) async fn bear(
        &self,
        group: GroupId,
        homes: BTreeMap<ReplicaId, ReplicaHome>,
    ) -> Result<(), GroupError> {
        self.give(GroupHostInput::Creation { group, homes }).await
    }

    /// Hands over the lead of every group that another node can take, before this one ends, and
    /// waits a moment for them to do so.
    pub(crate) async fn hand_over(&self) {
        let (reply, asked) = oneshot::channel();
        let reply = Box::new(move |groups| {
            // Who went away needs no answer.
            let _ = reply.send(groups);
        });
        if self.give(GroupHostInput::HandOver(reply)).await.is_err() {
            return;
        }
        let offered = asked.await.unwrap_or_default();
        let mut led = self.led();
        let given = led.wait_for(|led| !offered.iter().any(|group| led.contains_key(group)));
        // What nobody takes is missed, and another leader elected.
        let _ = tokio::time::timeout(HAND_OVER, given).await;
    }

    /// This node is this member of a cluster from now on.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    pub(crate) async fn joined(
        &self,
        (cluster, member): (ClusterId, MemberId),
        lineage: Lineage,
        carrier: FrameCarrier,
    ) -> Result<(), GroupError> {
        self.send(GroupsMessage::Carrier(carrier)).await?;
        let joined = member::MemberInput::Joined {
            cluster,
            member,
            lineage,
        };
        self.send(GroupsMessage::Core(joined)).await?;
        // What was told of another cluster is told no more after this.
        self.store().await?;
        Ok(())
    }

    /// The members are seen so from now on.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    pub(crate) async fn seen(&self, members: MembersSeen) -> Result<(), GroupError> {
        let seen = member::MemberInput::Seen(Box::new(members));
        self.send(GroupsMessage::Core(seen)).await
    }

    /// The cluster told its members this.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    pub(crate) async fn take_cluster_map(
        &self,
        cluster_map: Arc<ClusterMap>,
    ) -> Result<(), GroupError> {
        let given = member::MemberInput::ClusterMap(cluster_map);
        self.send(GroupsMessage::Core(given)).await
    }

    /// A member is about to go: its copy of a group that is led here is to find another place.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    pub(crate) async fn going(&self, group: GroupId, member: MemberId) -> Result<(), GroupError> {
        let going = member::MemberInput::Going { group, member };
        self.send(GroupsMessage::Core(going)).await
    }

    /// Asks the leader of the cluster in this way from now on.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    pub(crate) async fn ask_by(&self, asker: ClusterAsker) -> Result<(), GroupError> {
        self.send(GroupsMessage::Asker(asker)).await
    }

    /// Passes on a frame of another node's groups. Dropped when too many wait, as on its way.
    pub(crate) fn frame(&self, from: NodeId, bytes: Vec<u8>) {
        // Raft says again what was lost.
        let _ = self.frames.try_send((from, bytes));
    }

    /// It is one no more: its copies of the cluster's groups end.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    pub(crate) async fn left(&self) -> Result<(), GroupError> {
        self.send(GroupsMessage::Core(member::MemberInput::Left))
            .await
    }

    /// What the leader of the `cluster` group said of a silent node, if it said anything.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    pub(crate) async fn silence(
        &self,
        group: GroupId,
        question: SilenceQuestion,
        silent: Option<bool>,
    ) -> Result<(), GroupError> {
        let silence = GroupHostInput::Silence {
            group,
            question,
            silent,
        };
        self.give(silence).await
    }

    /// What the leader of the `cluster` group said of who is bound to what.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    pub(crate) async fn bound(
        &self,
        group: GroupId,
        news: Option<Bindings>,
    ) -> Result<(), GroupError> {
        self.give(GroupHostInput::Bound { group, news }).await
    }

    /// How the cluster is described from now on, and in which version; none while that is not known.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    pub(crate) async fn described(
        &self,
        description: Option<(u64, Arc<ClusterSpec>)>,
    ) -> Result<(), GroupError> {
        self.give(GroupHostInput::Described(description)).await
    }

    /// What leaders go by from now on.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    pub(crate) async fn set_policy(&self, policy: LeaderPolicy) -> Result<(), GroupError> {
        self.give(GroupHostInput::Policy(Box::new(policy))).await
    }

    /// An admin says that a node is off: the tasks there are given up soon.
    ///
    /// # Errors
    /// When this node does not lead the virtual cluster, or the node can be reached from here.
    pub(crate) async fn off(&self, group: GroupId, node: id::NodeId) -> Result<(), GroupError> {
        let message = |reply| {
            let node = node.clone();
            GroupHostInput::Off { group, node, reply }
        };
        self.ask(message).await
    }

    /// Which log store has all this.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    pub(crate) async fn store(&self) -> Result<StoreId, GroupError> {
        let (reply, answer) = oneshot::channel();
        self.send(GroupsMessage::Store(reply)).await?;
        answer.await.map_err(|_| GroupError::Ended)
    }

    /// Passes on what this node tells a leader. Dropped when too much waits: it asks again.
    pub(crate) fn tell(&self, to: NodeId, vc: VcName, node: id::NodeId, tell: Box<Tell>) {
        let message = GroupsMessage::Input(GroupHostInput::Tell { to, vc, node, tell });
        if self.queue.try_send(message).is_err() {
            tracing::warn!("a word of this node was dropped: the queue is full");
        }
    }

    /// Counts entries that were applied.
    pub(crate) fn applied(&self) -> watch::Receiver<u64> {
        self.applied.clone()
    }

    /// Whether that group is led here, as far as is known.
    pub(crate) fn leads(&self, group: GroupId) -> bool {
        self.led.borrow().contains_key(&group)
    }

    /// By group that is led here, the term.
    pub(crate) fn led(&self) -> watch::Receiver<BTreeMap<GroupId, u64>> {
        self.led.clone()
    }

    /// What this member tells all others of its copies.
    pub(crate) fn routing(&self) -> watch::Receiver<RoutingRecord> {
        self.routing.clone()
    }

    /// Why nothing can be made durable now, if so.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }

    /// Asks again for as long as no leader is known, which leaves everything as it was.
    async fn ask<T: Send + 'static>(
        &self,
        input: impl Fn(GroupReply<T>) -> GroupHostInput,
    ) -> Result<T, GroupError> {
        let begun = Instant::now();
        loop {
            let (reply, answer) = oneshot::channel();
            let reply = Box::new(move |answer| {
                // Who went away needs no answer.
                let _ = reply.send(answer);
            });
            let sent = self.queue.try_send(GroupsMessage::Input(input(reply)));
            sent.map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => GroupError::Overloaded,
                mpsc::error::TrySendError::Closed(_) => GroupError::Ended,
            })?;
            let answered = timeout_at(begun + PATIENCE, answer).await;
            let answered = answered.map_err(|_| GroupError::Unknown(late()))?;
            match answered.map_err(|_| GroupError::Ended)? {
                Err(GroupError::NoLeader) if begun.elapsed() < LEADERLESS => sleep(AGAIN).await,
                answer => return answer,
            }
        }
    }

    async fn give(&self, input: GroupHostInput) -> Result<(), GroupError> {
        self.send(GroupsMessage::Input(input)).await
    }

    async fn send(&self, message: GroupsMessage) -> Result<(), GroupError> {
        self.queue
            .send(message)
            .await
            .map_err(|_| GroupError::Ended)
    }
}

fn late() -> String {
    let seconds = PATIENCE.as_secs();
    format!("no majority of the group's voters has confirmed it within {seconds} s")
}
