//! Who votes in a group, as the disk of one copy tells it: whether the group can do without that copy.

use raft::eraftpb::{ConfState, Entry, EntryType};

use protobuf::Message as _;

use crate::id::{ReplicaId, StoreId};
use crate::membership::{GroupMembership, ReplicaChange, from_raft};
use crate::replica::{members, read_snapshot};

/// Who votes in a group besides a copy of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voting {
    /// Nobody, or perhaps nobody: what was committed may be nowhere else.
    Alone,
    /// Others: they have what was committed.
    Shared,
    /// What says so cannot be read.
    Unknown,
}

impl Voting {
    /// As the copy in `store` has it on disk. `commit` is the last entry that it knew to be committed;
    /// each that comes later may be or not, so that any of those that leaves it alone counts.
    pub(crate) fn of<'a>(
        store: StoreId,
        snapshot: &[u8],
        entries: impl IntoIterator<Item = &'a [u8]>,
        commit: u64,
    ) -> Self {
        if snapshot.is_empty() {
            // It was never told anything, so somebody else has it to tell.
            return Self::Shared;
        }
        let Ok((mut seats, base)) = Seats::read(snapshot) else {
            return Self::Unknown;
        };
        let mut is_alone = seats.has_only(store);
        let entries = entries.into_iter();
        // What cannot be read is told by whoever opens the copy.
        let entries = entries.filter_map(|bytes| Entry::parse_from_bytes(bytes).ok());
        for entry in entries.filter(|entry| entry.index > base && changes_members(entry)) {
            seats.change(&entry.data);
            let is_possible = is_alone && entry.index > commit;
            is_alone = seats.has_only(store) || is_possible;
        }
        if is_alone { Self::Alone } else { Self::Shared }
    }
}

fn changes_members(entry: &Entry) -> bool {
    match entry.get_entry_type() {
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => true,
        EntryType::EntryNormal => false,
    }
}

/// Who has copies, and which of them vote.
struct Seats {
    membership: GroupMembership,
    voters: ConfState,
}

impl Seats {
    /// Those of a snapshot, and the index of its last entry.
    fn read(snapshot: &[u8]) -> Result<(Self, u64), String> {
        let snapshot = read_snapshot(snapshot)?;
        let seats = Self {
            membership: members(&snapshot)?,
            voters: snapshot.get_metadata().get_conf_state().clone(),
        };
        Ok((seats, snapshot.get_metadata().index))
    }

    /// Whether the copy in this store is the only one that votes. Who voted before a change that is
    /// still being made is not counted: when it is made they have no say.
    fn has_only(&self, store: StoreId) -> bool {
        let [voter] = self.voters.voters[..] else {
            return false;
        };
        let home = self.membership.homes.get(&ReplicaId(voter));
        home.is_some_and(|home| home.store == store)
    }

    /// A change, refused where the group would refuse it.
    fn change(&mut self, bytes: &[u8]) {
        let Some((_, changes)) = from_raft(bytes) else {
            return;
        };
        if self.membership.check(&changes, &self.voters).is_err() {
            return;
        }
        let voters = &mut self.voters.voters;
        for change in changes {
            self.membership.make(change);
            match change {
                ReplicaChange::Add(..) => {}
                ReplicaChange::Promote(id) => voters.push(id.0),
                ReplicaChange::Demote(id) => voters.retain(|voter| *voter != id.0),
                ReplicaChange::Remove(id) => {
                    voters.retain(|voter| *voter != id.0);
                    self.membership.homes.remove(&id);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::id::{NodeId, ReplicaHome};
    use crate::machine::journal::Journal;
    use crate::membership::to_raft;
    use crate::replica::{Beginning, creation};

    const MINE: StoreId = StoreId(101);

    fn home(node: u64) -> ReplicaHome {
        ReplicaHome {
            node: NodeId(node),
            store: StoreId(100 + node),
        }
    }

    /// A snapshot at entry 1 of a group whose copies on these nodes vote.
    fn born(nodes: u64) -> Vec<u8> {
        let homes: BTreeMap<_, _> = (1..=nodes)
            .map(|node| (ReplicaId(node), home(node)))
            .collect();
        let snapshot = creation(&Journal::default(), homes, Beginning::NEW);
        snapshot.write_to_bytes().unwrap()
    }

    fn entry(index: u64, changes: &[ReplicaChange]) -> Vec<u8> {
        let mut entry = Entry {
            index,
            data: to_raft(changes).unwrap().write_to_bytes().unwrap().into(),
            ..Entry::default()
        };
        entry.set_entry_type(EntryType::EntryConfChangeV2);
        entry.write_to_bytes().unwrap()
    }

    fn check(nodes: u64, changes: &[&[ReplicaChange]], commit: u64, expect: Voting) {
        let entries = (2..).zip(changes).map(|(index, all)| entry(index, all));
        let entries: Vec<_> = entries.collect();
        let entries = entries.iter().map(Vec::as_slice);
        let found = Voting::of(MINE, &born(nodes), entries, commit);
        assert_eq!(found, expect, "{nodes} {changes:?} {commit}");
    }

    #[test]
    fn who_is_the_only_voter_is_known_from_the_disk() {
        let (second, third) = (ReplicaId(2), ReplicaId(3));
        let add = [ReplicaChange::Add(second, home(2))];
        let promote = [ReplicaChange::Promote(second)];
        check(1, &[], 1, Voting::Alone);
        check(3, &[], 1, Voting::Shared);
        check(1, &[&add], 2, Voting::Alone);
        check(1, &[&add, &promote], 3, Voting::Shared);
        let removed = [ReplicaChange::Remove(second), ReplicaChange::Demote(third)];
        check(3, &[&removed], 2, Voting::Alone);
        // Not known to be committed, either way.
        check(1, &[&add, &promote], 2, Voting::Alone);
        check(3, &[&removed], 1, Voting::Alone);
        // The group refuses it.
        check(1, &[&promote], 2, Voting::Alone);
        // The only voter is another.
        check(
            2,
            &[&[ReplicaChange::Demote(ReplicaId(1))]],
            2,
            Voting::Shared,
        );
    }

    #[test]
    fn what_cannot_be_read_says_nothing() {
        assert_eq!(Voting::of(MINE, b"", [], 0), Voting::Shared);
        assert_eq!(Voting::of(MINE, b"no snapshot", [], 0), Voting::Unknown);
        let entries = [&b"no entry"[..]];
        assert_eq!(Voting::of(MINE, &born(1), entries, 9), Voting::Alone);
    }
}
