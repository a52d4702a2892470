//! The loop of the cluster's affairs: every member runs it, and acts while it leads.
//!
//! It takes the steps of documents, and fetches the bodies that its own copy lacks.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Affairs;

/// How often documents are looked at for their next step.
const STEP_PAUSE: Duration = Duration::from_millis(500);
/// How long virtual clusters are waited for to say what cells they have, after the cluster has gone on from a
/// copy: each asks every ten seconds, and those without a leader for longer than this have to be recovered.
const HEAR_LIMIT: Duration = Duration::from_secs(60);
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
    let mut led = affairs.group().groups().led();
    let mut pause = interval(STEP_PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reign = None;
    let mut told = 0;
    let mut since = Instant::now();
    loop {
        tokio::select! {
            changed = led.changed() => if changed.is_err() { return },
            _ = pause.tick() => {}
        }
        let group = affairs.group().id();
        let term = led
            .borrow_and_update()
            .get(&group)
            .map(|term| (group, *term));
        if reign != term {
            (reign, told, since) = (term, 0, Instant::now());
        }
        // What the copy says that it began with is not to be told as news.
        if term.is_none() || !affairs.begin().await {
            continue;
        }
        told = affairs.publish_since(told).await.unwrap_or(told);
        affairs.step().await;
        if since.elapsed() > HEAR_LIMIT {
            affairs.stop_waiting().await;
        }
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
