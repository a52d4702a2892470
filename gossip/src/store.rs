//! The records a node has, the newest of each key, and their digest.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::frame::BUCKETS;
use crate::member::{MEMBERS_MAX, MemberId};
use crate::member_set::MemberSet;
use crate::record::{DocumentId, Record, RecordKey, RecordVersion, Vote};

/// Most documents there may be.
pub(crate) const DOCUMENTS_MAX: usize = 64;

/// The newest record of each key.
#[derive(Clone, Debug)]
pub(crate) struct NewestRecords {
    cluster: Option<Arc<Record>>,
    members: Vec<Option<Arc<Record>>>,
    nodes: Vec<Option<Arc<Record>>>,
    watches: Vec<Option<Arc<Record>>>,
    /// Watchers with votes.
    voters: MemberSet,
    documents: BTreeMap<DocumentId, Arc<Record>>,
    replacement: Option<Arc<Record>>,
    buckets: Vec<u64>,
    root: u64,
}

impl Default for NewestRecords {
    fn default() -> Self {
        Self {
            cluster: None,
            members: Vec::new(),
            nodes: Vec::new(),
            watches: Vec::new(),
            voters: MemberSet::new(),
            documents: BTreeMap::new(),
            replacement: None,
            buckets: vec![0; BUCKETS],
            root: 0,
        }
    }
}

/// The bucket a key belongs to.
pub(crate) const fn bucket(key: RecordKey) -> usize {
    let (kind, number) = match key {
        RecordKey::Cluster => (0, 0),
        RecordKey::Replacement => (0, 1),
        RecordKey::Document(id) => (1, id.0 as usize),
        RecordKey::Member(member) => (2, member.0 as usize),
        RecordKey::Node(member) => (3, member.0 as usize),
        RecordKey::Watch(member) => (4, member.0 as usize),
    };
    (number * 5 + kind) % BUCKETS
}

impl NewestRecords {
    /// The record of this key.
    pub(crate) fn get(&self, key: RecordKey) -> Option<&Arc<Record>> {
        match key {
            RecordKey::Cluster => self.cluster.as_ref(),
            RecordKey::Member(member) => self.members.get(member.index())?.as_ref(),
            RecordKey::Node(member) => self.nodes.get(member.index())?.as_ref(),
            RecordKey::Watch(member) => self.watches.get(member.index())?.as_ref(),
            RecordKey::Document(id) => self.documents.get(&id),
            RecordKey::Replacement => self.replacement.as_ref(),
        }
    }

    /// The version of this key, the lowest if there is none.
    pub(crate) fn version(&self, key: RecordKey) -> RecordVersion {
        self.get(key)
            .map_or_else(RecordVersion::default, |record| record.version)
    }

    /// What a watcher votes.
    pub(crate) fn votes(&self, watcher: MemberId) -> &[Vote] {
        let record = self.get(RecordKey::Watch(watcher));
        record.map_or(&[], |record| record.votes().unwrap_or_default())
    }

    /// Votes as they were cast, by watcher, ascending. Watchers without a vote are not in it.
    pub(crate) fn cast(&self) -> impl Iterator<Item = (MemberId, &[Vote])> {
        let voters = self.voters.iter();
        voters.map(|watcher| (watcher, self.votes(watcher)))
    }

    /// How many watchers have votes.
    pub(crate) const fn voters(&self) -> usize {
        self.voters.len()
    }

    /// Replaces what there is of the record's key, and gives that back. The caller has verified the
    /// record and found it newer.
    pub(crate) fn put(&mut self, record: Arc<Record>) -> Option<Arc<Record>> {
        let key = record.key;
        let hash = record.hash;
        let before = match key {
            RecordKey::Cluster => self.cluster.replace(record),
            RecordKey::Member(member) => replace(&mut self.members, member, Some(record)),
            RecordKey::Node(member) => replace(&mut self.nodes, member, Some(record)),
            RecordKey::Watch(member) => {
                let votes = matches!(record.votes(), Ok([_, ..]));
                self.voters.set(member, votes);
                replace(&mut self.watches, member, Some(record))
            }
            RecordKey::Document(id) => self.documents.insert(id, record),
            RecordKey::Replacement => self.replacement.replace(record),
        };
        let known = before.as_ref().map_or(0, |record| record.hash);
        self.shift(key, hash.wrapping_sub(known));
        before
    }

    /// Forgets what one that is no member any more said.
    pub(crate) fn forget(&mut self, member: MemberId) {
        for (key, table) in [
            (RecordKey::Node(member), &mut self.nodes),
            (RecordKey::Watch(member), &mut self.watches),
        ] {
            if let Some(before) = replace(table, member, None) {
                let change = before.hash.wrapping_neg();
                self.buckets[bucket(key)] = self.buckets[bucket(key)].wrapping_add(change);
                self.root = self.root.wrapping_add(change);
            }
        }
        self.voters.remove(member);
    }

    fn shift(&mut self, key: RecordKey, change: u64) {
        let bucket = &mut self.buckets[bucket(key)];
        *bucket = bucket.wrapping_add(change);
        self.root = self.root.wrapping_add(change);
    }

    /// Digest of all records: equal with another's if both have the same.
    pub(crate) const fn root(&self) -> u64 {
        self.root
    }

    /// Digest by bucket.
    pub(crate) fn buckets(&self) -> &[u64] {
        &self.buckets
    }

    /// All records: cluster and documents first, then by member.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Record>> {
        let by_member = [&self.members, &self.nodes, &self.watches];
        self.cluster
            .iter()
            .chain(&self.replacement)
            .chain(self.documents.values())
            .chain(by_member.into_iter().flatten().flatten())
    }

    /// Whether there is room for a record of this key.
    pub(crate) fn has_room(&self, key: RecordKey) -> bool {
        match key {
            RecordKey::Cluster | RecordKey::Replacement => true,
            RecordKey::Member(member) | RecordKey::Node(member) | RecordKey::Watch(member) => {
                member.index() < MEMBERS_MAX
            }
            RecordKey::Document(id) => {
                self.documents.contains_key(&id) || self.documents.len() < DOCUMENTS_MAX
            }
        }
    }

    /// The documents' headers.
    pub(crate) fn documents(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.documents.values()
    }
}

fn replace(
    table: &mut Vec<Option<Arc<Record>>>,
    member: MemberId,
    record: Option<Arc<Record>>,
) -> Option<Arc<Record>> {
    if table.len() <= member.index() {
        // No more: three such tables are most of what a node of a large cluster keeps.
        table.reserve_exact(member.index() + 1 - table.len());
        table.resize(member.index() + 1, None);
    }
    std::mem::replace(&mut table[member.index()], record)
}
