//! What an admin does: asks for changes, and tries again what came to nothing.

use std::collections::BTreeSet;

use muster_consensus::GroupId;
use muster_control::request::cluster::{OfCluster, Recover};
use muster_control::request::member::RecoverCluster;
use muster_control::request::{Request, decode_answer};
use muster_model::mesh::RecoveryView;

use super::Cluster;
use super::founding::ADMIN;
use super::play::ClusterPlay;
use crate::sim::world::World;

/// An admin waits so long for an answer, ms.
const CHANGE_MS: u64 = 20_000;
/// An admin tries so many times.
const TRIES: usize = 10;

impl ClusterPlay {
    /// An admin at this machine wants something, and waits until it is so.
    pub(super) fn administer_at<R: OfCluster>(
        &mut self,
        node: usize,
        request: &R,
    ) -> Option<R::Answer> {
        let answer = self.try_at(node, request);
        let failed = answer.as_ref().err().cloned();
        self.expect(failed.is_none(), || {
            format!("{request:?} came to {failed:?}")
        });
        answer.ok()
    }

    /// The same, where it may come to nothing.
    fn try_at<R: OfCluster>(&mut self, node: usize, request: &R) -> Result<R::Answer, String> {
        let mut change = 0;
        let asked = request.clone();
        self.world.act(node, |cluster, now, out| {
            change = cluster.administer(now, node, asked, out);
        });
        self.answer::<R>(change)
    }

    /// What a change comes to.
    fn answer<R: Request>(&mut self, change: u64) -> Result<R::Answer, String> {
        let done = |world: &World<Cluster>| world.protocol.outcome(change).is_some();
        self.world.run_while(CHANGE_MS, 5, done);
        let outcome = self.world.protocol.outcome(change).cloned();
        let bytes = outcome.unwrap_or_else(|| Err("nobody answers".to_owned()))?;
        let answer = decode_answer::<R::Answer>(&bytes).map_err(|error| error.to_string())?;
        answer.map_err(|failure| failure.to_string())
    }

    /// An admin describes the cluster so.
    pub(super) fn describe(&mut self, text: String) {
        self.describe_at(0, text);
    }

    /// The same, at this machine.
    pub(super) fn describe_at(&mut self, node: usize, text: String) {
        let base = self.world.protocol.described();
        let described = self.world.protocol.description(text, base);
        self.administer_at(node, &described);
    }

    /// An admin has a virtual cluster go on without most of its voters: looks which are lost, and says so.
    pub(super) fn recover_vc(&mut self, group: GroupId) {
        let vc = self.world.protocol.account.vcs.get(&group).cloned();
        let recover = |lost: BTreeSet<String>| Recover {
            vc: vc.as_ref().map_or_else(String::new, ToString::to_string),
            lost,
            by: ADMIN.to_owned(),
        };
        self.insist("a virtual cluster's recovery", |play| {
            let node = play.any_awake();
            let view = play.try_at(node, &recover(BTreeSet::new()))?;
            let lost = view.missing.into_iter().collect();
            play.try_at(node, &recover(lost)).map(drop)
        });
    }

    /// An admin has the cluster itself go on without most of its voters.
    pub(super) fn recover_cluster(&mut self) {
        self.insist("the cluster's recovery", |play| {
            let node = play.any_awake();
            let view = play.try_recovery(node, BTreeSet::new())?;
            let lost = view.missing.into_iter().collect();
            play.try_recovery(node, lost).map(drop)
        });
    }

    fn try_recovery(
        &mut self,
        node: usize,
        lost: BTreeSet<String>,
    ) -> Result<RecoveryView, String> {
        let by = ADMIN.to_owned();
        let mut change = 0;
        self.world.act(node, |cluster, now, out| {
            let request = RecoverCluster { lost, by };
            change = cluster.administer_here(now, node, request, out);
        });
        self.answer::<RecoverCluster>(change)
    }

    fn any_awake(&mut self) -> usize {
        let awake: Vec<_> = self.world.awake().collect();
        let any = self.world.random.index(awake.len().max(1));
        awake.get(any).copied().unwrap_or_default()
    }

    /// An admin tries until it is done.
    fn insist(&mut self, what: &str, mut tries: impl FnMut(&mut Self) -> Result<(), String>) {
        let mut failed = None;
        for _ in 0..TRIES {
            match tries(self) {
                Ok(()) => return,
                Err(why) => failed = Some(why),
            }
            self.world.run_for(1_000);
        }
        self.expect(false, || format!("{what} came to {failed:?}"));
    }

    /// Two admins describe the cluster at the same time, at different machines: one of them is told that
    /// the other was faster.
    pub(super) fn conflict(&mut self, texts: [String; 2]) {
        let base = self.world.protocol.described();
        let mut changes = Vec::new();
        for text in texts {
            let edit = self.world.protocol.description(text, base);
            let nodes = self.world.nodes();
            let node = self.world.random.index(nodes);
            self.world.act(node, |cluster, now, out| {
                changes.push(cluster.administer(now, node, edit, out));
            });
        }
        let done = |world: &World<Cluster>| {
            let mut all = changes.iter();
            all.all(|change| world.protocol.outcome(*change).is_some())
        };
        self.world.run_while(20_000, 5, done);
        let outcomes = changes.iter().map(|it| self.world.protocol.outcome(*it));
        let outcomes: Vec<_> = outcomes.map(Option::<&Result<_, _>>::cloned).collect();
        let took = outcomes.iter().filter(|it| matches!(it, Some(Ok(_))));
        let took = took.count();
        self.expect(took == 1, || format!("of two edits at once {outcomes:?}"));
    }
}
