//! What a store is asked to make durable.

use crate::id::{GroupId, ReplicaId};

/// Changes of all groups that become durable together, in this order, with one sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// Counts writes; given back when it is durable.
    pub number: u64,
    /// The changes.
    pub changes: Vec<StoredChange>,
}

/// What a replica has promised: durable before anybody hears of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Promise {
    /// The newest term it knows.
    pub term: u64,
    /// Whom it voted for in this term, 0 for nobody.
    pub vote: u64,
    /// Up to where it knew entries to be committed. May be older than the truth.
    pub commit: u64,
}

/// One change of what is kept of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredChange {
    /// The replica and its promise.
    Promise(GroupId, ReplicaId, Promise),
    /// Entries from this index on; what was there from this index on is void.
    Entries(GroupId, u64, Vec<Vec<u8>>),
    /// The state up to an index; older entries go.
    Snapshot {
        /// Of which group.
        group: GroupId,
        /// Raft's snapshot, whole.
        bytes: Vec<u8>,
        /// The first entry that stays; `None`: none stays.
        keep: Option<u64>,
    },
    /// The replica is no more, and no replica of this group comes back here under its number or
    /// a smaller one.
    Gone(GroupId, ReplicaId),
}
