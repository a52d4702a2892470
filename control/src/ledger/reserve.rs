//! Reserve: the grant itself.

use muster_model::id::{AttemptUid, JobKey, VcName};
use muster_model::time::Time;

use super::Ledger;
use super::grant::{GrantState, TaskGrant};
use super::record::put_grant;
use crate::gang::{AttemptNo, GangRun};
use crate::order::{OrderOutcome, OrderRefusal, ReserveAsk, TaskPorts};

/// A Reserve order, unpacked.
#[derive(Debug)]
pub(super) struct ReserveRequest<'a> {
    pub(super) vc: &'a VcName,
    pub(super) run: &'a GangRun,
    pub(super) job: &'a JobKey,
    pub(super) asks: &'a [ReserveAsk],
    pub(super) evictable: bool,
    pub(super) victims: &'a [AttemptUid],
    pub(super) expires: Time,
}

impl Ledger {
    /// Sets everything asked aside, or nothing; what only victims of the plan are in the way of is
    /// claimed. A newer Reserve of the attempt replaces an older one; the same again only gets a
    /// new end.
    pub(super) fn reserve(
        &mut self,
        request: &ReserveRequest<'_>,
        port_is_free: &dyn Fn(u16) -> bool,
    ) -> OrderOutcome {
        if self.is_outdated(request) {
            return OrderOutcome::Refused(OrderRefusal::Outdated);
        }
        if let Err(refusal) = self.check_epochs(request.asks) {
            return OrderOutcome::Refused(refusal);
        }
        if let Some(why) = &self.closed {
            return OrderOutcome::Refused(OrderRefusal::NotFree(why.clone()));
        }
        if !self.is_repeat(request) {
            self.drop_replaced(request);
            let victims = self.victims(request.asks, request.victims);
            let fit = victims.and_then(|victims| {
                let ports = self.pick_ports(request.asks, port_is_free)?;
                Ok((victims, ports))
            });
            match fit {
                Err(missing) => return OrderOutcome::Refused(OrderRefusal::NotFree(missing)),
                Ok((victims, ports)) => self.grant(request, &victims, ports),
            }
        }
        let expires = request.expires;
        let granted = request.asks.iter().filter_map(|ask| {
            let grant = self.grants.get_mut(&ask.member.uid)?;
            grant.state = match grant.victims.is_empty() {
                true => GrantState::Reserved { expires },
                false => GrantState::Claimed { expires },
            };
            Some((ask.member.clone(), grant.ports.clone()))
        });
        OrderOutcome::Granted(granted.collect())
    }

    /// The records of a granted request.
    pub(super) fn reserved_records(&mut self, asks: &[ReserveAsk]) -> Vec<super::LedgerChange> {
        let epochs = self.note_epochs(asks);
        let grants = asks
            .iter()
            .filter_map(|ask| self.grants.get(&ask.member.uid));
        grants.map(put_grant).chain(epochs).collect()
    }

    fn grant(
        &mut self,
        request: &ReserveRequest<'_>,
        victims: &[AttemptUid],
        ports: Vec<TaskPorts>,
    ) {
        for (ask, ports) in request.asks.iter().zip(ports) {
            let mut grant = TaskGrant::reserve(request, ask, ports);
            grant.victims = victims.to_vec();
            self.grants.insert(ask.member.uid.clone(), grant);
        }
        self.changed();
    }

    /// Whether this run, or a later one of the gang, is past reserving here.
    fn is_outdated(&self, request: &ReserveRequest<'_>) -> bool {
        self.of_gang(request.vc, request.run).any(|grant| {
            let later = place(&grant.run) > place(request.run);
            let same = place(&grant.run) == place(request.run);
            later || (same && grant.expires().is_none())
        })
    }

    fn is_repeat(&self, request: &ReserveRequest<'_>) -> bool {
        let held = self
            .of_gang(request.vc, request.run)
            .filter(|g| g.run == *request.run);
        held.count() == request.asks.len()
            && request.asks.iter().all(|ask| {
                self.grants.get(&ask.member.uid).is_some_and(|grant| {
                    grant.cpu == ask.cpu
                        && grant.memory_mb == ask.memory_mb
                        && grant.devices == ask.devices
                        && grant.evictable == request.evictable
                        && grant
                            .victims
                            .iter()
                            .all(|uid| request.victims.contains(uid))
                })
            })
    }

    /// What a newer Reserve of the attempt replaces. Other tasks may keep the places that they were given in
    /// an earlier round.
    fn drop_replaced(&mut self, request: &ReserveRequest<'_>) {
        let run = request.run;
        let is_replaced = |grant: &TaskGrant| {
            let mut asks = request.asks.iter();
            grant.run.attempt != run.attempt
                || grant.run.round == run.round
                || asks.any(|ask| ask.member.task == grant.member.task)
        };
        self.drop_reserved(request.vc, run, is_replaced);
    }

    /// Those of this run and of earlier ones.
    pub(super) fn drop_reservations(&mut self, vc: &VcName, run: &GangRun) {
        self.drop_reserved(vc, run, |_| true);
    }

    fn drop_reserved(&mut self, vc: &VcName, run: &GangRun, is_meant: impl Fn(&TaskGrant) -> bool) {
        let is_over =
            |grant: &TaskGrant| grant.expires().is_some() && place(&grant.run) <= place(run);
        let stale: Vec<AttemptUid> = self
            .of_gang(vc, run)
            .filter(|grant| is_over(grant) && is_meant(grant))
            .map(|grant| grant.member.uid.clone())
            .collect();
        for uid in stale {
            self.forget(&uid);
        }
    }

    pub(super) fn of_gang(&self, vc: &VcName, run: &GangRun) -> impl Iterator<Item = &TaskGrant> {
        self.grants
            .values()
            .filter(move |grant| grant.vc == *vc && grant.run.gang == run.gang)
    }
}

/// Runs of one gang follow each other in this order.
fn place(run: &GangRun) -> (AttemptNo, u32) {
    (run.attempt, run.round)
}
