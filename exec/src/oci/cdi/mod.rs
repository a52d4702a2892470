//! The Container Device Interface: a vendor's files say what a container needs of a device
//! besides its node (libraries, more nodes, variables, hooks).

mod file;
mod hooks;

use std::path::{Path, PathBuf};

use super::device::{self, DeviceNode};
use super::mount::Mount;
use super::{OciSpecError, SpecLists};
use crate::engine::DeviceGrant;
pub(super) use file::IntelRdt;
use file::{CdiDeviceNode, CdiFile, ContainerEdits};
pub(super) use hooks::OciHooks;

/// The mode of a device file whose CDI file gives none.
const FILE_MODE: u32 = 0o666;

/// The files of all directories.
#[derive(Debug, Default)]
struct CdiFiles {
    /// Those that can be used, best first: a later directory outranks an earlier one.
    usable: Vec<RankedFile>,
    /// Why the first of the others cannot be used.
    error: Option<OciSpecError>,
}

#[derive(Debug)]
struct RankedFile {
    path: PathBuf,
    /// Of its directory; 0 is the best.
    rank: usize,
    file: CdiFile,
}

/// Adds what the devices need that a file names, and returns the device files of the others. A
/// file's common edits are made once, however many of its devices are granted.
pub(super) fn inject(
    devices: &[DeviceGrant],
    dirs: &[PathBuf],
    parts: &mut SpecLists,
) -> Result<Vec<PathBuf>, OciSpecError> {
    let mut plain = Vec::new();
    if devices.is_empty() {
        return Ok(plain);
    }
    let files = CdiFiles::read(dirs);
    let mut common = Vec::new();
    for device in devices {
        let Some((index, edits)) = files.of(device)? else {
            plain.extend(paths_of(device, &files)?);
            continue;
        };
        let RankedFile { path, file, .. } = &files.usable[index];
        if !common.contains(&index) {
            common.push(index);
            apply(&file.container_edits, path, parts)?;
        }
        apply(edits, path, parts)?;
    }
    Ok(plain)
}

/// The device files of a device that no CDI file names. A file that cannot be read may be the one
/// that names it, and then a task would start without the driver's libraries.
fn paths_of(device: &DeviceGrant, files: &CdiFiles) -> Result<Vec<PathBuf>, OciSpecError> {
    let Some(name) = device.cdi_names.first() else {
        return Ok(device.paths.clone());
    };
    if let Some(error) = &files.error {
        return Err(error.clone());
    }
    match device.paths.is_empty() {
        true => Err(OciSpecError::NoCdiDevice(name.clone())),
        false => Ok(device.paths.clone()),
    }
}

impl CdiFiles {
    fn read(dirs: &[PathBuf]) -> Self {
        let mut all = Self::default();
        for (rank, dir) in dirs.iter().rev().enumerate() {
            for path in names(dir) {
                match file::read(&path) {
                    Ok(file) => all.usable.push(RankedFile { path, rank, file }),
                    Err(error) => {
                        all.error.get_or_insert(error);
                    }
                }
            }
        }
        all
    }

    /// The file of a device and its edits, by the first of its names that a file has.
    fn of(&self, device: &DeviceGrant) -> Result<Option<(usize, &ContainerEdits)>, OciSpecError> {
        for name in &device.cdi_names {
            if let Some(found) = self.find(name)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// A device by its name. Two files of one directory that both have it are an error: nothing
    /// says which is right.
    fn find(&self, name: &str) -> Result<Option<(usize, &ContainerEdits)>, OciSpecError> {
        let Some((kind, device)) = name.split_once('=') else {
            return Ok(None);
        };
        let mut found = self.usable.iter().enumerate().filter_map(|(index, one)| {
            let of_kind = one.file.devices.iter().filter(|_| one.file.kind == kind);
            let device = of_kind.into_iter().find(|found| found.name == device)?;
            Some((index, &device.container_edits))
        });
        let Some((index, edits)) = found.next() else {
            return Ok(None);
        };
        let best = &self.usable[index];
        let other = found.map(|(index, _)| &self.usable[index]).next();
        match other.filter(|other| other.rank == best.rank) {
            None => Ok(Some((index, edits))),
            Some(other) => Err(OciSpecError::BadCdi {
                path: other.path.clone(),
                reason: format!(
                    "{} has the device {name} too; remove it from one of them",
                    best.path.display()
                ),
            }),
        }
    }
}

/// The CDI files of a directory, in order of their names.
fn names(dir: &Path) -> Vec<PathBuf> {
    let entries = dir.read_dir().into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|ending| ["json", "yaml", "yml"].iter().any(|known| ending == *known))
    });
    paths.sort();
    paths
}

fn apply(edits: &ContainerEdits, path: &Path, parts: &mut SpecLists) -> Result<(), OciSpecError> {
    parts.environment.add_lines(&edits.env);
    parts.groups.extend(&edits.additional_gids);
    for wanted in &edits.device_nodes {
        let (node, access) = device_node(wanted)?;
        parts.add_device(node, access);
    }
    parts.mounts.extend(edits.mounts.iter().map(|mount| Mount {
        destination: mount.container_path.clone(),
        kind: mount.kind.clone().unwrap_or_else(|| "bind".to_owned()),
        source: mount.host_path.clone(),
        options: mount_options(&mount.options),
    }));
    let bad = |reason: String| OciSpecError::BadCdi {
        path: path.to_owned(),
        reason,
    };
    for hook in &edits.hooks {
        let added = parts.hooks.add(hook);
        added.ok_or_else(|| bad(format!("there is no hook {}", hook.hook_name)))?;
    }
    if !edits.net_devices.is_empty() {
        return Err(bad(
            "netDevices cannot be moved: tasks share the machine's network".to_owned(),
        ));
    }
    if let Some(rdt) = &edits.intel_rdt {
        let is_other = parts.intel_rdt.as_ref().is_some_and(|other| other != rdt);
        if is_other {
            return Err(bad(
                "intelRdt differs from that of another device of the task".to_owned(),
            ));
        }
        parts.intel_rdt = Some(rdt.clone());
    }
    Ok(())
}

/// The node as the host has it now: numbers in the file may be of an earlier boot. Where the host
/// has no such file, the numbers are all that there is.
fn device_node(wanted: &CdiDeviceNode) -> Result<(DeviceNode, &str), OciSpecError> {
    let source = wanted.host_path.as_ref().unwrap_or(&wanted.path);
    let mut node = match (numbered(wanted), source.exists()) {
        (Some(node), false) => node,
        _ => device::node(source, &wanted.path)?,
    };
    node.file_mode = wanted.file_mode.unwrap_or(node.file_mode);
    node.uid = wanted.uid.unwrap_or(node.uid);
    node.gid = wanted.gid.unwrap_or(node.gid);
    Ok((node, wanted.permissions.as_deref().unwrap_or("rw")))
}

/// The node by the numbers in the file; none if it does not give them all.
fn numbered(wanted: &CdiDeviceNode) -> Option<DeviceNode> {
    Some(DeviceNode {
        path: wanted.path.clone(),
        // `u` is another word for `c`.
        kind: match wanted.kind? {
            'b' => 'b',
            'c' | 'u' => 'c',
            _ => return None,
        },
        major: wanted.major?,
        minor: wanted.minor?,
        file_mode: FILE_MODE,
        uid: 0,
        gid: 0,
    })
}

fn mount_options(given: &[String]) -> Vec<String> {
    if given.is_empty() {
        ["rbind", "rprivate", "ro"].map(str::to_owned).to_vec()
    } else {
        given.to_vec()
    }
}
