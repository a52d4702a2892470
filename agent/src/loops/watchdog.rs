//! Notices a loop that stopped beating. An agent that only looks alive is worse than none: it
//! would hold its node's place and do nothing. So it ends, and is started again; tasks go on.
//! The service manager hears of every beat, and starts an agent again whose watchdog hangs itself.

use std::time::Duration;

use super::node::NodeHandle;
use crate::systemd::Manager;
use crate::vc::VcHandle;
use crate::waits::Calls;

/// Between two beats.
const PAUSE: Duration = Duration::from_secs(2);
/// A loop that takes longer for a beat is stuck: the slowest thing a loop does is a sync.
const BEAT_LIMIT: Duration = Duration::from_secs(120);

/// Watches the loops until the agent ends; ends the process when one is stuck.
pub(crate) async fn run(vc: VcHandle, node: NodeHandle, beats: Calls, manager: Manager) {
    loop {
        // Open from the last beat on: where every thread hangs, no beat would even begin.
        let _beat = beats.begin();
        tokio::time::sleep(PAUSE).await;
        let beat = async {
            let vc = vc.is_alive().await;
            let node = node.view().await.is_some();
            vc && node
        };
        match tokio::time::timeout(BEAT_LIMIT, beat).await {
            Ok(true) => manager.alive(),
            // A loop that ended does so only with the agent, or by a panic that was logged.
            Ok(false) => {
                tracing::error!("a loop has ended; the agent ends too, to be started again");
                std::process::exit(70);
            }
            Err(_) => {
                tracing::error!("a loop is stuck; the agent ends, to be started again");
                std::process::exit(70);
            }
        }
    }
}
