//! One copy of a group: Raft, its log and its machine.
//!
//! - `state`: the machine and the members as bytes, for disks and other copies.
//! - `proposing`: what the leader adds to the log, and who waits for it.
//! - `ready`: what Raft wants written and said, in an order that keeps its promises.
//! - `applying`: committed entries, one by one, and what they answer.

mod applying;
mod proposing;
mod ready;
mod state;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use protobuf::Message as _;
use raft::eraftpb::{Entry, EntryType, Message, MessageType, Snapshot};
use raft::{Config, RawNode, SnapshotStatus, StateRole};

use crate::id::{GroupId, NodeId, ReplicaHome, ReplicaId};
use crate::input::Ticket;
use crate::machine::StateMachine;
use crate::membership::GroupMembership;
use crate::memory::RaftLog;
use crate::options::HostOptions;
use crate::output::{HostOutput, HostRefusal, Removal};
use crate::store::Stored;
use crate::write::StoredChange;

pub(crate) use state::{Beginning, creation, members, read_snapshot};
use state::{hard, memory, thaw};

/// Senders that are remembered although the group does not have them.
const HEARD_MAX: usize = 16;
/// Who lacks no more entries than these keeps up with its leader.
const NEAR_ENTRIES: u64 = 64;

/// Where messages and changes go.
#[derive(Debug)]
pub(crate) struct Sink<'a, T> {
    /// Messages that may go now.
    pub(crate) messages: Vec<Message>,
    /// What the next write makes durable.
    pub(crate) kept: &'a mut Vec<StoredChange>,
    /// The number of that write.
    pub(crate) write: u64,
    pub(crate) out: &'a mut Vec<HostOutput<T>>,
}

/// Who asked before, and has to be told that nothing more is known here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Old(pub(crate) Option<Ticket>);

/// What waits for a write.
#[derive(Debug)]
struct Unwritten {
    write: u64,
    ready: u64,
    messages: Vec<Message>,
}

/// One copy of a group.
pub(crate) struct Replica<M> {
    pub(crate) group: GroupId,
    pub(crate) id: ReplicaId,
    raw: RawNode<RaftLog>,
    pub(crate) machine: M,
    membership: GroupMembership,
    options: HostOptions,
    /// Who was heard that the group, as far as it is known here, does not have.
    heard: BTreeMap<ReplicaId, ReplicaHome>,
    unwritten: VecDeque<Unwritten>,
    /// To be proposed together, once what was proposed before is out of the way.
    held: Vec<(Ticket, Vec<u8>)>,
    /// Bytes of that.
    held_bytes: u64,
    /// Questions whose entries are in the log: by index, with their term.
    waiting: BTreeMap<u64, (u64, Ticket)>,
    /// Asked before this leader could answer.
    asked: Vec<Ticket>,
    /// Being confirmed by the others.
    confirming: Vec<Ticket>,
    /// Confirmed, but what was committed up to here has to be applied first.
    confirmed: Vec<(u64, Ticket)>,
    /// Copies that were sent a state, and in how many ticks it counts as lost.
    sent: BTreeMap<u64, u64>,
    /// In how many ticks a state that nobody fetched is let go.
    offer: u64,
    applied: u64,
    /// Committed, and to be applied one by one.
    committed: VecDeque<Entry>,
    /// Index of the snapshot on disk.
    snapshot: u64,
    /// What was said last of who leads.
    said: Option<(u64, Option<NodeId>)>,
    /// The term in which it was last said that this one leads.
    led: u64,
    /// Its own removal was applied.
    pub(crate) removed: bool,
    /// Why its state cannot be read.
    pub(crate) unreadable: Option<Removal>,
}

impl<M> std::fmt::Debug for Replica<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica")
            .field("group", &self.group)
            .field("id", &self.id)
            .field("term", &self.raw.raft.term)
            .field("applied", &self.applied)
            .finish_non_exhaustive()
    }
}

impl<M: StateMachine> Replica<M> {
    /// Brings back what a disk holds. `Err`: it cannot be read.
    pub(crate) fn open(
        stored: Stored,
        mut machine: M,
        options: HostOptions,
    ) -> Result<Self, Removal> {
        let snapshot = read_snapshot(&stored.snapshot).map_err(Removal::Unreadable)?;
        let membership = thaw(&mut machine, &snapshot)?;
        let meta = snapshot.get_metadata();
        let before = (meta.index, meta.term);
        let mut entries = Vec::new();
        for bytes in &stored.entries {
            let entry = Entry::parse_from_bytes(bytes);
            entries.push(entry.map_err(|error| Removal::Unreadable(error.to_string()))?);
        }
        let mut hard = hard(stored.promise);
        // What was applied was committed, whether or not that was kept.
        hard.commit = hard.commit.max(before.0);
        let memory = memory(&snapshot, entries, hard).map_err(Removal::Unreadable)?;
        let replica = (stored.group, stored.replica);
        let known = (membership, before.0);
        Self::build(replica, memory, machine, known, options).map_err(Removal::Unreadable)
    }

    /// A copy of a new group.
    pub(crate) fn born(
        (group, id): (GroupId, ReplicaId),
        snapshot: &Snapshot,
        machine: M,
        (membership, beginning): (GroupMembership, Beginning),
        options: HostOptions,
    ) -> Result<Self, String> {
        let Beginning { index, term, .. } = beginning;
        let promise = hard(beginning.promise());
        let memory = RaftLog::new(snapshot, (index, term), Vec::new(), promise);
        Self::build((group, id), memory, machine, (membership, index), options)
    }

    /// Gives the machine of a group all that is in the log here, committed or not, and says where that
    /// ends.
    pub(crate) fn bequeath(
        &self,
        (group, heir): (GroupId, &mut M),
        out: &mut Vec<HostOutput<M::Output>>,
    ) -> Result<Beginning, String> {
        let restored = heir.restore(&self.machine.snapshot());
        restored.map_err(|error| error.to_string())?;
        for entry in self.raw.store().after(self.applied) {
            let says = entry.get_entry_type() == EntryType::EntryNormal && !entry.data.is_empty();
            if says {
                let output = heir.apply(entry.index, &entry.data);
                out.push(HostOutput::Applied {
                    group,
                    index: entry.index,
                    entry: entry.data.to_vec(),
                    ticket: None,
                    output,
                });
            }
        }
        let (term, index) = self.last();
        Ok(Beginning {
            index,
            term,
            newest: self.term().max(term),
        })
    }

    /// Term and index of the last entry of the log, committed or not.
    pub(crate) fn last(&self) -> (u64, u64) {
        let log = &self.raw.raft.raft_log;
        (log.last_term(), log.last_index())
    }

    /// A copy that knows nothing yet, and learns.
    pub(crate) fn empty(
        (group, id): (GroupId, ReplicaId),
        machine: M,
        options: HostOptions,
    ) -> Result<Self, String> {
        let nobody = GroupMembership::born(BTreeMap::new());
        Self::build(
            (group, id),
            RaftLog::default(),
            machine,
            (nobody, 0),
            options,
        )
    }

    fn build(
        (group, id): (GroupId, ReplicaId),
        memory: RaftLog,
        machine: M,
        (membership, applied): (GroupMembership, u64),
        options: HostOptions,
    ) -> Result<Self, String> {
        let config = Config {
            id: id.0,
            election_tick: options.election_ticks,
            heartbeat_tick: options.heartbeat_ticks,
            applied,
            max_size_per_msg: options.message_bytes,
            max_inflight_msgs: options.messages_in_flight,
            check_quorum: true,
            pre_vote: true,
            max_uncommitted_size: options.uncommitted_bytes,
            max_committed_size_per_ready: options.message_bytes,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&config, memory, &logger).map_err(|error| error.to_string())?;
        let mut replica = Self {
            group,
            id,
            raw,
            machine,
            membership,
            options,
            heard: BTreeMap::new(),
            unwritten: VecDeque::new(),
            held: Vec::new(),
            held_bytes: 0,
            waiting: BTreeMap::new(),
            asked: Vec::new(),
            confirming: Vec::new(),
            confirmed: Vec::new(),
            sent: BTreeMap::new(),
            offer: 0,
            applied,
            committed: VecDeque::new(),
            snapshot: applied,
            said: None,
            led: 0,
            removed: false,
            unreadable: None,
        };
        replica.draw();
        if replica.is_alone() {
            // Nobody else can object.
            let _ = replica.raw.campaign();
        }
        Ok(replica)
    }

    fn is_alone(&self) -> bool {
        let conf = self.raw.store().conf();
        conf.voters == [self.id.0] && conf.voters_outgoing.is_empty()
    }

    /// Whether nobody else has a copy: nobody has anything to say to it.
    pub(crate) fn is_only_copy(&self) -> bool {
        self.is_alone() && self.membership.homes.len() == 1
    }

    /// The patience with a silent leader. Voters take turns, in an order drawn for each term, so
    /// that no two of them stand for election at once; and equal seeds are equal runs. Raft draws
    /// by chance in places of its own, so this is set after each call.
    fn draw(&mut self) {
        let ticks = self.options.election_ticks;
        let conf = self.raw.store().conf();
        let voters = conf.voters.iter().chain(&conf.voters_outgoing);
        let mine = self.lot(self.id.0);
        let before = voters.clone().filter(|id| self.lot(**id) < mine).count();
        let patience = ticks + (ticks * before / voters.count().max(1)).min(ticks - 1);
        self.raw.raft.set_randomized_election_timeout(patience);
    }

    /// What a voter has drawn in this term.
    fn lot(&self, id: u64) -> (u64, u64) {
        let drawn = [self.options.seed, self.group.0, self.raw.raft.term, id];
        let mut bytes = [0; 32];
        for (place, part) in bytes.chunks_exact_mut(8).zip(drawn) {
            place.copy_from_slice(&part.to_le_bytes());
        }
        (xxhash_rust::xxh3::xxh3_64(&bytes), id)
    }

    /// Counts ticks, of which `at` have passed in all.
    pub(crate) fn tick(&mut self, ticks: u64, at: u64) {
        for _ in 0..ticks {
            if self.has_unwritten_state() {
                break;
            }
            self.raw.tick();
            self.draw();
        }
        self.keep_step(at);
        self.offer = self.offer.saturating_sub(ticks);
        if self.offer == 0 {
            self.raw.mut_store().let_go();
        }
        self.resend_states(ticks);
    }

    /// Whether a state that another copy has sent was taken over, and is not written yet. To raft its entries are
    /// not applied until then, and they are not there to be read: it cannot campaign, and must not be asked to.
    fn has_unwritten_state(&self) -> bool {
        let log = &self.raw.raft.raft_log;
        log.first_index() > log.applied + 1
    }

    /// Leaders of all groups beat together, whenever they began to lead: their heartbeats share
    /// frames and wake their followers once.
    fn keep_step(&mut self, at: u64) {
        let beat = self.options.heartbeat_ticks;
        let place = usize::try_from(at % beat as u64).unwrap_or_default();
        for _ in 0..beat {
            if !self.is_leader() || self.raw.raft.heartbeat_elapsed() == place {
                return;
            }
            self.raw.tick();
            self.draw();
        }
    }

    /// A state is on its way to a copy, and comes on.
    pub(crate) fn sends_state(&mut self, to: ReplicaId) {
        if let Some(left) = self.sent.get_mut(&to.0) {
            *left = self.options.snapshot_ticks;
        }
    }

    /// Raft waits for ever for the answer to a state that it sent.
    fn resend_states(&mut self, ticks: u64) {
        for left in self.sent.values_mut() {
            *left = left.saturating_sub(ticks);
        }
        let lost = self.sent.extract_if(.., |_, left| *left == 0);
        for (to, _) in lost.collect::<Vec<_>>() {
            self.raw.report_snapshot(to, SnapshotStatus::Failure);
        }
    }

    /// Ticks until something is due, if ever.
    pub(crate) fn due(&self) -> Option<u64> {
        let raft = &self.raw.raft;
        if raft.state == StateRole::Leader && raft.prs().iter().count() == 1 {
            // Nobody to beat for, and nobody to miss.
            return None;
        }
        let ticks = if raft.state == StateRole::Leader {
            let beat = raft
                .heartbeat_timeout()
                .saturating_sub(raft.heartbeat_elapsed());
            beat.min(
                raft.election_timeout()
                    .saturating_sub(raft.election_elapsed),
            )
        } else if raft.promotable() {
            raft.randomized_election_timeout()
                .saturating_sub(raft.election_elapsed)
        } else {
            return None;
        };
        Some(ticks.max(1) as u64)
    }

    /// Takes in a message of another copy.
    pub(crate) fn step(&mut self, from: ReplicaHome, message: Message) {
        self.hear(ReplicaId(message.from), from);
        let asks = matches!(
            message.get_msg_type(),
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote
        );
        // Who knows nothing has no say in who leads.
        if asks && self.applied == 0 {
            return;
        }
        if self.has_lost(&message) {
            let problem = "it lost entries that it had acknowledged".to_owned();
            self.unreadable = Some(Removal::Unreadable(problem));
            return;
        }
        // What it cannot use it says in its answers, or drops.
        let _ = self.raw.step(message);
        self.draw();
    }

    /// A leader's heartbeat names what is committed of the entries that this copy acknowledged: one
    /// that it does not have went with a disk that lied, or with an older copy of the disk that was
    /// put back. Raft would panic.
    fn has_lost(&self, message: &Message) -> bool {
        message.get_msg_type() == MessageType::MsgHeartbeat
            && message.commit > self.raw.raft.raft_log.last_index()
    }

    /// Whom the group does not know yet is remembered, for the answer.
    fn hear(&mut self, replica: ReplicaId, home: ReplicaHome) {
        if self.membership.homes.contains_key(&replica) {
            return;
        }
        self.heard.insert(replica, home);
        while self.heard.len() > HEARD_MAX {
            self.heard.pop_first();
        }
    }

    pub(crate) fn read(&mut self, ticket: Ticket) -> Result<Old, HostRefusal> {
        self.lead()?;
        self.asked.push(ticket);
        Ok(Old(None))
    }

    pub(crate) fn transfer(&mut self, to: ReplicaId) {
        self.raw.transfer_leader(to.0);
        self.draw();
    }

    /// Whether this one may be asked.
    fn lead(&self) -> Result<(), HostRefusal> {
        if !self.is_leader() {
            return Err(HostRefusal::NotLeader(self.leader()));
        }
        let reads = self.asked.len() + self.confirming.len() + self.confirmed.len();
        let entries = self.held.len() + self.waiting.len();
        if entries + reads >= self.options.questions_max {
            return Err(HostRefusal::Busy);
        }
        Ok(())
    }

    /// On which node the leader is, as far as this one knows.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        let leader = ReplicaId(self.raw.raft.leader_id);
        self.home_of(leader).map(|home| home.node)
    }

    /// Where a copy is: as the group says or, for one that it does not know yet, from where it was
    /// heard.
    pub(crate) fn home_of(&self, replica: ReplicaId) -> Option<ReplicaHome> {
        let home = self.membership.homes.get(&replica);
        home.or_else(|| self.heard.get(&replica)).copied()
    }

    pub(crate) const fn membership(&self) -> &GroupMembership {
        &self.membership
    }

    pub(crate) fn voters(&self) -> BTreeSet<ReplicaId> {
        let voters = &self.raw.store().conf().voters;
        voters.iter().map(|id| ReplicaId(*id)).collect()
    }

    /// Who voted before the change that goes on, if one does.
    pub(crate) fn outgoing(&self) -> BTreeSet<ReplicaId> {
        let voters = &self.raw.store().conf().voters_outgoing;
        voters.iter().map(|id| ReplicaId(*id)).collect()
    }

    /// To the leader: who has heard of all that is committed but for a few entries.
    pub(crate) fn current(&self) -> BTreeSet<ReplicaId> {
        if !self.is_leader() {
            return BTreeSet::new();
        }
        let committed = self.raw.raft.raft_log.committed;
        let followers = self.raw.raft.prs().iter();
        let current = followers.filter(|(id, progress)| {
            **id == self.id.0
                || progress.recent_active && progress.matched + NEAR_ENTRIES >= committed
        });
        current.map(|(id, _)| ReplicaId(*id)).collect()
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.raw.raft.state == StateRole::Leader
    }

    pub(crate) fn term(&self) -> u64 {
        self.raw.raft.term
    }

    pub(crate) const fn applied(&self) -> u64 {
        self.applied
    }

    fn say_who_leads(&mut self, out: &mut Vec<HostOutput<M::Output>>) {
        if self.is_leader() {
            self.said = None;
            return;
        }
        let leader = self.leader();
        for ticket in self.asked.drain(..).chain(self.confirming.drain(..)) {
            out.push(HostOutput::Refused {
                group: self.group,
                ticket,
                why: HostRefusal::NotLeader(leader),
            });
        }
        let now = (self.term(), leader);
        if self.said != Some(now) {
            self.said = Some(now);
            out.push(HostOutput::Follows {
                group: self.group,
                term: now.0,
                leader,
            });
        }
    }

    /// Answers all that was asked: nobody will hear of it here any more.
    pub(crate) fn end(&mut self, out: &mut Vec<HostOutput<M::Output>>) {
        for (_, ticket) in std::mem::take(&mut self.waiting).into_values() {
            self.refuse(ticket, HostRefusal::Unknown, out);
        }
        let held = self.take_held().into_iter().map(|(ticket, _)| ticket);
        let asked = self.asked.drain(..).chain(self.confirming.drain(..));
        let unasked: Vec<_> = held
            .chain(asked)
            .chain(self.confirmed.drain(..).map(|(_, ticket)| ticket))
            .collect();
        for ticket in unasked {
            self.refuse(ticket, HostRefusal::NoReplica, out);
        }
    }

    fn refuse(&self, ticket: Ticket, why: HostRefusal, out: &mut Vec<HostOutput<M::Output>>) {
        out.push(HostOutput::Refused {
            group: self.group,
            ticket,
            why,
        });
    }
}
