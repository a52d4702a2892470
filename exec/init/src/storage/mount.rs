//! Mounts a storage, asks its server for an answer, and unmounts it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::mount::{MntFlags, umount2};
use nix::sys::statfs::statfs;

use super::problem::{StorageProblem, StorageProblemKind};
use super::request::{ABORTS_MAX, MountCall, UnmountMode};
use super::{mount_table, namespace};

/// Where mount(8) and its helpers are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Most characters of what mount says that are told.
const SAID_CHARS_MAX: usize = 512;
/// Kinds that mount(8) has a helper for, with the package of Debian that has the helper.
const HELPERS: [(&str, &str); 3] = [
    ("nfs", "nfs-common"),
    ("nfs4", "nfs-common"),
    ("cifs", "cifs-utils"),
];

pub(super) fn mount(call: &MountCall) -> Result<(), StorageProblem> {
    let failed =
        |error: io::Error| StorageProblem::of(&format!("use {}", call.target.display()), &error);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&call.target)
        .map_err(failed)?;
    let target = call.target.canonicalize().map_err(failed)?;
    if mount_table::has(&target).map_err(failed)? {
        return Ok(());
    }
    check_helper(&call.kind)?;
    let output = Command::new("mount")
        .args(["-t", &call.kind, "-o", &call.options.join(","), "--"])
        .args([call.source.as_ref(), target.as_os_str()])
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .envs(call.secrets.iter().cloned())
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| StorageProblem::of("start mount", &error))?;
    if output.status.success() {
        return make_spares(&target).map_err(failed);
    }
    // Nothing of the storage is there: no task is to take the empty directory for it.
    let _ = fs::remove_dir(&target);
    let said = String::from_utf8_lossy(&output.stderr);
    Err(StorageProblem::failed(told(&said, &target)))
}

/// A forced umount(2) has the requests to a server fail, and unmounts what nothing else uses. So that the storage stays
/// mounted, other mounts of it are there to be unmounted. They are made while the server answers: to make one, the
/// kernel asks it.
fn make_spares(target: &Path) -> io::Result<()> {
    for spare in spares(target) {
        if mount_table::has(&spare)? {
            continue;
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&spare)?;
        namespace::bind(target, &spare)?;
    }
    Ok(())
}

fn spares(target: &Path) -> Vec<PathBuf> {
    let (above, name) = (target.parent(), target.file_name());
    let Some((above, name)) = above.and_then(Path::parent).zip(name) else {
        return Vec::new();
    };
    let spare = |number: usize| above.join("spares").join(name).join(number.to_string());
    (0..ABORTS_MAX).map(spare).collect()
}

/// What mount said, without where it was to mount, and without what it says for those who type it.
fn told(said: &str, target: &Path) -> String {
    let prefix = format!("{}: ", target.display());
    let suffix = format!(" on {}", target.display());
    let lines = said
        .lines()
        .map(|line| {
            let (_, line) = line
                .split_once(": ")
                .filter(|(program, _)| program.starts_with("mount"))
                .unwrap_or(("", line));
            let line = line.strip_prefix(&*prefix).unwrap_or(line).trim();
            line.strip_suffix(&*suffix).unwrap_or(line)
        })
        .filter(|line| {
            !line.is_empty() && !line.starts_with("dmesg(1)") && !line.contains("Refer to the")
        });
    let text = lines.collect::<Vec<_>>().join("; ");
    match text.is_empty() {
        true => "mount failed without a reason".to_owned(),
        false => text.chars().take(SAID_CHARS_MAX).collect(),
    }
}

fn check_helper(kind: &str) -> Result<(), StorageProblem> {
    let Some((_, package)) = HELPERS.iter().find(|(known, _)| *known == kind) else {
        return Ok(());
    };
    let program = format!("mount.{kind}");
    let is_there = PATH
        .split(':')
        .any(|directory| Path::new(directory).join(&program).exists());
    match is_there {
        true => Ok(()),
        false => Err(StorageProblem {
            kind: StorageProblemKind::NoHelper,
            message: format!("this machine has no {program}: install the package {package} there"),
        }),
    }
}

/// Returns when the server has answered.
pub(super) fn check(target: &Path) -> Result<(), StorageProblem> {
    let target = &check_mounted(target)?;
    statfs(target).map_err(|error| StorageProblem::of("read it", &error.into()))?;
    make_spares(target).map_err(|error| StorageProblem::of("mount it once more", &error))
}

/// The path of a mounted storage as the table of mounts has it. Asks no server.
pub(super) fn check_mounted(target: &Path) -> Result<PathBuf, StorageProblem> {
    let not_mounted = || StorageProblem {
        kind: StorageProblemKind::NotMounted,
        message: "it is not mounted".to_owned(),
    };
    // The directory above is on the machine's own disk.
    let name = target.file_name().ok_or_else(not_mounted)?;
    let above = target.parent().and_then(|above| above.canonicalize().ok());
    let target = above.ok_or_else(not_mounted)?.join(name);
    let is_mounted =
        mount_table::has(&target).map_err(|error| StorageProblem::of("read the mounts", &error))?;
    match is_mounted {
        true => Ok(target),
        false => Err(not_mounted()),
    }
}

pub(super) fn unmount(target: &Path, mode: UnmountMode) -> Result<(), StorageProblem> {
    let flags = match mode {
        UnmountMode::Idle => MntFlags::empty(),
        UnmountMode::Detach => MntFlags::MNT_DETACH,
        UnmountMode::Abort => {
            let mut spares = spares(target).into_iter();
            return match spares.find_map(|spare| take_off(&spare, MntFlags::MNT_FORCE).transpose())
            {
                None | Some(Ok(())) => Ok(()),
                Some(Err(error)) => Err(error),
            };
        }
    };
    for spare in spares(target) {
        take_off(&spare, MntFlags::MNT_DETACH)?;
    }
    if let Some(directory) = spares(target).first().and_then(|spare| spare.parent()) {
        let _ = fs::remove_dir(directory);
    }
    take_off(target, flags)?;
    Ok(())
}

/// Unmounts what is mounted there and removes the directory; `None` if nothing is mounted.
fn take_off(target: &Path, flags: MntFlags) -> Result<Option<()>, StorageProblem> {
    let done = match umount2(target, flags | MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) => Some(()),
        Err(nix::Error::EINVAL | nix::Error::ENOENT) => None,
        Err(error) => return Err(StorageProblem::of("unmount it", &error.into())),
    };
    // Only an empty directory goes, which a mount point is.
    let _ = fs::remove_dir(target);
    Ok(done)
}
