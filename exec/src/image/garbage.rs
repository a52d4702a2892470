//! Which images make room when the disk runs full.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::name::full;
use super::{Error, Image, ImageStore};

/// When to remove images, and which never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Names to keep, as jobs say them. What a container uses is kept anyway.
    pub keep: BTreeSet<String>,
    /// A path on the disk that has containerd's data.
    pub disk: PathBuf,
    /// Images are removed while more than this share of the disk is used, in percent.
    pub used_percent_max: u8,
}

impl ImageStore {
    /// Removes images, longest unused first, until the disk is used as little as wanted or
    /// nothing is left to remove. Returns what was removed.
    pub async fn collect_garbage(&self, policy: &Retention) -> Result<Vec<Image>, Error> {
        let mut removed = Vec::new();
        if !is_full(policy).await? {
            return Ok(removed);
        }
        for image in self.removable(policy).await? {
            tracing::info!(image = image.name, "removing an image to free disk space");
            super::record::delete(&self.line, &image.name).await?;
            removed.push(image);
            if !is_full(policy).await? {
                break;
            }
        }
        Ok(removed)
    }

    /// Longest unused first.
    async fn removable(&self, policy: &Retention) -> Result<Vec<Image>, Error> {
        let mut kept: BTreeSet<String> = policy.keep.iter().map(|name| full(name)).collect();
        kept.extend(self.in_use().await?.into_values());
        let mut images = self.list().await?;
        images.retain(|image| !kept.contains(&image.name));
        images.sort_by_key(|image| image.last_used);
        Ok(images)
    }
}

async fn is_full(policy: &Retention) -> Result<bool, Error> {
    let path = policy.disk.clone();
    // A dead network disk would hang the call, and with it the whole runtime.
    let used = tokio::task::spawn_blocking(move || used_percent(&path)).await;
    let used = used.map_err(|_| Error::Cancelled)?;
    let failed = |source| Error::Disk {
        path: policy.disk.display().to_string(),
        source,
    };
    Ok(used.map_err(failed)? > u64::from(policy.used_percent_max))
}

/// Used share of a disk, of what ordinary users may use, rounded up as `df` does.
fn used_percent(path: &Path) -> std::io::Result<u64> {
    let disk = nix::sys::statvfs::statvfs(path)?;
    let used = disk.blocks().saturating_sub(disk.blocks_free());
    let total = used.saturating_add(disk.blocks_available()).max(1);
    Ok((used.saturating_mul(100)).div_ceil(total))
}
