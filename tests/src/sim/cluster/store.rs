//! A machine's log store, as a table in memory: what was written is there after a crash, and nothing
//! else.

use std::collections::BTreeMap;

use muster_consensus::{
    Damaged, GroupId, Promise, ReplicaId, StoreId, Stored, StoredChange, StoredGroup, Voting, Write,
};

/// What is kept of a group.
#[derive(Clone, Debug)]
enum Row {
    Here {
        replica: ReplicaId,
        promise: Promise,
    },
    Gone(ReplicaId),
    Damaged(ReplicaId),
}

/// A log store.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) id: StoreId,
    rows: BTreeMap<GroupId, Row>,
    entries: BTreeMap<(GroupId, u64), Vec<u8>>,
    snapshots: BTreeMap<GroupId, Vec<u8>>,
}

impl Store {
    pub(super) const fn new(id: StoreId) -> Self {
        Self {
            id,
            rows: BTreeMap::new(),
            entries: BTreeMap::new(),
            snapshots: BTreeMap::new(),
        }
    }

    /// All of it is durable.
    pub(super) fn write(&mut self, write: &Write) {
        for kept in &write.changes {
            self.keep(kept);
        }
    }

    fn keep(&mut self, kept: &StoredChange) {
        match kept {
            StoredChange::Promise(group, replica, promise) => {
                let (replica, promise) = (*replica, *promise);
                self.rows.insert(*group, Row::Here { replica, promise });
            }
            StoredChange::Entries(group, first, entries) => {
                self.forget(*group, *first, u64::MAX);
                let places = (*first..).map(|index| (*group, index));
                self.entries.extend(places.zip(entries.iter().cloned()));
            }
            StoredChange::Snapshot { group, bytes, keep } => {
                self.snapshots.insert(*group, bytes.clone());
                self.forget(*group, 0, keep.unwrap_or(u64::MAX));
            }
            StoredChange::Gone(group, replica) => {
                self.snapshots.remove(group);
                self.forget(*group, 0, u64::MAX);
                self.rows.insert(*group, Row::Gone(*replica));
            }
        }
    }

    /// Drops the entries of a group from `first` on and before `end`.
    fn forget(&mut self, group: GroupId, first: u64, end: u64) {
        let void = self.entries.range((group, first)..(group, end));
        let void: Vec<_> = void.map(|(place, _)| *place).collect();
        for place in void {
            self.entries.remove(&place);
        }
    }

    /// The copy of a group, if there is one, cannot be read any more.
    pub(super) fn damage(&mut self, group: GroupId) {
        if let Some(row) = self.rows.get_mut(&group)
            && let Row::Here { replica, .. } = row
        {
            *row = Row::Damaged(*replica);
        }
    }

    /// Whether it has a copy of a group.
    pub(super) fn has(&self, group: GroupId) -> bool {
        matches!(self.rows.get(&group), Some(Row::Here { .. }))
    }

    /// The first and the last entry of a group's log, if it has any.
    pub(super) fn ends(&self, group: GroupId) -> Option<(u64, u64)> {
        let mut log = self.entries.range((group, 0)..=(group, u64::MAX));
        let (_, first) = log.next()?.0;
        let last = log.next_back().map_or(*first, |((_, last), _)| *last);
        Some((*first, last))
    }

    /// The groups that it has copies of.
    pub(super) fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.rows.keys().copied().filter(|group| self.has(*group))
    }

    /// How many copies of logs it has.
    pub(super) fn copies(&self) -> usize {
        let here = |row: &&Row| matches!(row, Row::Here { .. });
        self.rows.values().filter(here).count()
    }

    /// What a process finds.
    pub(super) fn load(&self) -> Vec<StoredGroup> {
        let found = |(group, row): (&GroupId, &Row)| match row {
            Row::Gone(replica) => StoredGroup::Gone(*group, *replica),
            Row::Damaged(replica) => StoredGroup::Damaged(Damaged {
                group: *group,
                replica: *replica,
                problem: "its checksum is wrong".to_owned(),
                voting: Voting::Unknown,
            }),
            Row::Here { replica, promise } => StoredGroup::Replica(Stored {
                group: *group,
                replica: *replica,
                promise: *promise,
                snapshot: self.snapshots.get(group).cloned().unwrap_or_default(),
                entries: self.log(*group),
            }),
        };
        self.rows.iter().map(found).collect()
    }

    fn log(&self, group: GroupId) -> Vec<Vec<u8>> {
        let entries = self.entries.range((group, 0)..=(group, u64::MAX));
        entries.map(|(_, entry)| entry.clone()).collect()
    }
}
