//! The loop of the cluster state: every member runs it, and acts while it leads.
//!
//! It takes the steps of documents, and fetches the bodies that its own copy lacks.

use std::sync::Arc;
use std::time::Duration;

use muster_control::answers::cluster::Leading;
use tokio::time::{MissedTickBehavior, interval};

use super::NodeClusterService;

/// How often documents are looked at for their next step.
const STEP_PAUSE: Duration = Duration::from_millis(500);
/// How often bodies are looked for.
const MEND_PAUSE: Duration = Duration::from_secs(10);

/// Runs until the node is a member no more.
pub(crate) async fn run(cluster_service: Arc<NodeClusterService>) {
    tokio::select! {
        () = lead(&cluster_service) => {}
        () = mend(&cluster_service) => {}
    }
}

/// Does what the leader has to do, while this node leads.
async fn lead(cluster_service: &NodeClusterService) {
    let mut led = cluster_service.port().group.groups().led();
    let mut pause = interval(STEP_PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut leading = Leading::default();
    loop {
        tokio::select! {
            changed = led.changed() => if changed.is_err() { return },
            _ = pause.tick() => {}
        }
        led.mark_unchanged();
        leading.turn(cluster_service).await;
    }
}

async fn mend(cluster_service: &NodeClusterService) {
    let mut pause = interval(MEND_PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pause.tick().await;
        cluster_service.mend_bodies().await;
    }
}
