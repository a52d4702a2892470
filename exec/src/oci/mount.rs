//! What is mounted in every container, and the host paths that are mapped into one.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::engine::BindMount;

/// Files of the host that make names resolve: the network is the host's, so these are too.
const NAME_FILES: &[&str] = &["/etc/hosts", "/etc/resolv.conf"];

/// One mount, in the specification's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Mount {
    pub destination: PathBuf,
    #[serde(rename = "type")]
    pub kind: String,
    pub source: PathBuf,
    pub options: Vec<String>,
}

impl Mount {
    fn new(destination: &str, kind: &str, source: &str, options: &[&str]) -> Self {
        Self {
            destination: destination.into(),
            kind: kind.to_owned(),
            source: source.into(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
        }
    }

    /// A path of the host, with what is mounted below it.
    pub(super) fn bind(bind: &BindMount) -> Self {
        let access = if bind.read_only { "ro" } else { "rw" };
        Self {
            destination: bind.target.clone(),
            kind: "bind".to_owned(),
            source: bind.source.clone(),
            options: ["rbind", "rprivate", access].map(str::to_owned).to_vec(),
        }
    }
}

/// The mounts of every container, parents first. Where the task has a file of its own among `own`,
/// the host's is left out.
pub(super) fn defaults(shm_mb: u64, own: &[BindMount]) -> Vec<Mount> {
    // Size 0 would mean no limit at all.
    let shm_size = format!("size={}m", shm_mb.max(1));
    let shm = ["nosuid", "noexec", "nodev", "mode=1777", &shm_size];
    let dev = ["nosuid", "strictatime", "mode=755", "size=65536k"];
    let pts = [
        "nosuid",
        "noexec",
        "newinstance",
        "ptmxmode=0666",
        "mode=0620",
        "gid=5",
    ];
    let closed = ["nosuid", "noexec", "nodev"];
    let shut = ["nosuid", "noexec", "nodev", "ro"];
    let mut mounts = vec![
        Mount::new("/proc", "proc", "proc", &closed),
        Mount::new("/dev", "tmpfs", "tmpfs", &dev),
        Mount::new("/dev/pts", "devpts", "devpts", &pts),
        Mount::new("/dev/shm", "tmpfs", "shm", &shm),
        Mount::new("/dev/mqueue", "mqueue", "mqueue", &closed),
        Mount::new("/sys", "sysfs", "sysfs", &shut),
        Mount::new("/sys/fs/cgroup", "cgroup", "cgroup", &shut),
    ];
    mounts.extend(
        NAME_FILES
            .iter()
            .filter(|file| Path::new(file).exists())
            .filter(|file| own.iter().all(|mount| mount.target != Path::new(file)))
            .map(|file| {
                Mount::bind(&BindMount {
                    source: file.into(),
                    target: file.into(),
                    read_only: true,
                })
            }),
    );
    mounts
}
