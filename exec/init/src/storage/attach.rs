//! Puts mounted storages into a container whose first process waits for its orders.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::mount::MsFlags;
use nix::sched::{CloneFlags, setns};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MoveMountFlags, OpenTreeFlags};

use super::mount;
use super::mount_table::OpenTable;
use super::namespace::{self, change};
use super::problem::{StorageProblem, StorageProblemKind};
use super::request::AttachedPlace;

/// Where no storage is put in a container, whatever links of its image lead there.
const KEPT: [&str; 3] = ["/proc", "/sys", "/dev"];
/// Permissions of a directory that is made on a storage.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);

pub(super) fn attach(pin: &Path, pid: u32, places: &[AttachedPlace]) -> Result<(), StorageProblem> {
    let container = File::open(format!("/proc/{pid}/ns/mnt"))
        .map_err(|error| StorageProblem::of("find the container", &error))?;
    let mut table = OpenTable::of(pid)
        .map_err(|error| StorageProblem::of("read the container's mounts", &error))?;
    // Directories of the machine first, as the host sees them: a copy of one takes along what is mounted below it, which
    // is not to be other storages.
    let (storages, of_host): (Vec<_>, Vec<_>) = places.iter().partition(|place| place.is_storage);
    let mut trees = Vec::new();
    for place in of_host {
        trees.push((place, tree(place)?));
    }
    if !storages.is_empty() {
        namespace::enter(pin)
            .map_err(|error| StorageProblem::of("enter the namespace of storages", &error))?;
    }
    for place in storages {
        trees.push((place, tree(place)?));
    }
    setns(&container, CloneFlags::CLONE_NEWNS)
        .map_err(|error| StorageProblem::of("enter the container", &error.into()))?;
    for (place, tree) in trees {
        let shown = place.target.display();
        put(place, &tree, &mut table).map_err(|error| StorageProblem {
            kind: match error.kind() {
                // So it is with this image on any machine.
                io::ErrorKind::InvalidInput
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::AlreadyExists => StorageProblemKind::BadPlace,
                _ => StorageProblemKind::Failed,
            },
            ..StorageProblem::of(&format!("mount {shown}"), &error)
        })?;
    }
    Ok(())
}

/// A copy of the mount at the place, that is mounted nowhere.
fn tree(place: &AttachedPlace) -> Result<OwnedFd, StorageProblem> {
    let directory = directory(place)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(&directory, "", flags)
        .map_err(|error| StorageProblem::of("copy its mount", &error.into()))
}

/// The directory of the place, for a process in the namespace of storages or, for a directory of the machine, in the
/// host's.
pub(super) fn directory(place: &AttachedPlace) -> Result<OwnedFd, StorageProblem> {
    let mut directory = source(place)?;
    for below in &place.below {
        directory = step(directory.as_fd(), below, place.creates).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    ". If the server takes root for nobody (root_squash), make the directory there and give it to \
                     its user"
                }
                _ => "",
            };
            StorageProblem::failed(format!("cannot make or open its directory {below}: {error}{hint}"))
        })?;
    }
    Ok(directory)
}

/// The place's own directory.
fn source(place: &AttachedPlace) -> Result<OwnedFd, StorageProblem> {
    let failed = |error: io::Error| StorageProblem::of("open it", &error);
    if place.is_storage {
        mount::check_mounted(&place.source)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        return rustix::fs::open(&place.source, flags, Mode::empty())
            .map_err(|error| failed(error.into()));
    }
    let mut directory = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| failed(error.into()))?;
    let mut path = PathBuf::from("/");
    for part in place.source.iter().skip(1) {
        path.push(part);
        directory = match open_below(directory.as_fd(), part) {
            Ok(below) => below,
            Err(_) if path.is_symlink() => {
                let message = format!(
                    "{} is a symbolic link: declare where it leads",
                    path.display()
                );
                return Err(StorageProblem::failed(message));
            }
            Err(error) => return Err(failed(error)),
        };
    }
    Ok(directory)
}

/// The directory of that name, which is made if it is not there. A link is not followed: users make links on
/// storages, and this process sees the host's files.
fn step(directory: BorrowedFd<'_>, name: &str, creates: bool) -> io::Result<OwnedFd> {
    if matches!(name, "" | "." | "..") || name.contains('/') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    match open_below(directory, name.as_ref()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && creates => {}
        opened => return opened,
    }
    match rustix::fs::mkdirat(directory, name, DIRECTORY_MODE) {
        // Another task of the user has just made it.
        Ok(()) | Err(rustix::io::Errno::EXIST) => open_below(directory, name.as_ref()),
        Err(error) => Err(error.into()),
    }
}

/// A directory in another one, that is no link to one. Not by openat2(2), which systemd keeps from services with
/// RestrictSUIDSGID.
fn open_below(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?)
}

/// Mounts a copy in the container that this process is in.
fn put(place: &AttachedPlace, tree: &OwnedFd, table: &mut OpenTable) -> io::Result<()> {
    let target = made(&place.target)?;
    let before: BTreeSet<u64> = table.read()?.iter().map(|entry| entry.id).collect();
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", CWD, &target, flags)?;
    change(&target, MsFlags::MS_PRIVATE | MsFlags::MS_REC)?;
    // A directory of the host may have mounts below it: each has flags of its own.
    for entry in table.read()? {
        if entry.point.starts_with(&target) && !before.contains(&entry.id) {
            restrict(&entry.point, entry.flags, place.read_only)?;
        }
    }
    Ok(())
}

fn restrict(point: &Path, flags: MsFlags, read_only: bool) -> io::Result<()> {
    let mut wanted = flags | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    wanted.set(
        MsFlags::MS_RDONLY,
        read_only || flags.contains(MsFlags::MS_RDONLY),
    );
    if wanted == flags {
        return Ok(());
    }
    let none = None::<&str>;
    let how = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | wanted;
    Ok(nix::mount::mount(none, point, none, how, none)?)
}

/// The directory in the container with its links resolved, which is made if it is not there.
fn made(target: &Path) -> io::Result<PathBuf> {
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !target.is_absolute() || !target.components().all(is_plain) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    std::fs::create_dir_all(target)?;
    let target = target.canonicalize()?;
    let is_kept = KEPT.iter().any(|kept| target.starts_with(kept));
    if is_kept || target == Path::new("/") {
        let message = format!("in this image it leads to {}", target.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(target)
}
