//! Claims: what a gang was promised and others use until its placement is committed.
//!
//! A claim costs those others nothing and ends by itself. Only the Launch of a committed placement
//! has them end, and nothing is created before their processes are gone.

use std::collections::BTreeSet;

use muster_model::id::{AttemptUid, VcName};

use super::grant::{GrantState, HeldPhase, TaskGrant};
use super::orders::give_way;
use super::record::put_grant;
use super::{ExecutorStep, Ledger, LedgerOutput};
use crate::gang::GangRun;
use crate::order::ReserveAsk;

/// What is told to give way again after a crash gets this long between the polite and the hard
/// signal, milliseconds: it was told once before.
const GRACE_AGAIN_MS: u64 = 20_000;

/// What tasks give up that others have claimed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GivenUp {
    pub(super) cpu: u64,
    pub(super) memory_mb: u64,
}

impl Ledger {
    /// Those among the named victims that have to give way so that all asks fit; says what does
    /// not fit even then.
    pub(super) fn victims(
        &self,
        asks: &[ReserveAsk],
        named: &[AttemptUid],
    ) -> Result<Vec<AttemptUid>, String> {
        if self.fits(asks, &[]).is_ok() {
            return Ok(Vec::new());
        }
        let may_go = |grant: &TaskGrant| {
            let goes = matches!(grant.state, GrantState::Draining | GrantState::Ended { .. });
            grant.occupies() && (grant.evictable || goes)
        };
        let may_go = |uid: &&AttemptUid| self.grants.get(uid).is_some_and(may_go);
        let mut victims: Vec<AttemptUid> = named.iter().filter(may_go).cloned().collect();
        self.fits(asks, &victims)?;
        for uid in named {
            let fewer: Vec<_> = victims.iter().filter(|it| *it != uid).cloned().collect();
            if self.fits(asks, &fewer).is_ok() {
                victims = fewer;
            }
        }
        Ok(victims)
    }

    /// What claimants count on that others still have. Each of those counts for one claimant only:
    /// another that waits for the same one needs all of its own beside.
    pub(super) fn given_up(&self, gone: &[AttemptUid]) -> GivenUp {
        let mut counted = BTreeSet::new();
        let mut all = GivenUp::default();
        for run in self.claiming() {
            let mut asked = GivenUp::default();
            let mut had = GivenUp::default();
            for grant in self.of_run(&run) {
                asked.add(grant);
                for uid in &grant.victims {
                    let victim = self.grants.get(uid).filter(|victim| victim.occupies());
                    if let Some(victim) = victim.filter(|_| !gone.contains(uid))
                        && counted.insert(uid)
                    {
                        had.add(victim);
                    }
                }
            }
            all.cpu += asked.cpu.min(had.cpu);
            all.memory_mb += asked.memory_mb.min(had.memory_mb);
        }
        all
    }

    /// Gives claimants what they waited for, once nothing of those that had it is left.
    pub(super) fn take_over(&mut self, out: &mut Vec<LedgerOutput>) {
        for run in self.claiming() {
            let waits = |ledger: &Self, uid: &AttemptUid| {
                ledger.grants.get(uid).is_some_and(TaskGrant::occupies)
            };
            let members: Vec<AttemptUid> = self
                .of_run(&run)
                .map(|grant| grant.member.uid.clone())
                .collect();
            for uid in &members {
                let victims = self.grants.get(uid).map(|grant| grant.victims.clone());
                let mut victims = victims.unwrap_or_default();
                victims.retain(|victim| waits(self, victim));
                if let Some(grant) = self.grants.get_mut(uid) {
                    grant.victims = victims;
                }
            }
            let is_clear = |grant: &TaskGrant| grant.victims.is_empty();
            if self.of_run(&run).all(is_clear) {
                self.hold(&members, &run, out);
            }
        }
    }

    /// Nothing is in the way of these any more.
    fn hold(
        &mut self,
        members: &[AttemptUid],
        run: &(VcName, GangRun),
        out: &mut Vec<LedgerOutput>,
    ) {
        let mut records = Vec::new();
        let mut steps = Vec::new();
        let mut lost = false;
        for uid in members {
            let Some(grant) = self.grants.get_mut(uid) else {
                continue;
            };
            match grant.state {
                GrantState::Claimed { expires } => grant.state = GrantState::Reserved { expires },
                // How long its lease lasts was known to the agent that died.
                GrantState::Evicting if grant.lease.is_some() && !grant.fresh => {
                    lost = true;
                    continue;
                }
                GrantState::Evicting => match self.pending.remove(uid) {
                    Some(task) => {
                        grant.state = GrantState::Held(HeldPhase::Starting { go: false });
                        steps.push(ExecutorStep::Create(Box::new(task)));
                    }
                    None => grant.state = GrantState::Held(HeldPhase::Absent),
                },
                GrantState::Reserved { .. }
                | GrantState::Held(_)
                | GrantState::Draining
                | GrantState::Ended { .. } => {
                    continue;
                }
            }
            records.push(put_grant(grant));
        }
        if lost {
            members.iter().for_each(|uid| self.forget(uid));
        } else {
            self.persist(records, out);
            out.extend(steps.into_iter().map(LedgerOutput::Step));
        }
        self.changed();
        self.announce_run(run, out);
    }

    /// After a crash: who was told to give way is told again.
    pub(super) fn evict_again(&self, out: &mut Vec<LedgerOutput>) {
        let evicted = self
            .grants
            .values()
            .filter(|grant| grant.is_evicted && matches!(grant.state, GrantState::Draining));
        let steps = evicted.map(|grant| give_way(grant.member.uid.clone(), GRACE_AGAIN_MS));
        out.extend(steps.map(LedgerOutput::Step));
    }

    /// Runs that wait for others to give something back.
    fn claiming(&self) -> BTreeSet<(VcName, GangRun)> {
        let claims = self.grants.values().filter(|grant| grant.claims());
        claims
            .map(|grant| (grant.vc.clone(), grant.run.clone()))
            .collect()
    }

    fn of_run(&self, run: &(VcName, GangRun)) -> impl Iterator<Item = &TaskGrant> {
        let own =
            |grant: &&TaskGrant| (&grant.vc, &grant.run) == (&run.0, &run.1) && grant.claims();
        self.grants.values().filter(own)
    }
}

impl GivenUp {
    fn add(&mut self, grant: &TaskGrant) {
        self.cpu += u64::from(grant.cpu);
        self.memory_mb = self.memory_mb.saturating_add(grant.memory_mb);
    }
}
