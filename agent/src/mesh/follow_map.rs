//! Has this node go by what the cluster tells its members: their copies of groups, the virtual clusters
//! that users see here, and whether this machine takes tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_control::cluster::AdminScheduling;
use muster_model::id::NodeId;

use super::member::{ActiveMembership, MembershipDependencies};
use crate::accounts::AccountSource;
use crate::loops::node::UnschedulableReason;

/// Why a node that an admin keeps free takes nothing.
const KEPT_FREE: &str = "an admin keeps the node free of new tasks";

/// Goes by each cluster map, until the node is a member no more.
pub(super) fn follow(member: &Arc<ActiveMembership>, dependencies: &MembershipDependencies) {
    let (member, mut told) = (Arc::downgrade(member), dependencies.accounts.watch());
    let node = dependencies.node.clone();
    tokio::spawn(async move {
        // What another cluster said holds until this one says something.
        let mut was_closed = None;
        loop {
            let source = told.borrow_and_update().clone();
            let Some(member) = member.upgrade() else {
                return;
            };
            if let AccountSource::ClusterMap(cluster_map, _) = source {
                // Fails only while the agent ends.
                let _ = member.serve(&cluster_map).await;
                let is_closed = is_closed(&cluster_map.closed, &node.identity.node);
                if was_closed != Some(is_closed) {
                    let why = is_closed.then(|| KEPT_FREE.to_owned());
                    node.node.closed(UnschedulableReason::Admin, why).await;
                    was_closed = Some(is_closed);
                }
            }
            drop(member);
            if told.changed().await.is_err() {
                return;
            }
        }
    });
}

fn is_closed(closed: &BTreeMap<NodeId, AdminScheduling>, node: &NodeId) -> bool {
    closed.get(node).is_some_and(AdminScheduling::is_closed)
}
