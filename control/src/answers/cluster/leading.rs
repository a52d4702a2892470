//! What the leader of the cluster does on its own, now and then, and every member for its own copy.

use muster_consensus::GroupId;
use muster_model::time::Time;

use super::ClusterService;
use crate::answers::port::{CopiesPort as _, MemberPort};

/// How long virtual clusters are waited for to say what cells they have, after the cluster has gone on from a
/// copy: each asks every ten seconds, and those without a leader for longer than this have to be recovered.
const HEAR_LIMIT_MS: u64 = 60_000;

/// What a member remembers from one turn to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leading {
    /// Which group it leads in which term, if it does.
    reign: Option<(GroupId, u64)>,
    /// How far the mesh was told what the log says.
    told: u64,
    since: Time,
}

impl Leading {
    /// Does what the leader has to do, if this node leads. To be called twice a second, and when that changes.
    pub async fn turn<P: MemberPort>(&mut self, cluster_service: &ClusterService<P>) {
        let group = cluster_service.group();
        let look =
            cluster_service.look(|_, standing| standing.view.leads.then_some(standing.view.term));
        let term = look.await.ok().flatten().flatten();
        let reign = term.map(|term| (group, term));
        let now = cluster_service.copies().now().steady;
        if self.reign != reign {
            (self.reign, self.told, self.since) = (reign, 0, now);
        }
        // What the copy says that it began with is not to be told as news.
        if reign.is_none() || !cluster_service.begin().await {
            return;
        }
        if let Some(told) = cluster_service.publish_since(self.told).await {
            self.told = told;
        }
        cluster_service.step().await;
        if now.micros_since(self.since) > HEAR_LIMIT_MS * 1_000 {
            cluster_service.stop_waiting().await;
        }
    }
}
