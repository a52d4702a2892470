//! A CDI file as its vendor's tool wrote it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::hooks::NamedHook;
use crate::oci::OciSpecError;

/// Larger files are refused; those of a machine with 16 GPUs have some tens of KiB.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The newest version of the specification whose fields are known here, major and minor.
const VERSION_KNOWN: (u64, u64) = (1, 1);

/// One file: devices of one kind.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CdiFile {
    cdi_version: String,
    /// `vendor.com/class`.
    pub(super) kind: String,
    #[serde(default)]
    pub(super) devices: Vec<CdiDevice>,
    /// Made once, however many of the devices a container has.
    #[serde(default)]
    pub(super) container_edits: ContainerEdits,
    /// Words for people.
    #[serde(default, rename = "annotations")]
    _annotations: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CdiDevice {
    pub(super) name: String,
    #[serde(default)]
    pub(super) container_edits: ContainerEdits,
    #[serde(default, rename = "annotations")]
    _annotations: Value,
}

/// What a container needs of a device.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerEdits {
    pub(super) env: Vec<String>,
    pub(super) device_nodes: Vec<CdiDeviceNode>,
    pub(super) mounts: Vec<HostMount>,
    pub(super) hooks: Vec<NamedHook>,
    pub(super) additional_gids: Vec<u32>,
    /// Resource Director Technology, as the runtime takes it.
    pub(super) intel_rdt: Option<IntelRdt>,
    /// Network interfaces to move into the container.
    pub(super) net_devices: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CdiDeviceNode {
    pub(super) path: PathBuf,
    pub(super) host_path: Option<PathBuf>,
    #[serde(rename = "type")]
    pub(super) kind: Option<char>,
    pub(super) major: Option<u64>,
    pub(super) minor: Option<u64>,
    pub(super) file_mode: Option<u32>,
    pub(super) permissions: Option<String>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HostMount {
    pub(super) host_path: PathBuf,
    pub(super) container_path: PathBuf,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) options: Vec<String>,
}

/// Shares of the last-level cache and of memory bandwidth. The names are the same in CDI and in
/// the runtime's specification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::oci) struct IntelRdt {
    #[serde(rename = "closID", skip_serializing_if = "Option::is_none")]
    clos_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    l3_cache_schema: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mem_bw_schema: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schemata: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_monitoring: Option<bool>,
    #[serde(rename = "enableCMT", skip_serializing_if = "Option::is_none")]
    enable_cmt: Option<bool>,
    #[serde(rename = "enableMBM", skip_serializing_if = "Option::is_none")]
    enable_mbm: Option<bool>,
}

/// Reads a file.
///
/// A field that version 1.1 does not have is an error, as in the reference implementation: what
/// the vendor wants done would be left out. A file of a newer version may have more fields; they
/// are named in the agent's log.
///
/// # Errors
/// When it cannot be read, is too large, or is not as the specification says.
pub(super) fn read(path: &Path) -> Result<CdiFile, OciSpecError> {
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
    let (file, unknown) = parse(&text).map_err(bad)?;
    let unknown = unknown.join(", ");
    if unknown.is_empty() {
        return Ok(file);
    }
    let version = &file.cdi_version;
    match version_of(version).ok_or_else(|| bad(no_version(version)))? <= VERSION_KNOWN {
        true => Err(bad(format!("CDI {version} has no field {unknown}"))),
        false => {
            let path = path.display();
            tracing::warn!(%path, version, unknown, "fields of a newer CDI version are left out");
            Ok(file)
        }
    }
}

/// A file and the paths of its fields that are not known.
fn parse(text: &str) -> Result<(CdiFile, Vec<String>), String> {
    // JSON is YAML too.
    let value: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let mut unknown = Vec::new();
    let file: CdiFile = serde_ignored::deserialize(value, |field| unknown.push(field.to_string()))
        .map_err(|error| error.to_string())?;
    if version_of(&file.cdi_version).is_none() {
        return Err(no_version(&file.cdi_version));
    }
    Ok((file, unknown))
}

fn no_version(text: &str) -> String {
    format!("cdiVersion {text:?} is no version such as 1.1.0")
}

/// Major and minor number of `1.1.0`.
fn version_of(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    let (major, minor) = (numbers.next()??, numbers.next()??);
    let patch: Option<Option<u64>> = numbers.next();
    (patch.flatten().is_some() && numbers.next().is_none()).then_some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_named_with_their_place() {
        let text = "cdiVersion: 1.1.0\nkind: a.com/b\nannotations: {x: y}\ndevices:\n\
            - {name: '0', containerEdits: {env: [], netdevices: []}}\n";
        let (_, unknown) = parse(text).unwrap();
        assert_eq!(unknown, ["devices.0.containerEdits.netdevices"]);
    }

    #[test]
    fn versions_have_three_numbers() {
        for (text, expect) in [
            ("0.5.0", Some((0, 5))),
            ("1.1.0", Some((1, 1))),
            ("1.1", None),
            ("v1.1.0", None),
            ("1.1.0.0", None),
            ("", None),
        ] {
            assert_eq!(version_of(text), expect, "{text}");
        }
    }
}
