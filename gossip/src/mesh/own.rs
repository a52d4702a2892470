//! What this node writes: its node record and its votes.

use muster_model::time::Time;

use super::{Mesh, MeshEvent, MeshOutput};
use crate::member::{Incarnation, MemberId};
use crate::record::{NodeBody, Record, RecordKey, RecordVersion, SuspicionLevel, Vote, WatchBody};
use crate::store::NewestRecords;

/// Between two versions of the votes, ms.
const VOTES_MS: u64 = 100;
/// The same for one with more than [`VOTES_FEW`] votes: where many are lost at once, every node has
/// much to say, and all of it goes to all.
const VOTES_MANY_MS: u64 = 500;
/// Its changes of so long are written together, ms: when a cut ends, all it lost come back at once.
const GATHER_MS: u64 = 100;
/// More than these are many.
const VOTES_FEW: usize = 2;
/// Between two versions of the node record after the first few, ms.
const NODE_MS: u64 = 1_000;
/// The same where others wait for what it says, ms. Others take five records a second of a node.
const NEWS_MS: u64 = 250;
/// The same for a node that has a clone, ms.
const CLONED_NODE_MS: u64 = 10_000;
/// Node records that may be written at once.
const NODE_BURST: u32 = 3;
/// Another writes with this node's key if it answers back so often ...
const CLONE_WRITES: u32 = 2;
/// ... within this, ms.
const CLONE_MS: u64 = 60_000;

/// What this node says, and what of that is written.
#[derive(Clone, Debug)]
pub(super) struct OwnRecords {
    incarnation: Incarnation,
    /// What to say that is not written yet.
    to_say: Option<NodeBody>,
    /// Whether others wait for it.
    is_news: bool,
    said: Option<NodeBody>,
    node: u64,
    /// Writes in the current burst, and when the last one was.
    burst: u32,
    node_at: Time,
    /// Since when the votes may be other than those written.
    votes_dirty: Option<Time>,
    /// Votes of an earlier life are about: written even if there are none now.
    votes_void: bool,
    votes: Vec<Vote>,
    watch: u64,
    votes_at: Option<Time>,
    clones: u32,
    cloned_at: Time,
    cloned: bool,
}

impl OwnRecords {
    /// A start with this incarnation, or with a later one if the records of an earlier life say
    /// that it is not new.
    pub(super) fn new(incarnation: Incarnation, store: &NewestRecords, me: MemberId) -> Self {
        let before = [RecordKey::Node(me), RecordKey::Watch(me)]
            .map(|key| store.version(key).incarnation)
            .into_iter()
            .max();
        let incarnation = incarnation.max(Incarnation(before.unwrap_or(0) + 1));
        Self {
            incarnation,
            to_say: None,
            is_news: false,
            said: None,
            node: 0,
            burst: 0,
            node_at: Time(0),
            votes_dirty: (incarnation > Incarnation(1)).then_some(Time(0)),
            votes_void: incarnation > Incarnation(1),
            votes: Vec::new(),
            watch: 0,
            votes_at: None,
            clones: 0,
            cloned_at: Time(0),
            cloned: false,
        }
    }

    pub(super) const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    pub(super) const fn is_cloned(&self) -> bool {
        self.cloned
    }

    pub(super) fn say(&mut self, body: NodeBody) {
        self.to_say = (self.said.as_ref() != Some(&body)).then_some(body);
        self.is_news &= self.to_say.is_some();
    }

    /// The same where others wait for it.
    pub(super) fn say_news(&mut self, body: NodeBody) {
        self.is_news = true;
        self.say(body);
    }

    /// Whether it said that somebody is gone.
    pub(super) fn misses(&self) -> bool {
        self.votes
            .iter()
            .any(|vote| vote.level == SuspicionLevel::Gone)
    }

    pub(super) fn votes_changed(&mut self, now: Time) {
        self.votes_dirty.get_or_insert(now);
    }

    pub(super) fn deadline(&self, now: Time) -> Option<Time> {
        let node = self.to_say.as_ref().map(|_| self.node_due(now));
        let votes = self.votes_dirty.map(|since| self.votes_due(since));
        [node, votes].into_iter().flatten().min()
    }

    /// Clones answer each other: what they write must not become a storm.
    fn node_due(&self, now: Time) -> Time {
        let pause = match (self.cloned, self.is_news) {
            (true, _) => CLONED_NODE_MS,
            (false, true) => NEWS_MS,
            (false, false) => NODE_MS,
        };
        let rested = now.micros_since(self.node_at) >= pause * 1000;
        if rested || (self.burst < NODE_BURST && !self.cloned) {
            now
        } else {
            self.node_at.plus_millis(pause)
        }
    }

    fn votes_due(&self, since: Time) -> Time {
        let many = self.votes.len() > VOTES_FEW;
        let pause = if many { VOTES_MANY_MS } else { VOTES_MS };
        let rested = self.votes_at.map_or(Time(0), |at| at.plus_millis(pause));
        let gathered = if many {
            since.plus_millis(GATHER_MS)
        } else {
            since
        };
        rested.max(gathered)
    }
}

impl Mesh {
    /// Writes what is new and due.
    pub(super) fn publish(&mut self, now: Time, out: &mut Vec<MeshOutput>) {
        if self.own.to_say.is_some() && self.own.node_due(now) <= now {
            self.publish_node(now, out);
        }
        let due = self.own.votes_dirty.map(|since| self.own.votes_due(since));
        if due.is_some_and(|at| at <= now) {
            self.publish_votes(now, out);
        }
    }

    fn publish_node(&mut self, now: Time, out: &mut Vec<MeshOutput>) {
        let Some(body) = self.own.to_say.take() else {
            return;
        };
        let rested = now.micros_since(self.own.node_at) >= NODE_MS * 1000;
        self.own.burst = if rested { 1 } else { self.own.burst + 1 };
        self.own.is_news = false;
        self.own.node_at = now;
        self.own.node += 1;
        let number = self.own.node;
        let key = RecordKey::Node(self.identity.member);
        if self.write(now, (key, number), &body, out) {
            self.said_at.insert(self.identity.member, now);
            self.view.soil(now);
            self.own.said = Some(body);
        }
    }

    fn publish_votes(&mut self, now: Time, out: &mut Vec<MeshOutput>) {
        self.own.votes_dirty = None;
        let votes = self.watch.votes();
        if votes == self.own.votes && !self.own.votes_void {
            return;
        }
        self.own.votes_void = false;
        self.own.votes_at = Some(now);
        self.own.watch += 1;
        self.own.votes.clone_from(&votes);
        let key = RecordKey::Watch(self.identity.member);
        let before = self.store.get(key).cloned();
        if self.write(now, (key, self.own.watch), &WatchBody { votes }, out)
            && let Some(after) = self.store.get(key).cloned()
        {
            self.apply_votes(now, before.as_deref(), &after);
        }
    }

    /// Signs, stores and pushes a record of this node.
    fn write<B: serde::Serialize>(
        &mut self,
        now: Time,
        (key, number): (RecordKey, u64),
        body: &B,
        out: &mut Vec<MeshOutput>,
    ) -> bool {
        let version = RecordVersion {
            incarnation: self.own.incarnation.0,
            number,
        };
        let cluster = self.identity.cluster;
        let Ok(record) = Record::sign(cluster, key, version, body, &*self.signer) else {
            self.counters.records_malformed += 1;
            return false;
        };
        let record = std::sync::Arc::new(record);
        if matches!(key, RecordKey::Node(_)) {
            out.push(MeshOutput::Keep(record.clone()));
        }
        self.put(record);
        self.push.add(now, key, None);
        true
    }

    /// Whether somebody else wrote this with the key of this node.
    pub(super) fn is_foreign(&self, record: &Record) -> bool {
        record.key == RecordKey::Node(self.identity.member)
            || record.key == RecordKey::Watch(self.identity.member)
    }

    /// Something newer than what this node wrote carries its signature: an earlier life whose
    /// disk was lost, or another machine with the same key. Speaks up with a higher incarnation;
    /// if that is answered again and again, it is a clone.
    pub(super) fn foreign(&mut self, now: Time, record: &Record, out: &mut Vec<MeshOutput>) {
        if record.version.incarnation < self.own.incarnation.0 {
            // Of an earlier life: what this one writes replaces it.
            self.own.votes_void |= matches!(record.key, RecordKey::Watch(_));
            self.own.votes_changed(now);
            return;
        }
        let higher = Incarnation(record.version.incarnation.saturating_add(1));
        self.own.incarnation = self.own.incarnation.max(higher);
        if let Some(said) = self.own.said.take() {
            self.own.to_say.get_or_insert(said);
        }
        self.own.votes_void = true;
        self.own.votes_changed(now);
        if now.micros_since(self.own.cloned_at) > CLONE_MS * 1000 {
            self.own.clones = 0;
        }
        self.own.cloned_at = now;
        self.own.clones += 1;
        self.counters.clones += 1;
        if self.own.clones >= CLONE_WRITES && !self.own.cloned {
            self.own.cloned = true;
            out.push(MeshOutput::Event(MeshEvent::Cloned));
        }
    }
}
