//! Removes images that nobody uses when the disk they are on runs full.

use std::sync::Arc;
use std::time::Duration;

use muster_exec::image::{Error, Retention};

use crate::causes::causes;
use crate::config;
use crate::groups::VcHandle;
use crate::images::Images;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(60);

/// Looks until the agent ends.
pub(crate) async fn run(images: Arc<Images>, limits: config::Images, vc: VcHandle) {
    while let Ok(keep) = vc.read(|view| view.state.images_wanted()).await {
        if let Err(error) = collect(&images, &limits, keep).await {
            // An engine that does not answer is told of elsewhere.
            tracing::debug!(error = causes(&error), "images cannot be cleared away");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn collect(
    images: &Images,
    limits: &config::Images,
    keep: std::collections::BTreeSet<String>,
) -> Result<(), Error> {
    let store = images.store();
    let policy = Retention {
        keep,
        disk: store.disk().await?,
        used_percent_max: limits.disk_percent_max,
        used_percent_target: limits.disk_percent_target,
    };
    store.collect_garbage(&policy).await.map(drop)
}
