//! Tells the groups' loop which nodes admins keep jobs off, as the briefing says, and this node's
//! ledger whether it is one of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_control::cluster::{Mode, Scheduling};
use muster_control::coordinator::Cordon;
use muster_model::id::NodeId;
use muster_model::time::Time;

use super::member::{Member, Surroundings};
use crate::loops::node::Closer;

/// Why a node that an admin keeps free takes nothing.
const KEPT_FREE: &str = "an admin keeps the node free of new tasks";

/// Tells again with every briefing, until the node is a member no more.
pub(super) fn pass_on(member: &Arc<Member>, surroundings: &Surroundings) {
    let (member, mut told) = (Arc::downgrade(member), surroundings.accounts.watch());
    let (groups, node) = (surroundings.groups.clone(), surroundings.node.clone());
    tokio::spawn(async move {
        let mut before = BTreeMap::new();
        loop {
            let now = cordons(&told.borrow_and_update().closed());
            if member.upgrade().is_none() {
                return;
            }
            if now != before {
                let closed = now.contains_key(&node.identity.node);
                let why = closed.then(|| KEPT_FREE.to_owned());
                node.node.closed(Closer::Admin, why).await;
                before.clone_from(&now);
                if groups.cordoned(now).await.is_err() {
                    return;
                }
            }
            if told.changed().await.is_err() {
                return;
            }
        }
    });
}

fn cordons(closed: &BTreeMap<NodeId, Scheduling>) -> BTreeMap<NodeId, Cordon> {
    let cordon = |(node, word): (&NodeId, &Scheduling)| {
        let drain_at = match word.mode {
            Mode::Open => return None,
            Mode::Cordoned => None,
            Mode::Draining { from_ms } => Some(Time::from_millis(from_ms)),
        };
        Some((node.clone(), Cordon { drain_at }))
    };
    closed.iter().filter_map(cordon).collect()
}
