//! Watches the size of a container's writable layer.

use std::time::{Duration, Instant};

use muster_model::id::AttemptUid;

use super::order::RunnerConfig;
use crate::engine::Engine;

const MIB: u64 = 1 << 20;
/// A measurement may take at most this share of the time, 1/20.
const SHARE: u32 = 20;
/// The longest wait between two measurements, as a multiple of the first.
const BACKOFF_MAX: u32 = 16;

/// Returns when the layer is over its limit, with a sentence that says so. Never returns if
/// there is no limit.
pub(super) async fn over_limit(
    engine: &dyn Engine,
    uid: &AttemptUid,
    disk_mb: u64,
    config: &RunnerConfig,
) -> String {
    if disk_mb == 0 {
        return std::future::pending().await;
    }
    let mut wait = config.disk_interval;
    loop {
        tokio::time::sleep(wait).await;
        let begin = Instant::now();
        match engine.writable_bytes(uid).await {
            Ok(bytes) if bytes > disk_mb.saturating_mul(MIB) => {
                let mib = bytes.div_ceil(MIB);
                return format!("the writable layer is {mib} MiB, over its limit of {disk_mb} MiB");
            }
            Ok(_) => wait = next_wait(config.disk_interval, begin.elapsed()),
            Err(_) => wait = (wait * 2).min(config.disk_interval * BACKOFF_MAX),
        }
    }
}

/// A layer of many files takes long to measure, so it is measured less often.
fn next_wait(interval: Duration, took: Duration) -> Duration {
    (took * SHARE).clamp(interval, interval * BACKOFF_MAX)
}
