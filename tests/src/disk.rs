//! Small disks of memory that can be filled to the last byte, for what happens when one is full.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// The file that takes what room there is.
const FILLER: &str = "filler";

/// A disk that is mounted until this is dropped.
#[derive(Debug)]
pub struct MountedDisk(PathBuf);

impl MountedDisk {
    /// Mounts a new disk that holds so many bytes at `path`, which is made if it is not there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn mount(path: &Path, bytes: u64) -> Result<Self> {
        mount_at(path, bytes)?;
        Ok(Self(path.to_owned()))
    }

    /// Takes all room that is left.
    ///
    /// # Errors
    /// When the file that takes it cannot be made.
    pub fn fill(&self) -> Result<()> {
        fill(&self.0.join(FILLER))
    }

    /// Gives that room back.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn free(&self) -> Result<()> {
        match std::fs::remove_file(self.0.join(FILLER)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        // Whoever still writes there keeps it until it ends; nobody finds it any more.
        if let Err(error) = umount2(&self.0, MntFlags::MNT_DETACH) {
            eprintln!("{} stays mounted: {error}", self.0.display());
        }
    }
}

/// Mounts a disk that stays until somebody unmounts it.
///
/// # Errors
/// When the kernel refuses.
pub fn mount_at(path: &Path, bytes: u64) -> Result<()> {
    std::fs::create_dir_all(path)?;
    let options = format!("size={bytes},mode=700");
    let (kind, none) = (Some("tmpfs"), MsFlags::empty());
    mount(kind, path, kind, none, Some(options.as_str()))
        .with_context(|| format!("no disk at {}", path.display()))
}

/// Takes all room that is left on the disk where `path` is.
///
/// # Errors
/// When the file cannot be made.
pub fn fill(path: &Path) -> Result<()> {
    let mut file = File::options().create(true).append(true).open(path)?;
    let block = vec![0; 64 << 10];
    while file.write_all(&block).is_ok() {}
    while file.write_all(&block[..512]).is_ok() {}
    Ok(())
}

/// Unmounts everything below a directory that nobody uses any more.
///
/// # Errors
/// When the kernel refuses.
pub fn unmount_below(dir: &Path) -> Result<()> {
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let prefix = format!("{}/", dir.display());
    let targets = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let mut below: Vec<&str> = targets.filter(|it| it.starts_with(&prefix)).collect();
    below.sort_unstable();
    for target in below.into_iter().rev() {
        umount2(target, MntFlags::MNT_DETACH)?;
    }
    Ok(())
}
