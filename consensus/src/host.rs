//! All replicas of one node: their messages in common frames, their writes in common syncs, their
//! clocks in step.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::time::Time;
use protobuf::Message as _;
use raft::eraftpb::{Message, MessageType};

use crate::id::{GroupId, NodeId, ReplicaHome, ReplicaId, StoreId};
use crate::input::{HostInput, Ticket};
use crate::machine::StateMachine;
use crate::membership::GroupMembership;
use crate::options::HostOptions;
use crate::outbox::Outbox;
use crate::output::{HostOutput, HostRefusal, Removal};
use crate::replica::{Beginning, Old, Replica, Sink, creation};
use crate::store::StoredGroup;
use crate::transfer::IncomingTransfer;
use crate::wire::{GroupPacket, PacketPieces, read};
use crate::write::{Promise, StoredChange, Write};

/// Waking so many ticks later than planned is no stall yet.
const STALL_TICKS: u64 = 2;

/// Whose message it is, and for whom.
struct MessageRoute {
    from: ReplicaHome,
    sender: ReplicaId,
    to: ReplicaId,
}

/// The replicas of a node. A core: it does nothing but say what is to be done.
pub struct Host<M> {
    options: HostOptions,
    make: Box<dyn Fn(GroupId) -> M + Send>,
    replicas: BTreeMap<GroupId, Replica<M>>,
    /// Numbers up to which copies were here and are no more.
    gone: BTreeMap<GroupId, ReplicaId>,
    /// Groups that may make copies here; none named: all.
    welcome: Option<BTreeSet<GroupId>>,
    /// Ticks that have passed.
    ticks: u64,
    /// The last ones passed while this node stood still.
    stalled: bool,
    /// What the next write makes durable.
    kept: Vec<StoredChange>,
    /// The number of the next write.
    next: u64,
    /// Whether a write is on its way.
    writing: bool,
    outbox: Outbox,
    /// By node, what has come of a packet in pieces, and at which tick the last of it.
    pieces: BTreeMap<NodeId, (u64, PacketPieces)>,
    /// The same of a state in parts.
    incoming: BTreeMap<NodeId, (u64, IncomingTransfer)>,
}

impl<M> std::fmt::Debug for Host<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let replicas = self.replicas.values();
        f.debug_struct("Host")
            .field("node", &self.options.node)
            .field("replicas", &replicas.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl<M: StateMachine> Host<M> {
    /// Brings back what a store holds. `make` gives a group's machine at its creation.
    pub fn open(
        now: Time,
        options: HostOptions,
        found: Vec<StoredGroup>,
        make: impl Fn(GroupId) -> M + Send + 'static,
        out: &mut Vec<HostOutput<M::Output>>,
    ) -> Self {
        let mut host = Self {
            options,
            make: Box::new(make),
            replicas: BTreeMap::new(),
            gone: BTreeMap::new(),
            welcome: None,
            ticks: now.as_millis() / options.tick_ms,
            stalled: false,
            kept: Vec::new(),
            next: 1,
            writing: false,
            outbox: Outbox::default(),
            pieces: BTreeMap::new(),
            incoming: BTreeMap::new(),
        };
        for found in found {
            host.find(found, out);
        }
        host.settle(out);
        host
    }

    fn find(&mut self, found: StoredGroup, out: &mut Vec<HostOutput<M::Output>>) {
        match found {
            StoredGroup::Gone(group, replica) => {
                self.gone.insert(group, replica);
            }
            StoredGroup::Damaged(damaged) => {
                let why = Removal::Unreadable(damaged.problem);
                self.bury(damaged.group, damaged.replica, why, out);
            }
            StoredGroup::Replica(stored) => {
                let (group, replica) = (stored.group, stored.replica);
                let machine = (self.make)(group);
                let opened = if stored.snapshot.is_empty() {
                    let empty = Replica::empty((group, replica), machine, self.options);
                    empty.map_err(Removal::Unreadable)
                } else {
                    Replica::open(stored, machine, self.options)
                };
                match opened {
                    Ok(replica) => {
                        self.replicas.insert(group, replica);
                    }
                    Err(why) => self.bury(group, replica, why, out),
                }
            }
        }
    }

    /// The replica is no more, and never comes back.
    fn bury(
        &mut self,
        group: GroupId,
        replica: ReplicaId,
        why: Removal,
        out: &mut Vec<HostOutput<M::Output>>,
    ) {
        if let Some(mut ended) = self.replicas.remove(&group) {
            ended.end(out);
        }
        self.gone.insert(group, replica);
        self.kept.push(StoredChange::Gone(group, replica));
        out.push(HostOutput::Removed {
            group,
            replica,
            why,
        });
    }

    /// Takes in what happens. What it makes committed is to be applied by [`Self::apply_next`].
    pub fn handle(&mut self, now: Time, input: HostInput, out: &mut Vec<HostOutput<M::Output>>) {
        self.pass(now);
        self.take(input, out);
        self.settle(out);
    }

    /// Applies the next committed entry of any group; false when there is none. To be called after
    /// [`Self::handle`] until it says so: one by one, so that the owner can act on the state as
    /// each entry left it.
    pub fn apply_next(&mut self, out: &mut Vec<HostOutput<M::Output>>) -> bool {
        let mut replicas = self.replicas.values_mut();
        let any = replicas.any(|replica| replica.apply_next(out));
        if any {
            self.settle(out);
        }
        any
    }

    /// When to come with [`HostInput::Tick`], if nothing else happens before.
    pub fn deadline(&self) -> Option<Time> {
        let ticks = self.replicas.values().filter_map(Replica::due).min()?;
        Some(Time::from_millis(
            (self.ticks + ticks) * self.options.tick_ms,
        ))
    }

    /// Counts the ticks since the last time. Waking long after the planned time is a stall of this
    /// node: what leaders said meanwhile is still to be read, so that once it is not taken for
    /// their silence.
    fn pass(&mut self, now: Time) {
        let ticks = now.as_millis() / self.options.tick_ms;
        let passed = ticks.saturating_sub(self.ticks);
        if passed == 0 {
            return;
        }
        let planned = self.replicas.values().filter_map(Replica::due).min();
        let planned = planned.unwrap_or_default();
        let late = passed > planned + STALL_TICKS;
        let counted = passed.min(planned + STALL_TICKS);
        let forgiven = if late && !self.stalled {
            planned.saturating_sub(1)
        } else {
            counted
        };
        for replica in self.replicas.values_mut() {
            let leads = replica.is_leader();
            replica.tick(if leads { counted } else { forgiven }, ticks);
        }
        self.stalled = late;
        self.ticks = ticks;
        // The rest of these never comes: by now all would be sent again.
        let patience = self.options.snapshot_ticks;
        self.pieces.retain(|_, (at, _)| *at + patience > ticks);
        self.incoming.retain(|_, (at, _)| *at + patience > ticks);
        self.outbox.tick(ticks, patience);
    }

    fn take(&mut self, input: HostInput, out: &mut Vec<HostOutput<M::Output>>) {
        match input {
            HostInput::Tick => {}
            HostInput::Frame { from, bytes } => {
                for packet in read(&bytes).unwrap_or_default() {
                    self.receive(from, packet, out);
                }
            }
            HostInput::Written(number) => self.written(number),
            HostInput::Creation { group, homes } => self.bear(group, homes, out),
            HostInput::Inherit {
                group,
                after,
                from,
                home,
            } => self.inherit((group, after), from, home, out),
            HostInput::Succeeded { group } => {
                if self.replicas.contains_key(&group) {
                    self.bury(group, ReplicaId::EVERY, Removal::Succeeded, out);
                }
            }
            HostInput::Named(node) => self.options.node = node,
            HostInput::Welcome(groups) => self.welcome = Some(groups),
            HostInput::Leave { group } => {
                if let Some(id) = self.replicas.get(&group).map(|replica| replica.id) {
                    self.bury(group, id, Removal::ByNode, out);
                }
            }
            HostInput::Propose {
                group,
                ticket,
                entry,
            } => self.ask(group, ticket, out, |replica| replica.propose(ticket, entry)),
            HostInput::Read { group, ticket } => {
                self.ask(group, ticket, out, |replica| replica.read(ticket));
            }
            HostInput::Change {
                group,
                ticket,
                changes,
            } => self.ask(group, ticket, out, |replica| {
                replica.change(ticket, &changes)
            }),
            HostInput::Transfer { group, to } => {
                if let Some(replica) = self.replicas.get_mut(&group) {
                    replica.transfer(to);
                }
            }
        }
    }

    fn ask(
        &mut self,
        group: GroupId,
        ticket: Ticket,
        out: &mut Vec<HostOutput<M::Output>>,
        question: impl FnOnce(&mut Replica<M>) -> Result<Old, HostRefusal>,
    ) {
        let replica = self.replicas.get_mut(&group);
        let (ticket, why) = match replica.map_or(Err(HostRefusal::NoReplica), question) {
            Ok(Old(None)) => return,
            Ok(Old(Some(ticket))) => (ticket, HostRefusal::Unknown),
            Err(why) => (ticket, why),
        };
        out.push(HostOutput::Refused { group, ticket, why });
    }

    fn written(&mut self, number: u64) {
        if number + 1 == self.next {
            self.writing = false;
        }
        let mut messages = Vec::new();
        for replica in self.replicas.values_mut() {
            replica.written(number, &mut messages);
            let store = self.options.store;
            self.outbox.post(store, replica, messages.drain(..));
        }
    }

    fn bear(
        &mut self,
        group: GroupId,
        homes: BTreeMap<ReplicaId, ReplicaHome>,
        out: &mut Vec<HostOutput<M::Output>>,
    ) {
        let mine = homes.iter().find(|(_, home)| **home == self.home());
        let Some((id, _)) = mine else {
            return;
        };
        let id = *id;
        if !self.has_had(group) {
            let machine = (self.make)(group);
            self.begin((group, id), machine, (homes, Beginning::NEW), out);
        }
    }

    fn inherit(
        &mut self,
        (group, after): (GroupId, u64),
        from: GroupId,
        home: ReplicaHome,
        out: &mut Vec<HostOutput<M::Output>>,
    ) {
        if home != self.home() || self.has_had(group) {
            return;
        }
        // Who knows nothing yet has nothing to leave.
        let old = self.replicas.get(&from).filter(|it| it.applied() > 0);
        let Some(old) = old else {
            return;
        };
        let mut machine = (self.make)(group);
        match old.bequeath((group, &mut machine), out) {
            Ok(mut beginning) => {
                beginning.index = beginning.index.max(after);
                let id = ReplicaId(1);
                let homes = BTreeMap::from([(id, home)]);
                self.begin((group, id), machine, (homes, beginning), out);
                // In one write with the new one.
                self.bury(from, ReplicaId::EVERY, Removal::Succeeded, out);
            }
            Err(problem) => self.bury(group, ReplicaId(1), Removal::Unreadable(problem), out),
        }
    }

    /// Whether there is a copy here, or was one.
    fn has_had(&self, group: GroupId) -> bool {
        self.replicas.contains_key(&group) || self.gone.contains_key(&group)
    }

    /// A copy that is there from the beginning.
    fn begin(
        &mut self,
        (group, id): (GroupId, ReplicaId),
        machine: M,
        (homes, beginning): (BTreeMap<ReplicaId, ReplicaHome>, Beginning),
        out: &mut Vec<HostOutput<M::Output>>,
    ) {
        let snapshot = creation(&machine, homes.clone(), beginning);
        let membership = (GroupMembership::born(homes), beginning);
        let born = Replica::born((group, id), &snapshot, machine, membership, self.options);
        match born {
            Ok(replica) => {
                self.kept.push(StoredChange::Snapshot {
                    group,
                    bytes: snapshot.write_to_bytes().unwrap_or_default(),
                    keep: None,
                });
                let promise = beginning.promise();
                self.kept.push(StoredChange::Promise(group, id, promise));
                self.replicas.insert(group, replica);
            }
            Err(problem) => self.bury(group, id, Removal::Unreadable(problem), out),
        }
    }

    const fn home(&self) -> ReplicaHome {
        ReplicaHome {
            node: self.options.node,
            store: self.options.store,
        }
    }

    fn receive(&mut self, from: NodeId, packet: GroupPacket, out: &mut Vec<HostOutput<M::Output>>) {
        match packet {
            GroupPacket::Raft {
                group,
                from: sender,
                to,
                home,
                store,
                message,
            } => {
                if self.is_mine(group, to, store) {
                    let home = ReplicaHome {
                        node: from,
                        store: home,
                    };
                    let ends = MessageRoute {
                        from: home,
                        sender,
                        to,
                    };
                    self.step(group, ends, &message, out);
                } else {
                    let has_ended = self.gone.get(&group) == Some(&ReplicaId::EVERY);
                    let replica = if has_ended { ReplicaId::EVERY } else { to };
                    let gone = GroupPacket::Gone { group, replica };
                    self.outbox.push(from, gone);
                }
            }
            GroupPacket::Gone { group, replica } if replica == ReplicaId::EVERY => {
                self.hear_of_successor(group, from, out);
            }
            GroupPacket::Gone { group, replica } => self.hear_of_end(group, replica, out),
            GroupPacket::Piece {
                number,
                part,
                of,
                bytes,
            } => {
                let (at, pieces) = self.pieces.entry(from).or_default();
                *at = self.ticks;
                // Nothing else is sent in pieces.
                if let Some(packet @ GroupPacket::Raft { .. }) =
                    pieces.take(number, part, of, &bytes)
                {
                    self.receive(from, packet, out);
                }
            }
            GroupPacket::Part {
                transfer,
                part,
                of,
                bytes,
            } => {
                let (at, incoming) = self.incoming.entry(from).or_default();
                *at = self.ticks;
                let (next, packet) = incoming.take(transfer, (part, of), &bytes);
                self.outbox.push(from, GroupPacket::Took { transfer, next });
                if let Some(packet @ GroupPacket::Raft { .. }) = packet {
                    self.receive(from, packet, out);
                }
            }
            GroupPacket::Took { transfer, next } => {
                for (group, to) in self.outbox.took(from, transfer, next) {
                    if let Some(replica) = self.replicas.get_mut(&group) {
                        replica.sends_state(to);
                    }
                }
            }
        }
    }

    /// Whether a message can be for a copy here: not for one whose promises are lost.
    fn is_mine(&self, group: GroupId, to: ReplicaId, store: StoreId) -> bool {
        let buried = self.gone.get(&group).is_some_and(|gone| to <= *gone);
        let replaced = self.replicas.get(&group).is_some_and(|here| to < here.id);
        store == self.options.store && !buried && !replaced
    }

    fn step(
        &mut self,
        group: GroupId,
        ends: MessageRoute,
        bytes: &[u8],
        out: &mut Vec<HostOutput<M::Output>>,
    ) {
        let MessageRoute { from, sender, to } = ends;
        let Ok(message) = Message::parse_from_bytes(bytes) else {
            return;
        };
        if message.from != sender.0 || message.to != to.0 || !travels(message.get_msg_type()) {
            return;
        }
        if let Some(here) = self.replicas.get(&group)
            && here.id < to
        {
            // Its group has given this node another one, so it has removed this one before.
            let id = here.id;
            self.bury(group, id, Removal::ByGroup, out);
        }
        if !self.replicas.contains_key(&group) && !self.admit(group, to, &message) {
            return;
        }
        if let Some(replica) = self.replicas.get_mut(&group) {
            if replica.membership().is_gone(sender) {
                let gone = GroupPacket::Gone {
                    group,
                    replica: sender,
                };
                self.outbox.push(from.node, gone);
                return;
            }
            if replica.is_only_copy() {
                return;
            }
            replica.step(from, message);
        }
    }

    /// Makes room for a copy that a leader wants to have here.
    fn admit(&mut self, group: GroupId, id: ReplicaId, message: &Message) -> bool {
        let leads = matches!(
            message.get_msg_type(),
            MessageType::MsgAppend | MessageType::MsgHeartbeat | MessageType::MsgSnapshot
        );
        let welcome = self.welcome.as_ref();
        if !leads || welcome.is_some_and(|groups| !groups.contains(&group)) {
            return false;
        }
        let empty = Replica::empty((group, id), (self.make)(group), self.options);
        let Ok(replica) = empty else {
            return false;
        };
        self.kept
            .push(StoredChange::Promise(group, id, Promise::default()));
        self.replicas.insert(group, replica);
        true
    }

    fn hear_of_end(
        &mut self,
        group: GroupId,
        replica: ReplicaId,
        out: &mut Vec<HostOutput<M::Output>>,
    ) {
        let Some(here) = self.replicas.get(&group) else {
            return;
        };
        if here.id == replica && !here.is_only_copy() {
            self.bury(group, replica, Removal::ByGroup, out);
        } else if here.is_leader() && here.home_of(replica).is_some() {
            out.push(HostOutput::Lost { group, replica });
        }
    }

    /// One of those that have copies says that another group has taken this one's place.
    fn hear_of_successor(
        &mut self,
        group: GroupId,
        from: NodeId,
        out: &mut Vec<HostOutput<M::Output>>,
    ) {
        let here = self.replicas.get(&group).filter(|it| !it.is_only_copy());
        let mut homes = here
            .into_iter()
            .flat_map(|it| it.membership().homes.values());
        if homes.any(|home| home.node == from) {
            self.bury(group, ReplicaId::EVERY, Removal::Succeeded, out);
        }
    }

    /// Performs what is ready, until nothing is.
    fn settle(&mut self, out: &mut Vec<HostOutput<M::Output>>) {
        let mut ended = Vec::new();
        for (group, replica) in &mut self.replicas {
            let mut sink = Sink {
                messages: Vec::new(),
                kept: &mut self.kept,
                write: self.next,
                out,
            };
            replica.flush(&mut sink);
            let messages = sink.messages;
            self.outbox.post(self.options.store, replica, messages);
            if let Some(why) = replica.unreadable.take() {
                ended.push((*group, replica.id, why));
            } else if replica.removed {
                ended.push((*group, replica.id, Removal::ByGroup));
            }
        }
        for (group, replica, why) in ended {
            self.bury(group, replica, why, out);
        }
        self.write(out);
        let frames = self.outbox.frames().into_iter();
        out.extend(frames.map(|(to, frame)| HostOutput::Send { to, frame }));
    }

    /// One write at a time: what comes meanwhile goes together into the next.
    fn write(&mut self, out: &mut Vec<HostOutput<M::Output>>) {
        if self.writing || self.kept.is_empty() {
            return;
        }
        self.writing = true;
        out.push(HostOutput::Write(Write {
            number: self.next,
            changes: std::mem::take(&mut self.kept),
        }));
        self.next += 1;
    }

    /// The groups that have a copy here.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.replicas.keys().copied()
    }

    /// A group's machine, as far as it has come here.
    pub fn machine(&self, group: GroupId) -> Option<&M> {
        self.replicas.get(&group).map(|replica| &replica.machine)
    }

    /// The last entry that a group's machine has taken here.
    pub fn applied(&self, group: GroupId) -> Option<u64> {
        self.replicas.get(&group).map(Replica::applied)
    }

    /// What is known here of a group.
    pub fn view(&self, group: GroupId) -> Option<GroupView> {
        self.replicas.get(&group).map(|replica| GroupView {
            replica: replica.id,
            leads: replica.is_leader(),
            leader: replica.leader(),
            term: replica.term(),
            applied: replica.applied(),
            last: replica.last(),
            membership: replica.membership().clone(),
            voters: replica.voters(),
            outgoing: replica.outgoing(),
            current: replica.current(),
        })
    }
}

/// Whether one copy says such a thing to another. The rest are things that Raft says to itself:
/// some of them make it panic.
const fn travels(kind: MessageType) -> bool {
    matches!(
        kind,
        MessageType::MsgAppend
            | MessageType::MsgAppendResponse
            | MessageType::MsgRequestVote
            | MessageType::MsgRequestVoteResponse
            | MessageType::MsgRequestPreVote
            | MessageType::MsgRequestPreVoteResponse
            | MessageType::MsgSnapshot
            | MessageType::MsgHeartbeat
            | MessageType::MsgHeartbeatResponse
            | MessageType::MsgTimeoutNow
    )
}

/// What is known of a group on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// The copy here.
    pub replica: ReplicaId,
    /// Whether it leads, as far as it knows.
    pub leads: bool,
    /// Who leads, as far as it knows.
    pub leader: Option<NodeId>,
    /// The newest term.
    pub term: u64,
    /// The last entry that was applied.
    pub applied: u64,
    /// Term and index of the last entry of the log, committed or not: of two copies the one with more has
    /// whatever the other has that was committed.
    pub last: (u64, u64),
    /// Who has copies.
    pub membership: GroupMembership,
    /// Who of them votes.
    pub voters: BTreeSet<ReplicaId>,
    /// While that changes, who voted before: a majority of these is needed as well.
    pub outgoing: BTreeSet<ReplicaId>,
    /// Who of them has, or will have in a moment, all that is committed; empty but at the leader.
    pub current: BTreeSet<ReplicaId>,
}

#[cfg(test)]
mod tests;
