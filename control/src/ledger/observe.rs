//! What the executor saw, and what follows from it.

use muster_model::exit::Verdict;
use muster_model::id::{AttemptUid, VcName};
use muster_model::view::TaskHold;

use super::grant::{GrantState, HeldPhase};
use super::record::put_grant;
use super::tell::Heading;
use super::{ExecutorStep, Ledger, LedgerOutput, Observation};
use crate::gang::GangRun;
use crate::order::OrderOutcome;
use crate::verdict;

impl Ledger {
    /// A fact on a task that the ledger does not hold is of no interest, but a container that
    /// nothing here stands for is removed.
    pub(super) fn observe(
        &mut self,
        uid: &AttemptUid,
        what: Observation,
        out: &mut Vec<LedgerOutput>,
    ) {
        if matches!(what, Observation::Gone) {
            self.cleared(uid, out);
        }
        if !self.grants.contains_key(uid) {
            if self.is_cleared(uid) {
                match what {
                    Observation::Ready | Observation::Running | Observation::OnHold(_) => {}
                    Observation::LaunchFailed(_) | Observation::Ended(_) => {
                        self.clear(uid, false, out);
                    }
                    Observation::Absent | Observation::Gone => self.clear(uid, true, out),
                }
                return;
            }
            if !matches!(what, Observation::Gone | Observation::Absent) {
                out.push(LedgerOutput::Step(ExecutorStep::Remove(uid.clone())));
            }
            return;
        }
        match what {
            Observation::Absent => self.saw_absent(uid, out),
            Observation::Ready => self.saw_ready(uid, out),
            Observation::Running => self.saw_running(uid, out),
            Observation::OnHold(hold) => self.saw_on_hold(uid, hold, out),
            Observation::LaunchFailed(verdict) | Observation::Ended(verdict) => {
                self.saw_end(uid, verdict, out);
            }
            Observation::Gone => self.saw_gone(uid, out),
        }
    }

    fn saw_absent(&mut self, uid: &AttemptUid, out: &mut Vec<LedgerOutput>) {
        let Some(grant) = self.grants.get_mut(uid) else {
            return;
        };
        match grant.state {
            // How long its lease lasts was known to the agent that died.
            GrantState::Held(HeldPhase::Adopting { .. }) if grant.lease.is_some() => {
                self.end_lost(uid, out);
            }
            GrantState::Held(HeldPhase::Adopting { go: false }) => {
                grant.state = GrantState::Held(HeldPhase::Absent);
                self.announce(uid, out);
            }
            GrantState::Held(HeldPhase::Adopting { go: true }) | GrantState::Draining => {
                self.vanish(uid, out)
            }
            GrantState::Reserved { .. }
            | GrantState::Claimed { .. }
            | GrantState::Evicting
            | GrantState::Held(_)
            | GrantState::Ended { .. } => {}
        }
    }

    fn saw_ready(&mut self, uid: &AttemptUid, out: &mut Vec<LedgerOutput>) {
        let Some(grant) = self.grants.get_mut(uid) else {
            return;
        };
        let GrantState::Held(HeldPhase::Adopting { go } | HeldPhase::Starting { go }) = grant.state
        else {
            return;
        };
        if go {
            grant.state = GrantState::Held(HeldPhase::Running);
            out.push(LedgerOutput::Step(ExecutorStep::Go(uid.clone())));
        } else {
            grant.state = GrantState::Held(HeldPhase::Ready);
        }
        self.announce(uid, out);
    }

    fn saw_running(&mut self, uid: &AttemptUid, out: &mut Vec<LedgerOutput>) {
        let Some(grant) = self.grants.get_mut(uid) else {
            return;
        };
        if matches!(grant.state, GrantState::Held(phase) if phase != HeldPhase::Running) {
            grant.state = GrantState::Held(HeldPhase::Running);
            self.announce(uid, out);
        }
    }

    fn saw_on_hold(&mut self, uid: &AttemptUid, hold: Box<TaskHold>, out: &mut Vec<LedgerOutput>) {
        let Some(grant) = self.grants.get_mut(uid) else {
            return;
        };
        if matches!(grant.state, GrantState::Held(_)) {
            grant.state = GrantState::Held(HeldPhase::Running);
            grant.on_hold = Some(hold);
            self.announce(uid, out);
        }
    }

    /// The exit is told before it is durable here, since the engine still keeps it. It is made
    /// durable before the container, and with it the engine's copy, is removed.
    fn saw_end(&mut self, uid: &AttemptUid, verdict: Box<Verdict>, out: &mut Vec<LedgerOutput>) {
        let Some(grant) = self.grants.get_mut(uid) else {
            return;
        };
        if !matches!(grant.state, GrantState::Held(_) | GrantState::Draining) {
            return;
        }
        grant.state = GrantState::Ended {
            verdict,
            gone: false,
            settled: false,
        };
        let record = put_grant(grant);
        self.announce(uid, out);
        self.persist(vec![record], out);
        out.push(LedgerOutput::Step(ExecutorStep::Remove(uid.clone())));
    }

    fn saw_gone(&mut self, uid: &AttemptUid, out: &mut Vec<LedgerOutput>) {
        let Some(grant) = self.grants.get_mut(uid) else {
            return;
        };
        if grant.clears.is_some() {
            // Nothing of it was made yet, and what was there before is not gone: its lease is over.
            grant.state = GrantState::Draining;
            self.pending.remove(uid);
            return;
        }
        match &mut grant.state {
            GrantState::Ended { settled: true, .. } => self.vanish(uid, out),
            GrantState::Ended { gone, .. } => {
                *gone = true;
                let record = put_grant(grant);
                self.lazy.push(record);
                self.changed();
                self.announce(uid, out);
            }
            GrantState::Draining => self.vanish(uid, out),
            GrantState::Held(_) => self.end_lost(uid, out),
            // Its lease is over before it had anything.
            GrantState::Evicting => self.vanish(uid, out),
            GrantState::Reserved { .. } | GrantState::Claimed { .. } => {}
        }
    }

    /// Nothing of a held task is there, and nobody knows how it ended.
    fn end_lost(&mut self, uid: &AttemptUid, out: &mut Vec<LedgerOutput>) {
        let Some(grant) = self.grants.get_mut(uid) else {
            return;
        };
        grant.state = GrantState::Ended {
            verdict: Box::new(verdict::lost()),
            gone: true,
            settled: false,
        };
        let record = put_grant(grant);
        self.changed();
        self.announce(uid, out);
        self.persist(vec![record], out);
    }

    /// Drops the grant and says that the task is gone.
    pub(super) fn vanish(&mut self, uid: &AttemptUid, out: &mut Vec<LedgerOutput>) {
        let Some(grant) = self.grants.get(uid) else {
            return;
        };
        let run = (grant.vc.clone(), grant.run.clone());
        self.forget(uid);
        self.announce_run(&run, out);
        self.forget_latest();
    }

    pub(super) fn announce(&self, uid: &AttemptUid, out: &mut Vec<LedgerOutput>) {
        if let Some(grant) = self.grants.get(uid) {
            self.announce_run(&(grant.vc.clone(), grant.run.clone()), out);
        }
    }

    /// Answers the run's newest order again; if this life has none, reports to everyone.
    pub(super) fn announce_run(&self, run: &(VcName, GangRun), out: &mut Vec<LedgerOutput>) {
        match self.latest.get(run) {
            Some(latest) => {
                let reply = OrderOutcome::Standing(self.standings(&run.1, &latest.members));
                let heading = Heading {
                    vc: &run.0,
                    run: &run.1,
                    fence: latest.fence,
                };
                self.answer(&heading, reply, out);
            }
            None => self.report(out),
        }
    }
}
