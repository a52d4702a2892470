//! Files of an image, read from its unpacked layers without mounting them.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use containerd_client::services::v1::snapshots::{
    MountsRequest, RemoveSnapshotRequest, ViewSnapshotRequest,
};
use containerd_client::types::Mount;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;
use tonic::Code;

use super::Containerd;
use super::image::bad;
use crate::engine::EngineError;

/// Larger files are refused.
const FILE_BYTES_MAX: u64 = 4 << 20;

impl Containerd {
    /// The directories of an image's layers on this machine, topmost first. They stay as long
    /// as the image does.
    pub(super) async fn layer_dirs(
        &self,
        image: &str,
        chain_id: &str,
    ) -> Result<Vec<PathBuf>, EngineError> {
        let key = format!("muster-view-{chain_id}");
        let mounts = self.view(image, &key, chain_id).await?;
        self.remove_view(&key).await?;
        dirs(&mounts).ok_or_else(|| {
            let reason = format!(
                "its USER cannot be looked up: {} does not keep layers as directories",
                self.snapshotter
            );
            bad(image, &reason)
        })
    }

    async fn view(&self, image: &str, key: &str, parent: &str) -> Result<Vec<Mount>, EngineError> {
        let connection = &self.connection;
        let mut snapshots = connection.client().snapshots();
        let request = connection.request(ViewSnapshotRequest {
            snapshotter: self.snapshotter.clone(),
            key: key.to_owned(),
            parent: parent.to_owned(),
            ..ViewSnapshotRequest::default()
        });
        match connection.call(snapshots.view(request)).await {
            Ok(answer) => return Ok(answer.mounts),
            Err(fault) if fault.is(Code::NotFound) => {
                return Err(bad(image, "its layers are not unpacked"));
            }
            // Left by a crash, or another task of the same image looks at this moment.
            Err(fault) if fault.is(Code::AlreadyExists) => {}
            Err(fault) => return Err(connection.error("look into the image", fault)),
        }
        let request = connection.request(MountsRequest {
            snapshotter: self.snapshotter.clone(),
            key: key.to_owned(),
        });
        let answer = connection
            .call(snapshots.mounts(request))
            .await
            .map_err(|fault| connection.error("look into the image", fault))?;
        Ok(answer.mounts)
    }

    async fn remove_view(&self, key: &str) -> Result<(), EngineError> {
        let connection = &self.connection;
        let request = connection.request(RemoveSnapshotRequest {
            snapshotter: self.snapshotter.clone(),
            key: key.to_owned(),
        });
        match connection
            .call(connection.client().snapshots().remove(request))
            .await
        {
            Ok(()) => Ok(()),
            Err(fault) if fault.is(Code::NotFound) => Ok(()),
            Err(fault) => Err(connection.error("look into the image", fault)),
        }
    }
}

/// Where the layers of a mount lie: an overlay lists them, a single layer is bound as it is.
fn dirs(mounts: &[Mount]) -> Option<Vec<PathBuf>> {
    let [mount] = mounts else { return None };
    match mount.r#type.as_str() {
        "bind" => Some(vec![mount.source.clone().into()]),
        "overlay" => {
            let lower = mount
                .options
                .iter()
                .find_map(|o| o.strip_prefix("lowerdir="))?;
            Some(lower.split(':').map(PathBuf::from).collect())
        }
        _ => None,
    }
}

/// `path` as the topmost layer that has it shows it; empty if none has, or if one deletes it.
/// Links are followed within the layer only: the image is not trusted with the host's files.
pub(super) fn read(dirs: &[PathBuf], path: &str) -> Result<String, String> {
    for dir in dirs {
        let failed = |error: &dyn std::error::Error| {
            format!("/{path} in its layer {}: {error}", dir.display())
        };
        match open_below(dir, Path::new(path)) {
            Ok(file) => return text(file).map_err(|error| failed(&error)),
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            // A device without a driver is how an overlay marks a deleted file.
            Err(Errno::ENXIO) => break,
            Err(errno) => return Err(failed(&errno)),
        }
    }
    Ok(String::new())
}

fn open_below(dir: &Path, path: &Path) -> Result<File, Errno> {
    let root = open(dir, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT);
    openat2(root.as_fd(), path, how).map(File::from)
}

fn text(file: File) -> Result<String, std::io::Error> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_topmost_layer_wins_and_links_stay_inside() {
        let root = tempfile::tempdir().unwrap();
        let layer = |name: &str| {
            let dir = root.path().join(name);
            std::fs::create_dir_all(dir.join("etc")).unwrap();
            dir
        };
        let (top, middle, low) = (layer("top"), layer("middle"), layer("low"));
        std::fs::write(middle.join("etc/passwd"), "middle").unwrap();
        std::fs::write(low.join("etc/passwd"), "low").unwrap();
        std::fs::write(low.join("real"), "inside").unwrap();
        symlink("/real", low.join("etc/group")).unwrap();
        symlink("/../../etc/hostname", low.join("etc/outside")).unwrap();
        let dirs = [top, middle, low];
        for (path, expect) in [
            ("etc/passwd", "middle"),
            ("etc/group", "inside"),
            ("etc/outside", ""),
            ("etc/none", ""),
        ] {
            assert_eq!(read(&dirs, path).unwrap(), expect, "{path}");
        }
    }
}
