//! Which images make room when the disk runs full.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use containerd_client::services::v1::PluginsRequest;

use super::name::full;
use super::origin::Origin;
use super::{ImageError, ImageRecord, ImageStore};

/// The type that containerd gives its snapshotters.
const SNAPSHOTTERS: &str = "io.containerd.snapshotter.v1";

/// When to remove images, and which never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Names to keep, as jobs say them. What a container uses is kept anyway.
    pub keep: BTreeSet<String>,
    /// A path on the disk that has containerd's data.
    pub disk: PathBuf,
    /// Images are removed when more than this share of the disk is used, in percent,
    pub used_percent_max: u8,
    /// ... until no more than this share is.
    pub used_percent_target: u8,
}

impl ImageStore {
    /// A path on the disk that has containerd's data, as containerd itself tells it.
    pub async fn disk(&self) -> Result<PathBuf, ImageError> {
        let snapshotter = self.line.snapshotter();
        let request = self.line.request(PluginsRequest {
            filters: vec![format!("type=={SNAPSHOTTERS},id=={snapshotter}")],
        });
        let mut client = self.line.client().introspection();
        let answer = self
            .line
            .call("tell its directory", client.plugins(request))
            .await?;
        let root = answer
            .plugins
            .into_iter()
            .find_map(|mut plugin| plugin.exports.remove("root"));
        root.map(PathBuf::from).ok_or_else(|| ImageError::Refused {
            call: "tell its directory",
            reason: format!("the snapshotter {snapshotter} does not say where it is"),
        })
    }

    /// Removes images that came from registries, longest unused first, until the disk is used as little as wanted or
    /// nothing is left to remove. Returns what was removed.
    pub async fn collect_garbage(
        &self,
        policy: &Retention,
    ) -> Result<Vec<ImageRecord>, ImageError> {
        let mut removed = Vec::new();
        if used_percent(policy).await? <= policy.used_percent_max.into() {
            return Ok(removed);
        }
        for image in self.removable(policy).await? {
            tracing::info!(image = image.name, "removing an image to free disk space");
            super::record::delete(&self.line, &image.name).await?;
            removed.push(image);
            if used_percent(policy).await? <= policy.used_percent_target.into() {
                break;
            }
        }
        Ok(removed)
    }

    /// Longest unused first. Only what a registry gave: an image from an archive could not be had
    /// again.
    async fn removable(&self, policy: &Retention) -> Result<Vec<ImageRecord>, ImageError> {
        let mut kept: BTreeSet<String> = policy.keep.iter().map(|name| full(name)).collect();
        kept.extend(self.in_use().await?.into_values());
        let mut images = Vec::new();
        for image in self.list().await? {
            let is_free = !kept.contains(&image.name);
            if is_free
                && Origin::of(&self.line, &image.digest)
                    .await?
                    .can_be_had_again()
            {
                images.push(image);
            }
        }
        images.sort_by_key(|image| image.last_used);
        Ok(images)
    }
}

async fn used_percent(policy: &Retention) -> Result<u64, ImageError> {
    let path = policy.disk.clone();
    // A dead network disk would hang the call, and with it the whole runtime.
    let used = tokio::task::spawn_blocking(move || measure(&path)).await;
    let used = used.map_err(|_| ImageError::Cancelled)?;
    let failed = |source| ImageError::Disk {
        path: policy.disk.display().to_string(),
        source,
    };
    used.map_err(failed)
}

/// Used share of a disk, of what ordinary users may use, rounded up as `df` does.
fn measure(path: &Path) -> std::io::Result<u64> {
    let disk = nix::sys::statvfs::statvfs(path)?;
    let used = disk.blocks().saturating_sub(disk.blocks_free());
    let total = used.saturating_add(disk.blocks_available()).max(1);
    Ok((used.saturating_mul(100)).div_ceil(total))
}
