//! What the ledger tells leaders.

use muster_model::id::VcName;

use super::{Ledger, LedgerOutput};
use crate::fence::Fence;
use crate::gang::GangRun;
use crate::order::{HeldTask, NodeReport, OrderAnswer, OrderOutcome, Tell};

/// Leaders of other virtual clusters hear of changes after so many milliseconds.
const TELL_OTHERS_MS: u64 = 200;

/// Which order an answer is to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading<'a> {
    pub(super) vc: &'a VcName,
    pub(super) run: &'a GangRun,
    pub(super) fence: Fence,
}

impl Ledger {
    pub(super) fn answer(
        &self,
        of: &Heading<'_>,
        reply: OrderOutcome,
        out: &mut Vec<LedgerOutput>,
    ) {
        out.push(LedgerOutput::Tell(Tell::Answer(OrderAnswer {
            vc: of.vc.clone(),
            fence: of.fence,
            epoch: self.identity.epoch,
            start: self.identity.start,
            run: of.run.clone(),
            reply,
            free: self.free(),
        })));
    }

    pub(super) fn report(&self, out: &mut Vec<LedgerOutput>) {
        out.push(LedgerOutput::Tell(self.told()));
    }

    /// A report of what there is now.
    pub(super) fn told(&self) -> Tell {
        let tasks = self.grants.values().map(|grant| HeldTask {
            vc: grant.vc.clone(),
            run: grant.run.clone(),
            member: grant.member.clone(),
            standing: grant.standing(),
            holding: grant.holding(),
        });
        Tell::Report(Box::new(NodeReport {
            node: self.identity.node.clone(),
            start: self.identity.start,
            epoch: self.identity.epoch,
            address: self.identity.address.clone(),
            capacity: self.capacity.clone(),
            free: self.free(),
            closed: self.why_closed(),
            has_strays: self.why_unsettled().is_some(),
            tasks: tasks.collect(),
        }))
    }

    /// Where several virtual clusters use the node, the leaders of all hear what one of them did.
    pub(super) fn tell_others(&mut self, out: &mut Vec<LedgerOutput>) {
        if self.told_version == self.version || self.fences.len() < 2 {
            self.tell_at = None;
            return;
        }
        match self.tell_at {
            None => self.tell_at = Some(self.now.plus_millis(TELL_OTHERS_MS)),
            Some(due) if due <= self.now => {
                self.tell_at = None;
                self.told_version = self.version;
                self.report(out);
            }
            Some(_) => {}
        }
    }
}
