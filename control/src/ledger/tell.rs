//! What the ledger tells leaders.

use muster_model::id::VcName;

use super::{Ledger, Output};
use crate::fence::Fence;
use crate::gang::Run;
use crate::order::{Answer, HeldTask, Reply, Report, Tell};

/// Which order an answer is to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading<'a> {
    pub(super) vc: &'a VcName,
    pub(super) run: &'a Run,
    pub(super) fence: Fence,
}

impl Ledger {
    pub(super) fn answer(&self, of: &Heading<'_>, reply: Reply, out: &mut Vec<Output>) {
        out.push(Output::Tell(Tell::Answer(Answer {
            vc: of.vc.clone(),
            fence: of.fence,
            epoch: self.identity.epoch,
            start: self.identity.start,
            run: of.run.clone(),
            reply,
            free: self.free(),
        })));
    }

    pub(super) fn report(&self, out: &mut Vec<Output>) {
        let tasks = self.grants.values().map(|grant| HeldTask {
            vc: grant.vc.clone(),
            run: grant.run.clone(),
            member: grant.member.clone(),
            standing: grant.standing(),
            holding: grant.holding(),
        });
        out.push(Output::Tell(Tell::Report(Box::new(Report {
            node: self.identity.node.clone(),
            start: self.identity.start,
            epoch: self.identity.epoch,
            address: self.identity.address.clone(),
            capacity: self.capacity.clone(),
            free: self.free(),
            tasks: tasks.collect(),
        }))));
    }
}
