//! The loop of the cluster's affairs: every member runs it, and acts while it leads.
//!
//! It takes the steps of documents, and fetches the bodies that its own copy lacks.

use std::sync::Arc;
use std::time::Duration;

use muster_control::answers::affairs::Leading;
use tokio::time::{MissedTickBehavior, interval};

use super::Affairs;

/// How often documents are looked at for their next step.
const STEP_PAUSE: Duration = Duration::from_millis(500);
/// How often bodies are looked for.
const MEND_PAUSE: Duration = Duration::from_secs(10);

/// Runs until the node is a member no more.
pub(crate) async fn run(affairs: Arc<Affairs>) {
    tokio::select! {
        () = lead(&affairs) => {}
        () = mend(&affairs) => {}
    }
}

/// Does what the leader has to do, while this node leads.
async fn lead(affairs: &Affairs) {
    let mut led = affairs.port().group.groups().led();
    let mut pause = interval(STEP_PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut leading = Leading::default();
    loop {
        tokio::select! {
            changed = led.changed() => if changed.is_err() { return },
            _ = pause.tick() => {}
        }
        led.mark_unchanged();
        leading.turn(affairs).await;
    }
}

async fn mend(affairs: &Affairs) {
    let mut pause = interval(MEND_PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pause.tick().await;
        affairs.mend_bodies().await;
    }
}
