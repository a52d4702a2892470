//! The mount namespace of storages. It is pinned by a file that it is mounted on, so that it outlives every process.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, statfs};

use super::mount_table;

/// The mount namespace of the caller.
const OWN: &str = "/proc/thread-self/ns/mnt";

/// Whether the namespace is there.
pub(super) fn is_there(pin: &Path) -> bool {
    statfs(pin).is_ok_and(|found| found.filesystem_type() == NSFS_MAGIC)
}

/// Goes into the namespace.
pub(super) fn enter(pin: &Path) -> io::Result<()> {
    if !is_there(pin) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(setns(File::open(pin)?, CloneFlags::CLONE_NEWNS)?)
}

/// Makes the namespace if it is not there. The caller stays where it is.
pub(super) fn make(pin: &Path) -> io::Result<()> {
    if is_there(pin) {
        return Ok(());
    }
    prepare(pin)?;
    let own = File::open(OWN)?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    // What is mounted on the host later is seen here, and nothing of here on the host.
    change("/", MsFlags::MS_SLAVE | MsFlags::MS_REC)?;
    let made = File::open(OWN)?;
    setns(&own, CloneFlags::CLONE_NEWNS)?;
    let made_path = format!("/proc/self/fd/{}", made.as_raw_fd());
    bind(Path::new(&made_path), pin)
}

/// Gives up the namespace, and the mount that its file lies in.
pub(super) fn drop_pin(pin: &Path) -> io::Result<()> {
    if is_there(pin) {
        umount2(pin, MntFlags::MNT_DETACH)?;
    }
    let Some(directory) = pin.parent() else {
        return Ok(());
    };
    if directory.exists() && mount_table::has(&directory.canonicalize()?)? {
        umount2(directory, MntFlags::MNT_DETACH)?;
    }
    Ok(())
}

/// The kernel mounts a namespace on a file only where mounts do not spread to other namespaces.
fn prepare(pin: &Path) -> io::Result<()> {
    let directory = pin.parent().ok_or(io::ErrorKind::InvalidInput)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    if !mount_table::has(&directory.canonicalize()?)? {
        bind(directory, directory)?;
    }
    change(directory, MsFlags::MS_PRIVATE)?;
    File::create(pin)?;
    Ok(())
}

/// Mounts a directory or file in one more place.
pub(super) fn bind(source: &Path, target: &Path) -> io::Result<()> {
    let none = None::<&str>;
    Ok(mount(Some(source), target, none, MsFlags::MS_BIND, none)?)
}

/// Changes how mounts spread from there.
pub(super) fn change(target: impl AsRef<Path>, flags: MsFlags) -> io::Result<()> {
    let none = None::<&str>;
    Ok(mount(none, target.as_ref(), none, flags, none)?)
}
