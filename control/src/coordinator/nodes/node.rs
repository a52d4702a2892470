//! A node as its leader knows it.

use muster_model::node::{Capacity, Free};
use muster_model::time::Time;

use crate::fence::{LedgerEpoch, StartId};
use crate::order::{FreeList, NodeReport};

/// One life of a node's agent and ledger: an order for another is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coordinator) struct NodeLife {
    pub(in crate::coordinator) start: StartId,
    pub(in crate::coordinator) epoch: LedgerEpoch,
}

/// What a report has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::coordinator) struct ReportChanges {
    /// It is from before something else that the node told.
    pub(in crate::coordinator) is_old: bool,
    /// The agent was restarted, or is new.
    pub(in crate::coordinator) is_other_life: bool,
    /// It has something else than before.
    pub(in crate::coordinator) is_other_capacity: bool,
    /// Something else is to be had there.
    pub(in crate::coordinator) is_other_offer: bool,
    /// It takes tasks again, or takes none any more.
    pub(in crate::coordinator) is_other_mind: bool,
}

/// What the newest report and answers of a node say.
#[derive(Clone, Debug)]
pub(in crate::coordinator) struct ReportedNode {
    pub(in crate::coordinator) life: NodeLife,
    pub(in crate::coordinator) address: String,
    pub(in crate::coordinator) capacity: Capacity,
    pub(in crate::coordinator) free: FreeList,
    /// Why it takes no new tasks, by its own word, if so.
    pub(in crate::coordinator) closed: Option<String>,
    /// Number of the last order of this term.
    seq: u64,
    next_poll: Time,
    /// It may hold tasks that are no more by what is committed, or that its ledger does not know.
    pub(in crate::coordinator) is_unsettled: bool,
    /// It was told to forget tasks, and may not have heard that.
    pub(in crate::coordinator) is_settling: bool,
    /// It let an order wait for too long, or the term began, and it has said nothing since.
    pub(in crate::coordinator) is_mute: bool,
}

impl ReportedNode {
    pub(in crate::coordinator) fn new(now: Time, every_ms: u64, report: NodeReport) -> Self {
        Self {
            life: life_of(&report),
            address: report.address,
            capacity: report.capacity,
            free: report.free,
            closed: report.closed,
            seq: 0,
            next_poll: now.plus_millis(every_ms),
            is_unsettled: false,
            is_settling: false,
            is_mute: false,
        }
    }

    /// Whether it is to be asked what it has, though nobody waits for anything.
    pub(in crate::coordinator) const fn is_restless(&self) -> bool {
        self.is_unsettled || self.is_settling || self.is_mute
    }

    /// When it is to be asked what it has.
    pub(in crate::coordinator) const fn next_poll(&self) -> Time {
        self.next_poll
    }

    /// Takes a report; one that is older than what was told before says nothing but the life.
    pub(in crate::coordinator) fn update(&mut self, report: NodeReport) -> ReportChanges {
        let life = life_of(&report);
        let is_other_life = self.life != life;
        self.life = life;
        self.address = report.address;
        if !is_other_life && report.free.version < self.free.version {
            return ReportChanges {
                is_old: true,
                ..ReportChanges::default()
            };
        }
        let changes = ReportChanges {
            is_old: false,
            is_other_life,
            is_other_capacity: self.capacity != report.capacity,
            is_other_mind: self.closed.is_some() != report.closed.is_some(),
            is_other_offer: offer(&self.closed, &self.free) != offer(&report.closed, &report.free),
        };
        self.capacity = report.capacity;
        self.free = report.free;
        self.closed = report.closed;
        changes
    }

    pub(in crate::coordinator) fn freed(&mut self, start: StartId, free: FreeList) {
        if start == self.life.start && free.version > self.free.version {
            self.free = free;
        }
    }

    pub(in crate::coordinator) fn polled(&mut self, now: Time, every_ms: u64) {
        self.next_poll = now.plus_millis(every_ms);
    }

    pub(in crate::coordinator) const fn begin_term(&mut self) {
        self.seq = 0;
    }

    /// The number of its next order, and whom that is for.
    pub(in crate::coordinator) const fn next_order(&mut self) -> (u64, NodeLife) {
        self.seq += 1;
        (self.seq, self.life)
    }
}

/// What is to be had, if anything.
fn offer<'a>(closed: &Option<String>, free: &'a FreeList) -> Option<&'a Free> {
    closed.is_none().then_some(&free.free)
}

const fn life_of(report: &NodeReport) -> NodeLife {
    NodeLife {
        start: report.start,
        epoch: report.epoch,
    }
}
