//! The gangs that hold or claim leaves.

use std::collections::{BTreeMap, BTreeSet};

use crate::gang::{Gang, GangNumber, Placement, Swap};
use crate::index::{at, small};

/// What is shown of a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GangState {
    /// It holds its leaves.
    Allocated {
        /// It lost its quota to another gang and runs as an opportunistic one.
        lazily_preempted: bool,
    },
    /// It claims its leaves and waits for their holders to go.
    Preempting,
}

/// How a gang has its leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllocationMode {
    /// Within its cluster's quota.
    Guaranteed,
    /// On what others don't use.
    Opportunistic,
    /// Not yet: it claims them.
    Preempting,
}

/// A gang that is somewhere.
#[derive(Clone, Debug)]
pub(crate) struct PlacedGang {
    pub(crate) gang: Gang,
    pub(crate) placement: Placement,
    pub(crate) mode: AllocationMode,
    /// Which pods have not ended.
    pub(crate) alive: Vec<bool>,
    /// When it came, counted in gangs.
    pub(crate) seq: u64,
    /// What its claim exchanged, to be undone if it gives up.
    pub(crate) swaps: Vec<Swap>,
    /// Whom its claim demoted, likewise.
    pub(crate) demoted: Vec<GangNumber>,
}

impl PlacedGang {
    /// As what its pods' shares of machines count: whether they may be evicted for others.
    pub(crate) const fn shares_as(&self) -> AllocationMode {
        match self.mode {
            AllocationMode::Opportunistic if self.gang.stays => AllocationMode::Guaranteed,
            mode => mode,
        }
    }

    pub(crate) fn state(&self) -> GangState {
        match self.mode {
            AllocationMode::Preempting => GangState::Preempting,
            AllocationMode::Guaranteed => GangState::Allocated {
                lazily_preempted: false,
            },
            AllocationMode::Opportunistic => GangState::Allocated {
                lazily_preempted: !self.gang.is_opportunistic(),
            },
        }
    }
}

/// All of them, by slot: a small number that leaves refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlacedGangs {
    slots: Vec<Option<PlacedGang>>,
    free: Vec<u32>,
    by_id: BTreeMap<GangNumber, u32>,
    /// Guaranteed and preempting ones by cluster: (priority, age reversed, slot).
    within: BTreeMap<String, BTreeSet<(i32, u64, u32)>>,
    /// Those that wait for others to give way.
    claiming: BTreeSet<GangNumber>,
    /// Leaves of guaranteed and preempting ones by cluster and user, where a user is named.
    held: BTreeMap<String, BTreeMap<String, u64>>,
    next_seq: u64,
}

impl PlacedGangs {
    pub(crate) fn get(&self, slot: u32) -> Option<&PlacedGang> {
        self.slots.get(at(slot))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut PlacedGang> {
        self.slots.get_mut(at(slot))?.as_mut()
    }

    pub(crate) fn slot(&self, id: GangNumber) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn by_id(&self, id: GangNumber) -> Option<&PlacedGang> {
        self.get(self.slot(id)?)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &PlacedGang> {
        self.by_id.values().filter_map(|slot| self.get(*slot))
    }

    /// Those that wait for others to give way, by id.
    pub(crate) fn claiming(&self) -> impl Iterator<Item = GangNumber> {
        self.claiming.iter().copied()
    }

    /// Guaranteed and preempting gangs of a cluster below a priority, the least first.
    pub(crate) fn below(&self, vc: &str, priority: i32) -> impl Iterator<Item = u32> {
        let gangs = self.within.get(vc).into_iter().flatten();
        gangs
            .take_while(move |entry| entry.0 < priority)
            .map(|entry| entry.2)
    }

    fn entry(&self, slot: u32) -> Option<(i32, u64, u32)> {
        let running = self.get(slot)?;
        let counts = running.mode != AllocationMode::Opportunistic;
        counts.then_some((running.gang.priority, u64::MAX - running.seq, slot))
    }

    fn file(&mut self, slot: u32) {
        if let (Some(entry), Some(running)) = (self.entry(slot), self.slots[at(slot)].as_ref()) {
            if let Some(within) = self.within.get_mut(&running.gang.vc) {
                within.insert(entry);
            } else {
                let vc = running.gang.vc.clone();
                self.within.insert(vc, BTreeSet::from([entry]));
            }
            if running.mode == AllocationMode::Preempting {
                self.claiming.insert(running.gang.id);
            }
            self.count(slot, u64::wrapping_add);
        }
    }

    fn unfile(&mut self, slot: u32) {
        if let (Some(entry), Some(running)) = (self.entry(slot), self.slots[at(slot)].as_ref())
            && let Some(within) = self.within.get_mut(&running.gang.vc)
        {
            within.remove(&entry);
            self.claiming.remove(&running.gang.id);
            self.count(slot, u64::wrapping_sub);
        }
    }

    fn count(&mut self, slot: u32, change: fn(u64, u64) -> u64) {
        let Some(running) = self.slots[at(slot)].as_ref() else {
            return;
        };
        let gang = &running.gang;
        if gang.user.is_empty() {
            return;
        }
        let leaves = running.placement.leaves().count() as u64;
        let users = self.held.entry(gang.vc.clone()).or_default();
        let held = users.entry(gang.user.clone()).or_default();
        *held = change(*held, leaves);
        if *held == 0 {
            users.remove(&gang.user);
        }
    }

    /// Checks what users have, and who waits for others, against a count from scratch.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let mut held: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        let counts = |running: &&PlacedGang| running.mode != AllocationMode::Opportunistic;
        for running in self.all().filter(counts) {
            let gang = &running.gang;
            let leaves = running.placement.leaves().count() as u64;
            // A gang has none left if all its machines are gone.
            if !gang.user.is_empty() && leaves > 0 {
                *held.entry((&gang.vc, &gang.user)).or_default() += leaves;
            }
        }
        let claiming = self
            .all()
            .filter(|it| it.mode == AllocationMode::Preempting);
        if !claiming.map(|it| it.gang.id).eq(self.claiming()) {
            return Err("which gangs wait for others to give way is noted wrong".to_owned());
        }
        let kept = self.held.iter().flat_map(|(vc, users)| {
            let each = users.iter();
            each.map(move |(user, leaves)| ((&**vc, &**user), *leaves))
        });
        match held == kept.collect() {
            true => Ok(()),
            false => Err("what users have is counted wrong".to_owned()),
        }
    }

    /// Leaves that the guaranteed and preempting gangs of a user have in a cluster.
    pub(crate) fn held_by(&self, vc: &str, user: &str) -> u64 {
        let users = self.held.get(vc);
        users
            .and_then(|users| users.get(user))
            .copied()
            .unwrap_or(0)
    }

    pub(crate) fn insert(&mut self, gang: Gang, placement: Placement, mode: AllocationMode) -> u32 {
        let id = gang.id;
        let running = PlacedGang {
            alive: vec![true; placement.pods.len()],
            gang,
            placement,
            mode,
            seq: self.next_seq,
            swaps: Vec::new(),
            demoted: Vec::new(),
        };
        self.next_seq += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            small(self.slots.len()) - 1
        });
        self.slots[at(slot)] = Some(running);
        self.by_id.insert(id, slot);
        self.file(slot);
        slot
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<PlacedGang> {
        self.unfile(slot);
        let running = self.slots[at(slot)].take()?;
        self.by_id.remove(&running.gang.id);
        self.free.push(slot);
        Some(running)
    }

    /// Takes a pod's leaves away.
    pub(crate) fn release_pod(&mut self, slot: u32, pod: u32) {
        self.unfile(slot);
        let running = self.get_mut(slot);
        if let Some(pod) = running.and_then(|running| running.placement.pods.get_mut(at(pod))) {
            pod.clear();
        }
        self.file(slot);
    }

    pub(crate) fn set_mode(&mut self, slot: u32, mode: AllocationMode) {
        self.unfile(slot);
        if let Some(running) = self.get_mut(slot) {
            running.mode = mode;
        }
        self.file(slot);
    }

    /// Restores when a gang came.
    pub(crate) fn set_seq(&mut self, slot: u32, seq: u64) {
        self.unfile(slot);
        if let Some(running) = self.get_mut(slot) {
            running.seq = seq;
        }
        self.file(slot);
    }

    /// Counts on from where another registry is.
    pub(crate) fn continue_after(&mut self, other: &Self) {
        self.next_seq = other.next_seq;
    }
}
