//! Removes images that nobody uses when the disk they are on runs full.

use std::sync::Arc;
use std::time::Duration;

use muster_exec::image::{Error, Retention};

use crate::causes::causes;
use crate::config;
use crate::images::Images;
use crate::vc::VcHandle;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(60);

/// Looks until the agent ends.
pub(crate) async fn run(images: Arc<Images>, limits: config::Images, vc: VcHandle) {
    loop {
        // While nobody knows what is wanted, everything is kept.
        if let Ok(keep) = vc.images_wanted().await
            && let Err(error) = collect(&images, &limits, keep).await
        {
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
