//! Tells the node ledger the terms of the virtual clusters that this node serves: at every start, and
//! whenever it serves others. Before that the ledger admits no order of theirs.

use std::time::Duration;

use futures::future::join_all;
use muster_model::id::VcName;

use super::node::NodeHandle;
use crate::vc::VcHandle;

/// Pause before a leader is looked for again.
const AGAIN: Duration = Duration::from_millis(200);

/// Runs until the agent ends.
pub(crate) async fn run(vc: VcHandle, node: NodeHandle) {
    let mut seat = vc.seat();
    loop {
        seat.mark_unchanged();
        let names = vc.groups().into_keys();
        let learning = join_all(names.map(|name| learn(&vc, name, &node)));
        // What was told of other virtual clusters says nothing of those that are served now: a change
        // ends it all.
        let changed = tokio::select! {
            changed = seat.changed() => changed,
            _ = learning => seat.changed().await,
        };
        if changed.is_err() {
            return;
        }
    }
}

/// Asks until it was told.
async fn learn(vc: &VcHandle, name: VcName, node: &NodeHandle) {
    let mut seat = vc.seat();
    seat.mark_unchanged();
    loop {
        if let Ok((generation, term, leader)) = vc.term(&name).await {
            if !seat.has_changed().unwrap_or(true) {
                node.learned(name, (generation, term), leader).await;
            }
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}
