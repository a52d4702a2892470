//! Removes images that nobody uses when the disk they are on runs full.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_exec::image::{ImageError, Retention};
use muster_model::id::VcName;

use crate::causes::causes;
use crate::config;
use crate::images::NodeImages;
use crate::vc::VcHandle;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(60);

/// Looks until the agent ends.
pub(crate) async fn run(images: Arc<NodeImages>, limits: config::ImagesConfig, vc: VcHandle) {
    let mut wanted = BTreeMap::new();
    loop {
        // While nobody knows what is wanted, everything is kept.
        if let Some(keep) = keep(&vc, &mut wanted).await
            && let Err(error) = collect(&images, &limits, keep).await
        {
            // An engine that does not answer is told of elsewhere.
            tracing::debug!(error = causes(&error), "images cannot be cleared away");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What is to be kept. One that does not answer wants what it wanted last; nothing is known as long as
/// one has never answered.
async fn keep(
    vc: &VcHandle,
    known: &mut BTreeMap<VcName, BTreeSet<String>>,
) -> Option<BTreeSet<String>> {
    let (told, away) = vc.images_wanted().await.ok()?;
    // Those of a cluster that was left want nothing any more.
    known.retain(|vc, _| away.contains(vc));
    known.extend(told);
    let is_known = away.iter().all(|vc| known.contains_key(vc));
    is_known.then(|| known.values().flatten().cloned().collect())
}

async fn collect(
    images: &NodeImages,
    limits: &config::ImagesConfig,
    keep: BTreeSet<String>,
) -> Result<(), ImageError> {
    let store = images.store();
    let policy = Retention {
        keep,
        disk: store.disk().await?,
        used_percent_max: limits.disk_percent_max,
        used_percent_target: limits.disk_percent_target,
    };
    store.collect_garbage(&policy).await.map(drop)
}
