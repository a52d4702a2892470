//! Has this node go by what the cluster tells its members: their copies of groups, the virtual clusters
//! that users see here, and whether this machine takes tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_control::cluster::Scheduling;
use muster_model::id::NodeId;

use super::member::{Member, Surroundings};
use crate::accounts::Source;
use crate::loops::node::Closer;

/// Why a node that an admin keeps free takes nothing.
const KEPT_FREE: &str = "an admin keeps the node free of new tasks";

/// Goes by each briefing, until the node is a member no more.
pub(super) fn follow(member: &Arc<Member>, surroundings: &Surroundings) {
    let (member, mut told) = (Arc::downgrade(member), surroundings.accounts.watch());
    let node = surroundings.node.clone();
    tokio::spawn(async move {
        // What another cluster said holds until this one says something.
        let mut was_closed = None;
        loop {
            let source = told.borrow_and_update().clone();
            let Some(member) = member.upgrade() else {
                return;
            };
            if let Source::Briefed(briefing, _) = source {
                // Fails only while the agent ends.
                let _ = member.serve(&briefing).await;
                let is_closed = is_closed(&briefing.closed, &node.identity.node);
                if was_closed != Some(is_closed) {
                    let why = is_closed.then(|| KEPT_FREE.to_owned());
                    node.node.closed(Closer::Admin, why).await;
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

fn is_closed(closed: &BTreeMap<NodeId, Scheduling>, node: &NodeId) -> bool {
    closed.get(node).is_some_and(Scheduling::is_closed)
}
