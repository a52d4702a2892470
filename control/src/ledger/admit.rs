//! Which orders a node admits: those for its ledger and its agent's present life, with a higher
//! fence than any before.
//!
//! Only a rise of the term or generation is made durable. Orders from before a crash may carry
//! a higher number than what the disk remembers, but they name the agent's old life and are
//! refused for that. So Go needs no write of its own.

use muster_model::id::VcName;

use super::tell::Heading;
use super::{Ledger, LedgerChange, LedgerOutput, record};
use crate::fence::{Fence, StartId, Term};
use crate::order::{GangCommand, Order, OrderOutcome, OrderRefusal};

impl Ledger {
    pub(super) fn learn(
        &mut self,
        vc: VcName,
        generation: u32,
        term: Term,
        out: &mut Vec<LedgerOutput>,
    ) {
        let fence = Fence {
            generation,
            term,
            seq: 0,
        };
        if self.fences.get(&vc).is_none_or(|known| *known < fence) {
            self.persist(vec![record::put_fence(&vc, fence)], out);
            self.fences.insert(vc, fence);
        }
    }

    pub(super) fn moved(&mut self, start: StartId, out: &mut Vec<LedgerOutput>) {
        self.identity.start = start;
        self.latest.clear();
        let fences = std::mem::take(&mut self.fences);
        let changes = fences.keys().map(record::delete_fence);
        let changes: Vec<_> = changes.chain(self.forget_epochs()).collect();
        if !changes.is_empty() {
            self.persist(changes, out);
        }
    }

    /// Leaders that do not know yet place elsewhere from now on.
    pub(super) fn close(&mut self, why: Option<String>, out: &mut Vec<LedgerOutput>) {
        if self.closed != why {
            self.closed = why;
            self.changed();
            self.report(out);
        }
    }

    /// Why nothing new is admitted, if so.
    pub(super) fn why_closed(&self) -> Option<String> {
        let own = || self.why_unsettled().map(str::to_owned);
        self.closed.clone().or_else(own)
    }

    /// Admits or refuses by epoch, life and fence, then carries the order out.
    pub(super) fn order(
        &mut self,
        order: Order,
        port_is_free: &dyn Fn(u16) -> bool,
        out: &mut Vec<LedgerOutput>,
    ) {
        let heading = Heading {
            vc: &order.vc.clone(),
            run: &order.run.clone(),
            fence: order.fence,
        };
        match self.admit(&order) {
            Ok(fence_changes) => {
                self.fences.insert(order.vc.clone(), order.fence);
                self.carry_out(order, fence_changes, port_is_free, out);
            }
            Err(refusal) => self.answer(&heading, OrderOutcome::Refused(refusal), out),
        }
    }

    /// Whether it is about tasks that are held here, and about nothing new. Of all others it is not known
    /// yet whether they are gone.
    fn holds_all(&self, command: &GangCommand) -> bool {
        match command {
            GangCommand::Reserve { .. } | GangCommand::Launch { .. } => false,
            GangCommand::Go { members }
            | GangCommand::Stop { members, .. }
            | GangCommand::Settle { members } => {
                let mut members = members.iter();
                members.all(|member| self.grants.contains_key(&member.uid))
            }
        }
    }

    fn admit(&self, order: &Order) -> Result<Vec<LedgerChange>, OrderRefusal> {
        if order.epoch != self.identity.epoch || order.start != self.identity.start {
            return Err(OrderRefusal::OtherLife);
        }
        let known = self.fence(&order.vc).ok_or(OrderRefusal::Unfenced)?;
        if order.fence <= known {
            return Err(OrderRefusal::Fenced(known));
        }
        if self.why_unsettled().is_some() && !self.holds_all(&order.command) {
            return Err(OrderRefusal::Unsettled);
        }
        if order.fence.reign() == known.reign() {
            return Ok(Vec::new());
        }
        Ok(vec![record::put_fence(&order.vc, order.fence)])
    }
}
