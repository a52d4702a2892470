//! The cluster map on disk: a version of its layout, a checksum, and what postcard makes of it.

use std::io;
use std::path::Path;

use muster_control::cluster::ClusterMap;
use sha2::{Digest as _, Sha256};

use crate::key_file;

/// First byte of the file. A changed layout takes the next number.
const VERSION: u8 = 6;
const SUM_BYTES: usize = 32;

/// Replaces the file, for root alone.
///
/// # Errors
/// When the disk refuses; the old file is then still there.
pub(super) fn write(path: &Path, cluster_map: &ClusterMap) -> io::Result<()> {
    let body = postcard::to_stdvec(cluster_map).map_err(io::Error::other)?;
    let sum = Sha256::digest(&body);
    let content = [&[VERSION][..], sum.as_slice(), &body].concat();
    key_file::write_private(path, &content)
}

/// What the file holds. None where that is damaged: the cluster is asked again.
pub(super) fn read(path: &Path) -> Option<ClusterMap> {
    let content = match std::fs::read(path) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the cluster's users cannot be read");
            return None;
        }
    };
    let cluster_map = decode(&content);
    if cluster_map.is_none() {
        tracing::warn!(path = %path.display(), "damaged; the cluster is asked for its users again");
    }
    cluster_map
}

fn decode(content: &[u8]) -> Option<ClusterMap> {
    let [VERSION, rest @ ..] = content else {
        return None;
    };
    let (sum, body) = rest.split_at_checked(SUM_BYTES)?;
    let right = Sha256::digest(body).as_slice() == sum;
    right.then(|| postcard::from_bytes(body).ok()).flatten()
}
