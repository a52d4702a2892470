//! Device files of NVIDIA's driver, made as its setuid helper makes them.
//!
//! The kernel makes none of them, and udev makes them only after the driver's own programs have
//! run once. A container that starts before that would lack `/dev/nvidia-uvm`, and CUDA in it
//! would find no device.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use super::files::capability;
use crate::inventory::kernel_file;

const DEVICES: &str = "proc/devices";
const PARAMETERS: &str = "proc/driver/nvidia/params";
const KERNEL_GPUS: &str = "proc/driver/nvidia/gpus";
const CAPABILITIES: &str = "proc/driver/nvidia/capabilities";
/// The driver's own major number, which is the same on all machines.
const MAJOR: u64 = 195;
const CONTROL_MINOR: u64 = 255;
const MODESET_MINOR: u64 = 254;
/// The module for unified memory, and its name among the kernel's devices.
const UVM_MODULE: &str = "nvidia-uvm";
const UVM: &str = "nvidia-uvm";
const CAPS: &str = "nvidia-caps";
const MODESET: &str = "nvidia-modeset";
/// Access files of MIG lie at `gpu0/mig/gi1/ci0/access`.
const ACCESS: &str = "access";
const ACCESS_DEPTH: usize = 5;

/// A device file that should be there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WantedFile {
    path: String,
    major: u64,
    minor: u64,
}

/// What the module's parameters say of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileSettings {
    uid: u32,
    gid: u32,
    mode: u32,
    /// Whether programs may make and change them.
    may_make: bool,
}

/// Makes the device files that are missing of the GPUs that the kernel's driver has, of unified
/// memory and of MIG's access files, below `root`. Without a driver nothing is made.
///
/// Owner and mode are those of the driver's module parameters. Where these say that device files
/// are not to be changed (`ModifyDeviceFiles: 0`), nothing is made. A file with other numbers,
/// as one of another driver's boot, is made anew.
///
/// # Errors
/// The first file that could not be made, as a sentence. The others are made all the same.
pub fn make(root: &Path) -> Result<(), String> {
    if !root.join(KERNEL_GPUS).is_dir() {
        return Ok(());
    }
    let settings = FileSettings::parse(&text(root, PARAMETERS));
    if !settings.may_make {
        return Ok(());
    }
    if root == Path::new("/") && !majors(&text(root, DEVICES)).contains_key(UVM) {
        load_uvm();
    }
    let mut first = Ok(());
    for file in wanted(root) {
        if let Err(error) = make_one(root, &file, settings) {
            let path = &file.path;
            let failed = Err(format!("the device file /{path} cannot be made: {error}"));
            first = first.and(failed);
        }
    }
    first
}

/// Loads the module for unified memory. That it cannot be loaded shows in the missing file.
fn load_uvm() {
    match Command::new("modprobe").arg(UVM_MODULE).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            tracing::warn!(error, "the kernel module nvidia-uvm cannot be loaded");
        }
        Err(error) => tracing::warn!(%error, "modprobe cannot be run"),
    }
}

fn wanted(root: &Path) -> Vec<WantedFile> {
    let majors = majors(&text(root, DEVICES));
    let file = |path: &str, major, minor| WantedFile {
        path: format!("dev/{path}"),
        major,
        minor,
    };
    let mut files = vec![file("nvidiactl", MAJOR, CONTROL_MINOR)];
    let gpus = kernel_file::entries(root.join(KERNEL_GPUS));
    let minors = gpus.iter().filter_map(|(_, dir)| device_minor(dir));
    files.extend(minors.map(|minor| file(&format!("nvidia{minor}"), MAJOR, minor)));
    if let Some(major) = majors.get(MODESET) {
        files.push(file("nvidia-modeset", *major, MODESET_MINOR));
    }
    if let Some(major) = majors.get(UVM) {
        files.push(file("nvidia-uvm", *major, 0));
        files.push(file("nvidia-uvm-tools", *major, 1));
    }
    if let Some(major) = majors.get(CAPS) {
        let access = files_below(&root.join(CAPABILITIES), ACCESS_DEPTH);
        let access = access.iter().filter(|path| path.ends_with(ACCESS));
        let minors = access.filter_map(|path| capability(path));
        files.extend(minors.map(|minor| {
            let name = format!("nvidia-caps/nvidia-cap{minor}");
            file(&name, *major, u64::from(minor))
        }));
    }
    files
}

/// Of the line `Device Minor: 3` of a GPU's information 3.
fn device_minor(dir: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(dir.join("information")).ok()?;
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix("Device Minor:")?.trim().parse().ok())
}

/// The numbers of character devices by name.
fn majors(devices: &str) -> BTreeMap<String, u64> {
    let characters = devices.split("Block devices:").next().unwrap_or_default();
    let lines = characters.lines().filter_map(|line| {
        let (number, name) = line.trim().split_once(' ')?;
        Some((name.trim().to_owned(), number.parse().ok()?))
    });
    lines.collect()
}

impl FileSettings {
    /// Of the module's parameters, `DeviceFileMode: 438` and the like.
    fn parse(text: &str) -> Self {
        let number = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            let value = lines.find(|(key, _)| *key == name)?.1;
            value.trim().parse::<u32>().ok()
        };
        Self {
            uid: number("DeviceFileUID").unwrap_or(0),
            gid: number("DeviceFileGID").unwrap_or(0),
            mode: number("DeviceFileMode").unwrap_or(0o666),
            may_make: number("ModifyDeviceFiles").unwrap_or(1) != 0,
        }
    }
}

fn make_one(root: &Path, file: &WantedFile, settings: FileSettings) -> io::Result<()> {
    let path = root.join(&file.path);
    let number = makedev(file.major, file.minor);
    match path.symlink_metadata() {
        Ok(found) if found.rdev() == number => return Ok(()),
        Ok(_) => std::fs::remove_file(&path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => make_parent(&path)?,
        Err(error) => return Err(error),
    }
    // Under another name first, so that no task sees it with the mode of the umask.
    let new = unfinished(&path);
    let _ = std::fs::remove_file(&new);
    mknod(&new, SFlag::S_IFCHR, Mode::empty(), number)?;
    chown(&new, Some(settings.uid), Some(settings.gid))?;
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(settings.mode))?;
    std::fs::rename(&new, &path)
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// All that is no directory below `dir`, so many directories deep.
fn files_below(dir: &Path, depth: usize) -> Vec<PathBuf> {
    let entries = kernel_file::entries(dir).into_iter();
    let files = entries.flat_map(|(_, path)| match (path.is_dir(), depth) {
        (false, _) => vec![path],
        (true, 0) => Vec::new(),
        (true, depth) => files_below(&path, depth - 1),
    });
    files.collect()
}

fn text(root: &Path, path: &str) -> String {
    std::fs::read_to_string(root.join(path)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver with GPUs of these minors, whose first is in MIG mode.
    fn driver(minors: &[u32], params: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(PARAMETERS, params);
        write(
            DEVICES,
            "Character devices:\n  1 mem\n195 nvidia\n195 nvidia-modeset\n234 nvidia-nvswitch\n237 nvidia-caps\n\
             511 nvidia-uvm\n\nBlock devices:\n  8 sd\n511 nvidia-caps\n",
        );
        for minor in minors {
            let text = format!("Model: \t\t V100\nDevice Minor: \t {minor}\n");
            write(
                &format!("{KERNEL_GPUS}/0000:0{minor}:00.0/information"),
                &text,
            );
        }
        for (path, minor) in [("gi1/access", 12), ("gi1/ci0/access", 13)] {
            let text = format!("DeviceFileMinor: {minor}\nDeviceFileMode: 292\n");
            write(&format!("{CAPABILITIES}/gpu0/mig/{path}"), &text);
        }
        root
    }

    /// The character devices below dev, each as `path major:minor mode`.
    fn made(root: &Path) -> Vec<String> {
        let mut files: Vec<String> = files_below(&root.join("dev"), 2)
            .into_iter()
            .filter_map(|path| {
                let found = path.symlink_metadata().ok()?;
                let number = found.rdev();
                let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
                let name = path.strip_prefix(root).ok()?.display().to_string();
                let mode = found.mode() & 0o7777;
                (number != 0).then(|| format!("{name} {major}:{minor} {mode:o}"))
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn files_are_made_with_the_drivers_numbers_owner_and_mode() {
        let root = driver(
            &[0, 3],
            "DeviceFileUID: 0\nDeviceFileMode: 432\nModifyDeviceFiles: 1\n",
        );
        std::fs::create_dir(root.path().join("dev")).unwrap();
        // Left over from a boot at which the kernel gave another number.
        let stale = root.path().join("dev/nvidia-uvm");
        mknod(&stale, SFlag::S_IFCHR, Mode::empty(), makedev(510, 0)).unwrap();
        make(root.path()).unwrap();
        let expect = [
            "dev/nvidia-caps/nvidia-cap12 237:12 660",
            "dev/nvidia-caps/nvidia-cap13 237:13 660",
            "dev/nvidia-modeset 195:254 660",
            "dev/nvidia-uvm 511:0 660",
            "dev/nvidia-uvm-tools 511:1 660",
            "dev/nvidia0 195:0 660",
            "dev/nvidia3 195:3 660",
            "dev/nvidiactl 195:255 660",
        ];
        assert_eq!(made(root.path()), expect);
        make(root.path()).unwrap();
        assert_eq!(made(root.path()), expect, "a second time");
    }

    #[test]
    fn nothing_is_made_without_a_driver_or_against_its_word() {
        let root = tempfile::tempdir().unwrap();
        make(root.path()).unwrap();
        assert_eq!(made(root.path()), [] as [&str; 0]);
        let root = driver(&[0], "ModifyDeviceFiles: 0\n");
        make(root.path()).unwrap();
        assert_eq!(made(root.path()), [] as [&str; 0]);
    }

    #[test]
    fn a_file_that_cannot_be_made_is_named_and_the_others_are_made() {
        let root = driver(&[0], "");
        std::fs::create_dir_all(root.path().join("dev/nvidiactl/full")).unwrap();
        let error = make(root.path()).unwrap_err();
        let begin = "the device file /dev/nvidiactl cannot be made: ";
        assert!(error.starts_with(begin), "{error}");
        let made = made(root.path());
        assert!(
            made.contains(&"dev/nvidia0 195:0 666".to_owned()),
            "{made:?}"
        );
    }
}
