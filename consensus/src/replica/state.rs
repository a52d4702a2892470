//! The machine and the members as bytes, for disks and other copies.

use std::collections::BTreeMap;

use protobuf::Message as _;
use raft::eraftpb::{Entry, HardState, Snapshot};
use serde::{Deserialize, Serialize};

use super::Replica;
use crate::id::{ReplicaHome, ReplicaId};
use crate::machine::StateMachine;
use crate::membership::GroupMembership;
use crate::memory::RaftLog;
use crate::output::Removal;
use crate::write::Promise;

/// Where a group's log begins: a newcomer has less, and so is sent the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beginning {
    /// Of what counts as its first entry.
    pub(crate) index: u64,
    /// Of the same.
    pub(crate) term: u64,
    /// The newest term that was ever known.
    pub(crate) newest: u64,
}

impl Beginning {
    /// Of a group without a past.
    pub(crate) const NEW: Self = Self {
        index: 1,
        term: 1,
        newest: 1,
    };

    /// What a copy has promised then: nothing.
    pub(crate) const fn promise(self) -> Promise {
        Promise {
            term: self.newest,
            vote: 0,
            commit: self.index,
        }
    }
}

/// What a snapshot holds besides Raft's own.
#[derive(Serialize, Deserialize)]
struct Frozen<'a> {
    membership: GroupMembership,
    #[serde(borrow)]
    machine: &'a [u8],
}

/// What a new group begins with, as a snapshot.
pub(crate) fn creation<M: StateMachine>(
    machine: &M,
    homes: BTreeMap<ReplicaId, ReplicaHome>,
    beginning: Beginning,
) -> Snapshot {
    let voters = homes.keys().map(|id| id.0).collect();
    let mut snapshot = freeze(machine, &GroupMembership::born(homes));
    let meta = snapshot.mut_metadata();
    meta.index = beginning.index;
    meta.term = beginning.term;
    meta.mut_conf_state().voters = voters;
    snapshot
}

fn freeze<M: StateMachine>(machine: &M, membership: &GroupMembership) -> Snapshot {
    let frozen = Frozen {
        membership: membership.clone(),
        machine: &machine.snapshot(),
    };
    Snapshot {
        // Maps of numbers and bytes: encoding them cannot fail.
        data: postcard::to_stdvec(&frozen).unwrap_or_default().into(),
        ..Snapshot::default()
    }
}

pub(super) fn thaw<M: StateMachine>(
    machine: &mut M,
    snapshot: &Snapshot,
) -> Result<GroupMembership, Removal> {
    let frozen: Frozen<'_> = postcard::from_bytes(&snapshot.data)
        .map_err(|error| Removal::Unreadable(error.to_string()))?;
    let restored = machine.restore(frozen.machine);
    restored.map_err(|error| Removal::Foreign(error.to_string()))?;
    Ok(frozen.membership)
}

/// Who has copies, as a snapshot says, whether or not its machine can be read.
pub(crate) fn members(snapshot: &Snapshot) -> Result<GroupMembership, String> {
    let frozen: Frozen<'_> =
        postcard::from_bytes(&snapshot.data).map_err(|error| error.to_string())?;
    Ok(frozen.membership)
}

impl<M: StateMachine> Replica<M> {
    /// The state as a snapshot.
    pub(super) fn freeze(&self) -> Snapshot {
        let mut snapshot = freeze(&self.machine, &self.membership);
        let term = self
            .raw
            .raft
            .raft_log
            .term(self.applied)
            .unwrap_or_default();
        let conf = self.raw.store().conf().clone();
        let meta = snapshot.mut_metadata();
        meta.index = self.applied;
        meta.term = term;
        meta.set_conf_state(conf);
        snapshot
    }
}

/// The log after a snapshot, and what is left of it before.
pub(super) fn memory(
    snapshot: &Snapshot,
    entries: Vec<Entry>,
    hard: HardState,
) -> Result<RaftLog, String> {
    let meta = snapshot.get_metadata();
    let before = (meta.index, meta.term);
    let first = entries.first().map_or(before.0 + 1, |entry| entry.index);
    let gap = (first..)
        .zip(&entries)
        .find(|(index, entry)| *index != entry.index);
    if let Some((index, _)) = gap {
        return Err(format!("entry {index} is missing"));
    }
    let older = entries.windows(2).find(|pair| pair[1].term < pair[0].term);
    if let Some([_, entry]) = older {
        return Err(format!("entry {} is of an older term", entry.index));
    }
    if first > before.0 + 1 {
        return Err(format!("entry {} is missing", before.0 + 1));
    }
    let last = first + entries.len() as u64 - 1;
    if last < before.0.max(hard.commit) {
        return Err(format!("entry {} is missing", last + 1));
    }
    if first > before.0 {
        return Ok(RaftLog::new(snapshot, before, entries, hard));
    }
    let mut memory = RaftLog::new(snapshot, (first - 1, 0), entries, hard);
    // The term before the first one is not known, so that it is of use to nobody.
    memory.cut(first);
    Ok(memory)
}

pub(crate) fn read_snapshot(bytes: &[u8]) -> Result<Snapshot, String> {
    Snapshot::parse_from_bytes(bytes).map_err(|error| error.to_string())
}

pub(super) fn hard(promise: Promise) -> HardState {
    HardState {
        term: promise.term,
        vote: promise.vote,
        commit: promise.commit,
        ..HardState::default()
    }
}

pub(super) fn promise(hard: &HardState) -> Promise {
    Promise {
        term: hard.term,
        vote: hard.vote,
        commit: hard.commit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(terms: &[(u64, u64)]) -> Vec<Entry> {
        let entry = |(index, term): &(u64, u64)| Entry {
            index: *index,
            term: *term,
            ..Entry::default()
        };
        terms.iter().map(entry).collect()
    }

    /// A log after a snapshot at 10 of term 4, committed up to `commit`.
    fn read(terms: &[(u64, u64)], commit: u64) -> Result<(u64, u64), String> {
        let mut snapshot = Snapshot::default();
        snapshot.mut_metadata().index = 10;
        snapshot.mut_metadata().term = 4;
        let promise = Promise {
            commit,
            ..Beginning::NEW.promise()
        };
        let memory = memory(&snapshot, entries(terms), hard(promise))?;
        Ok((memory.first(), memory.last()))
    }

    #[test]
    fn a_log_that_cannot_be_is_told() {
        let missing = |index| Err(format!("entry {index} is missing"));
        assert_eq!(read(&[], 10), Ok((11, 10)));
        assert_eq!(read(&[(11, 4), (12, 5)], 11), Ok((11, 12)));
        assert_eq!(read(&[(8, 3), (9, 4), (10, 4), (11, 4)], 11), Ok((9, 11)));
        assert_eq!(read(&[(12, 4)], 10), missing(11));
        assert_eq!(read(&[(11, 4), (13, 4)], 10), missing(12));
        assert_eq!(read(&[(11, 4)], 12), missing(12));
        assert_eq!(read(&[(8, 3), (9, 4)], 10), missing(10));
        let older = Err("entry 12 is of an older term".to_owned());
        assert_eq!(read(&[(11, 5), (12, 4)], 10), older);
    }
}
