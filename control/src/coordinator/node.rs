//! A node as its leader knows it.

use muster_model::node::{Capacity, Free};
use muster_model::time::Time;

use crate::fence::{LedgerEpoch, StartId};
use crate::order::{FreeList, Report};

/// What the newest report and answers of a node say.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) start: StartId,
    pub(super) epoch: LedgerEpoch,
    pub(super) address: String,
    pub(super) capacity: Capacity,
    pub(super) free: FreeList,
    /// Why it takes no new tasks, by its own word, if so.
    pub(super) closed: Option<String>,
    /// Number of the last order of this term.
    pub(super) seq: u64,
    pub(super) next_poll: Time,
    /// It may hold tasks that are no more by what is committed.
    pub(super) unsettled: bool,
    /// It was told to forget tasks, and may not have heard that.
    pub(super) settling: bool,
}

impl Node {
    pub(super) fn new(now: Time, every_ms: u64, report: &Report) -> Self {
        Self {
            start: report.start,
            epoch: report.epoch,
            address: report.address.clone(),
            capacity: report.capacity.clone(),
            free: report.free.clone(),
            closed: report.closed.clone(),
            seq: 0,
            next_poll: now.plus_millis(every_ms),
            unsettled: false,
            settling: false,
        }
    }

    /// Whether it is to be asked what it has, though nobody waits for anything.
    pub(super) const fn is_of_interest(&self) -> bool {
        self.unsettled || self.settling
    }

    /// Takes a newer report; says whether the agent was restarted meanwhile.
    pub(super) fn update(&mut self, report: &Report) -> bool {
        let other_life = (self.start, self.epoch) != (report.start, report.epoch);
        self.start = report.start;
        self.epoch = report.epoch;
        self.address.clone_from(&report.address);
        if other_life || report.free.version >= self.free.version {
            self.capacity = report.capacity.clone();
            self.free = report.free.clone();
            self.closed.clone_from(&report.closed);
        }
        other_life
    }

    /// What is to be had there, if anything.
    pub(super) fn offer(&self) -> Option<Free> {
        self.closed.is_none().then(|| self.free.free.clone())
    }

    pub(super) fn freed(&mut self, start: StartId, free: &FreeList) {
        if start == self.start && free.version > self.free.version {
            self.free = free.clone();
        }
    }

    pub(super) fn polled(&mut self, now: Time, every_ms: u64) {
        self.next_poll = now.plus_millis(every_ms);
    }
}
