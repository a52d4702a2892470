//! Device files: what a container gets of the host's /dev.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::stat::{major, minor};
use serde::Serialize;

use super::OciSpecError;

/// A device file that is made in the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DeviceNode {
    /// In the container.
    pub path: PathBuf,
    /// `c` or `b`.
    #[serde(rename = "type")]
    pub kind: char,
    pub major: u64,
    pub minor: u64,
    #[serde(rename = "fileMode")]
    pub file_mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// A line of the device controller's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DeviceRule {
    pub allow: bool,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<char>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor: Option<u64>,
    /// Letters of `rwm`.
    pub access: String,
}

impl DeviceRule {
    /// Nothing is allowed but what later rules say. The runtime itself adds the harmless
    /// devices every container has: null, zero, full, random, urandom, tty, ptmx, pts.
    pub(crate) fn deny_all() -> Self {
        Self {
            allow: false,
            kind: None,
            major: None,
            minor: None,
            access: "rwm".to_owned(),
        }
    }

    /// Allows `access` to `node`.
    pub(crate) fn allow(node: &DeviceNode, access: &str) -> Self {
        Self {
            allow: true,
            kind: Some(node.kind),
            major: Some(node.major),
            minor: Some(node.minor),
            access: access.to_owned(),
        }
    }
}

/// The device files at `path`: the file itself, or all of a directory, however deep.
pub(crate) fn read(path: &Path) -> Result<Vec<DeviceNode>, OciSpecError> {
    let failed = |source| OciSpecError::Device {
        path: path.to_owned(),
        source: Arc::new(source),
    };
    if !path.metadata().map_err(failed)?.is_dir() {
        return Ok(vec![node(path, path)?]);
    }
    let mut nodes = Vec::new();
    for entry in path.read_dir().map_err(failed)? {
        let below = entry.map_err(failed)?.path();
        if below.is_dir() || is_device(&below) {
            nodes.extend(read(&below)?);
        }
    }
    nodes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(nodes)
}

/// The host's device file `source`, to be made at `target`.
pub(crate) fn node(source: &Path, target: &Path) -> Result<DeviceNode, OciSpecError> {
    let failed = |error| OciSpecError::Device {
        path: source.to_owned(),
        source: Arc::new(error),
    };
    let file = source.metadata().map_err(failed)?;
    let kind = match file.file_type() {
        kind if kind.is_char_device() => 'c',
        kind if kind.is_block_device() => 'b',
        _ => return Err(OciSpecError::NoDevice(source.to_owned())),
    };
    Ok(DeviceNode {
        path: target.to_owned(),
        kind,
        major: major(file.rdev()),
        minor: minor(file.rdev()),
        file_mode: file.mode() & 0o777,
        uid: file.uid(),
        gid: file.gid(),
    })
}

fn is_device(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|file| file.file_type().is_char_device() || file.file_type().is_block_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_and_other_files_refused() {
        let null = read(Path::new("/dev/null")).unwrap();
        assert_eq!((null[0].kind, null[0].major, null[0].minor), ('c', 1, 3));
        assert!(matches!(
            read(Path::new("/etc/passwd")),
            Err(OciSpecError::NoDevice(_))
        ));
        let missing = read(Path::new("/dev/no-such-device")).unwrap_err();
        assert!(
            missing.to_string().contains("/dev/no-such-device"),
            "{missing}"
        );
    }
}
