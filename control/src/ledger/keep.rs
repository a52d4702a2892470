//! Places that tasks keep into a later round of their attempt.
//!
//! A round that is void for some members goes on for the others: they keep what they were granted,
//! under the name that they have in the next round. Their containers are made anew, for those know
//! their peers by where they were before.

use muster_model::id::{AttemptUid, VcName};
use muster_model::launch::{TaskPlacement, TaskSpec};

use super::grant::{GrantState, HeldPhase, TaskGrant};
use super::orders::OrderEffects;
use super::record::{delete_grant, put_grant};
use super::{ExecutorStep, Ledger, LedgerOutput};
use crate::gang::GangRun;
use crate::order::RunMember;

impl Ledger {
    /// Gives tasks that have nothing in this run the places that they had in an earlier round, as far as
    /// they were placed there again and have them still. Gives the containers that are to end for it.
    pub(super) fn keep_places(
        &mut self,
        (vc, run): (&VcName, &GangRun),
        tasks: &[TaskSpec],
        work: &mut OrderEffects,
    ) -> Vec<AttemptUid> {
        let mut left = Vec::new();
        for task in tasks {
            let place = &task.placement;
            if self.grants.contains_key(&place.uid) {
                continue;
            }
            let Some(before) = self.kept_place(vc, run, task) else {
                continue;
            };
            if self.take_place(run, &before, place, work) {
                left.push(before);
            }
        }
        left
    }

    /// The grant of an earlier round for the same task in the very same place. What is told to end, or
    /// has, is no place to keep; nor, under a lease, what an earlier life of the agent was granted, for
    /// when that lease ends that life knew; nor what was launched by another lease than it is to hold by.
    fn kept_place(&self, vc: &VcName, run: &GangRun, task: &TaskSpec) -> Option<AttemptUid> {
        let place = &task.placement;
        let is_same = |grant: &&TaskGrant| {
            let is_open = matches!(
                grant.state,
                GrantState::Reserved { .. }
                    | GrantState::Claimed { .. }
                    | GrantState::Evicting
                    | GrantState::Held(_)
            );
            let lease_s = grant.lease.map(|lease| lease.seconds);
            let is_launched = matches!(grant.state, GrantState::Evicting | GrantState::Held(_));
            is_open
                && (!is_launched || lease_s == task.lease_s)
                && (grant.fresh || task.lease_s.is_none())
                && grant.is_of_earlier_round(run)
                && grant.member.task == place.task
                && (&grant.devices, &grant.leaves, &grant.ports)
                    == (&place.devices, &place.leaves, &place.ports)
        };
        let grant = self.of_gang(vc, run).find(is_same)?;
        Some(grant.member.uid.clone())
    }

    /// Names a grant anew. Whether a container is left that nobody has told to end.
    fn take_place(
        &mut self,
        run: &GangRun,
        before: &AttemptUid,
        place: &TaskPlacement,
        work: &mut OrderEffects,
    ) -> bool {
        let Some(mut grant) = self.grants.remove(before) else {
            return false;
        };
        self.pending.remove(before);
        grant.run = run.clone();
        grant.member.uid = place.uid.clone();
        grant.before = Some(before.clone());
        let mut is_left = false;
        if let GrantState::Held(phase) = &mut grant.state {
            if grant.clears.is_none() && *phase != HeldPhase::Absent {
                grant.clears = Some(before.clone());
                is_left = true;
            }
            *phase = HeldPhase::Absent;
        }
        work.changes.push(delete_grant(before));
        work.changes.push(put_grant(&grant));
        self.grants.insert(place.uid.clone(), grant);
        self.claim_from(before, &place.uid, work);
        self.changed();
        is_left
    }

    /// Whoever counted on one to give way counts on the other.
    fn claim_from(&mut self, before: &AttemptUid, uid: &AttemptUid, work: &mut OrderEffects) {
        for grant in self.grants.values_mut() {
            let mut victims = grant.victims.iter_mut();
            if let Some(victim) = victims.find(|victim| *victim == before) {
                victim.clone_from(uid);
                work.changes.push(put_grant(grant));
            }
        }
    }

    /// What the tasks have of earlier rounds here.
    pub(super) fn earlier_rounds(
        &self,
        vc: &VcName,
        run: &GangRun,
        members: &[RunMember],
    ) -> Vec<AttemptUid> {
        let is_meant = |grant: &&TaskGrant| {
            let mut members = members.iter();
            grant.is_of_earlier_round(run) && members.any(|member| member.task == grant.member.task)
        };
        let grants = self.of_gang(vc, run).filter(is_meant);
        grants.map(|grant| grant.member.uid.clone()).collect()
    }

    /// The container of an earlier round has ended, or is gone as well.
    pub(super) fn clear(
        &mut self,
        before: &AttemptUid,
        is_gone: bool,
        out: &mut Vec<LedgerOutput>,
    ) {
        if !is_gone {
            return out.push(LedgerOutput::Step(ExecutorStep::Remove(before.clone())));
        }
        let cleared = |grant: &&mut TaskGrant| grant.clears.as_ref() == Some(before);
        let Some(grant) = self.grants.values_mut().find(cleared) else {
            return;
        };
        grant.clears = None;
        let uid = grant.member.uid.clone();
        match grant.state {
            // Nothing of its own was made.
            GrantState::Draining => self.vanish(&uid, out),
            GrantState::Held(_) => {
                if let Some(task) = self.pending.remove(&uid) {
                    out.push(LedgerOutput::Step(ExecutorStep::Create(Box::new(task))));
                }
            }
            GrantState::Reserved { .. }
            | GrantState::Claimed { .. }
            | GrantState::Evicting
            | GrantState::Ended { .. } => {}
        }
    }

    /// Whether a container of an earlier round is in the way of one of this.
    pub(super) fn is_cleared(&self, uid: &AttemptUid) -> bool {
        let mut grants = self.grants.values();
        grants.any(|grant| grant.clears.as_ref() == Some(uid))
    }
}
