//! Tells the node ledger the term of the virtual cluster that this node serves: at every start,
//! and whenever it serves another one. Before that the ledger admits no order.

use std::time::Duration;

use super::node::NodeHandle;
use crate::vc::VcHandle;
use muster_model::id::VcName;

/// Pause before a leader is looked for again.
const AGAIN: Duration = Duration::from_millis(200);

/// Runs until the agent ends.
pub(crate) async fn run(vc: VcHandle, name: VcName, node: NodeHandle) {
    let mut seat = vc.seat();
    loop {
        seat.mark_unchanged();
        let learned = async {
            loop {
                if let Ok(told) = vc.term().await {
                    return told;
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        tokio::select! {
            (generation, term, leader) = learned => {
                // What was told of another virtual cluster meanwhile says nothing of this one.
                if !seat.has_changed().unwrap_or(true) {
                    node.learned(name.clone(), (generation, term), leader).await;
                }
                if seat.changed().await.is_err() {
                    return;
                }
            }
            changed = seat.changed() => if changed.is_err() { return },
        }
    }
}
