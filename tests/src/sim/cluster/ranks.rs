//! Tasks that need their peers, as ranks of a training run do: once one is no more, the others fail soon after,
//! and whichever is heard of first says so first.

use std::collections::BTreeMap;

use muster_consensus::GroupId;
use muster_control::gang::GangRun;
use muster_model::exit::Verdict;
use muster_model::id::{AttemptUid, JobKey};
use muster_model::job::JobSpec;
use muster_model::row::JobRow as _;
use muster_model::time::Time;

use super::Cluster;
use super::executor::Phase;

/// Users' commands end so whose peer is lost.
pub(super) const PEER_LOST: i32 = 1;
/// A rank finds out within this, ms.
const NOTICED_MS: u64 = 2_000;

/// Where the ranks of each run are.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    runs: BTreeMap<(GroupId, GangRun), Vec<(usize, AttemptUid)>>,
    /// Ranks that failed because a peer was no more.
    pub(super) failed: u64,
}

/// Whether these commands need their peers.
pub(super) fn are_coupled(entrypoint: &str) -> bool {
    entrypoint.ends_with('3')
}

fn has_ranks(spec: &JobSpec) -> bool {
    spec.roles.iter().any(|role| are_coupled(&role.entrypoint))
}

impl Cluster {
    /// A container of a rank is made.
    pub(super) fn add_rank(&mut self, node: usize, uid: &AttemptUid) {
        let Some(place) = self.account.place(uid) else {
            return;
        };
        let run = (place.group, place.run.clone());
        let ranks = self.ranks.runs.entry(run).or_default();
        let rank = (node, uid.clone());
        if !ranks.contains(&rank) {
            ranks.push(rank);
        }
    }

    /// Ranks on this machine find out which of their peers are no more.
    pub(super) fn notice_lost_peers(&mut self, now: Time, node: usize) {
        let containers = &self.machines[node].executor.containers;
        let waits = containers.iter().filter(|(_, it)| it.needs_peers());
        let waits: Vec<AttemptUid> = waits.map(|(uid, _)| uid.clone()).collect();
        for uid in waits {
            if self.has_lost_a_peer(now, &uid) {
                let at = now.plus_millis(1 + self.random.below(NOTICED_MS));
                let containers = &mut self.machines[node].executor.containers;
                if let Some(container) = containers.get_mut(&uid) {
                    container.lose_peer(at);
                    self.ranks.failed += 1;
                }
            }
        }
    }

    fn has_lost_a_peer(&self, now: Time, uid: &AttemptUid) -> bool {
        let Some(place) = self.account.place(uid) else {
            return false;
        };
        let ranks = self.ranks.runs.get(&(place.group, place.run.clone()));
        let mut peers = ranks.into_iter().flatten();
        peers.any(|(node, peer)| peer != uid && self.is_lost(now, *node, peer))
    }

    /// Whether a task is gone or about to go, and had not done its work: one that is told to end leaves its peers
    /// before it ends.
    fn is_lost(&self, now: Time, node: usize, uid: &AttemptUid) -> bool {
        let machine = &self.machines[node];
        let ended = |verdict: &Verdict| verdict.code() != 0;
        match machine.executor.containers.get(uid) {
            Some(container) => match &container.phase {
                Phase::Ended(verdict) => ended(verdict),
                Phase::Starting | Phase::Ready | Phase::Running => {
                    let is_gone = !container.lives(now, machine.clock);
                    container.is_told_to_end() || is_gone && container.fails(machine.clock)
                }
            },
            None => machine.executor.exits.get(uid).is_none_or(ended),
        }
    }

    /// Nothing that became of its peers is charged to a job whose own commands never fail.
    pub(super) fn check_ranks(&mut self) {
        let groups: Vec<GroupId> = self.account.vcs.keys().copied().collect();
        for group in groups {
            // What was told of some ends may be among what was lost.
            if self.account.was_recovered(group) {
                continue;
            }
            let wrong = self.charged_ranks(group);
            self.account.expect(wrong.is_empty(), || {
                format!("charged for what became of their peers: {wrong:?}")
            });
        }
    }

    fn charged_ranks(&self, group: GroupId) -> Vec<(JobKey, u32, Option<i32>)> {
        let Some(state) = self.state(group) else {
            return Vec::new();
        };
        let with_ranks = |key: &JobKey| self.users.spec(group, key).is_some_and(has_ranks);
        let keys = state.rows().map(|row| row.key().clone());
        let jobs = keys.filter(with_ranks).filter_map(|key| {
            let summary = state.summary(&key)?;
            Some((key, summary.retries.accountable, summary.exit_code))
        });
        jobs.filter(|(_, charged, code)| *charged > 0 || *code == Some(PEER_LOST))
            .collect()
    }
}
