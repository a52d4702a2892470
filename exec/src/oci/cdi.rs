//! The Container Device Interface: a vendor's files say what a container needs of a device
//! besides its node (libraries, more nodes, variables, hooks).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::device::{self, DeviceNode};
use super::mount::Mount;
use super::{OciSpecError, SpecLists};
use crate::engine::DeviceGrant;

/// Larger files are refused; those of a machine with 16 GPUs have some tens of KiB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Commands that the runtime runs around a container's life, in the specification's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OciHooks {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prestart: Vec<Hook>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    create_runtime: Vec<Hook>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    create_container: Vec<Hook>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    start_container: Vec<Hook>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    poststart: Vec<Hook>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    poststop: Vec<Hook>,
}

impl OciHooks {
    /// Adds one; `None` for a name that is no point of a container's life.
    fn add(&mut self, name: &str, hook: Hook) -> Option<()> {
        let list = match name {
            "prestart" => &mut self.prestart,
            "createRuntime" => &mut self.create_runtime,
            "createContainer" => &mut self.create_container,
            "startContainer" => &mut self.start_container,
            "poststart" => &mut self.poststart,
            "poststop" => &mut self.poststop,
            _ => return None,
        };
        list.push(hook);
        Some(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Hook {
    path: PathBuf,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<u32>,
}

/// A CDI file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CdiFile {
    /// `vendor.com/class`.
    kind: String,
    #[serde(default)]
    devices: Vec<CdiDevice>,
    #[serde(default)]
    container_edits: ContainerEdits,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CdiDevice {
    name: String,
    #[serde(default)]
    container_edits: ContainerEdits,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerEdits {
    env: Vec<String>,
    device_nodes: Vec<CdiDeviceNode>,
    mounts: Vec<HostMount>,
    hooks: Vec<NamedHook>,
    additional_gids: Vec<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CdiDeviceNode {
    path: PathBuf,
    host_path: Option<PathBuf>,
    file_mode: Option<u32>,
    permissions: Option<String>,
    uid: Option<u32>,
    gid: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostMount {
    host_path: PathBuf,
    container_path: PathBuf,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    options: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedHook {
    hook_name: String,
    #[serde(flatten)]
    hook: Hook,
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
    let files = files(dirs)?;
    let mut common = Vec::new();
    for device in devices {
        let named = device.cdi_names.iter().find_map(|name| find(name, &files));
        let Some((index, edits)) = named else {
            plain.extend(paths_of(device)?);
            continue;
        };
        let (path, file) = &files[index];
        if !common.contains(&index) {
            common.push(index);
            apply(&file.container_edits, path, parts)?;
        }
        apply(edits, path, parts)?;
    }
    Ok(plain)
}

fn paths_of(device: &DeviceGrant) -> Result<Vec<PathBuf>, OciSpecError> {
    match device.cdi_names.first() {
        Some(name) if device.paths.is_empty() => Err(OciSpecError::NoCdiDevice(name.clone())),
        _ => Ok(device.paths.clone()),
    }
}

/// Every CDI file, best first: a later directory outranks an earlier one.
fn files(dirs: &[PathBuf]) -> Result<Vec<(PathBuf, CdiFile)>, OciSpecError> {
    let mut files = Vec::new();
    for dir in dirs.iter().rev() {
        let Ok(entries) = dir.read_dir() else {
            continue;
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| {
            path.extension()
                .is_some_and(|ending| ["json", "yaml", "yml"].iter().any(|known| ending == *known))
        });
        paths.sort();
        for path in paths {
            let file = parse(&path)?;
            files.push((path, file));
        }
    }
    Ok(files)
}

fn parse(path: &Path) -> Result<CdiFile, OciSpecError> {
    let bad = |reason: String| OciSpecError::BadCdi {
        path: path.to_owned(),
        reason,
    };
    let size = path.metadata().map_err(|e| bad(e.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(bad(format!(
            "{size} bytes, at most {FILE_BYTES_MAX} are read"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
    // JSON is YAML too.
    serde_saphyr::from_str(&text).map_err(|e| bad(e.to_string()))
}

fn find<'f>(name: &str, files: &'f [(PathBuf, CdiFile)]) -> Option<(usize, &'f ContainerEdits)> {
    let (kind, device) = name.split_once('=')?;
    files.iter().enumerate().find_map(|(index, (_, file))| {
        let same_kind = file.kind == kind;
        let device = file
            .devices
            .iter()
            .find(|d| same_kind && d.name == device)?;
        Some((index, &device.container_edits))
    })
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
    for NamedHook { hook_name, hook } in &edits.hooks {
        parts
            .hooks
            .add(hook_name, hook.clone())
            .ok_or_else(|| OciSpecError::BadCdi {
                path: path.to_owned(),
                reason: format!("there is no hook {hook_name}"),
            })?;
    }
    Ok(())
}

/// The node as the host has it now: numbers in the file may be of an earlier boot.
fn device_node(wanted: &CdiDeviceNode) -> Result<(DeviceNode, &str), OciSpecError> {
    let source = wanted.host_path.as_ref().unwrap_or(&wanted.path);
    let mut node = device::node(source, &wanted.path)?;
    node.file_mode = wanted.file_mode.unwrap_or(node.file_mode);
    node.uid = wanted.uid.unwrap_or(node.uid);
    node.gid = wanted.gid.unwrap_or(node.gid);
    Ok((node, wanted.permissions.as_deref().unwrap_or("rw")))
}

fn mount_options(given: &[String]) -> Vec<String> {
    if given.is_empty() {
        ["rbind", "rprivate", "ro"].map(str::to_owned).to_vec()
    } else {
        given.to_vec()
    }
}
