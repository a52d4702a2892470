//! The format of a rule file, and what is wrong with one.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use muster_model::inventory::{AcceleratorKind, InventoryProblem};
use serde::de::{self, Deserialize, Deserializer};

use super::{CLASSES, PciNumbers};
use crate::inventory::kernel_file::entries;

/// One file: rules, and devices that are no accelerators.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceRuleFile {
    #[serde(default)]
    pub(super) rule: Vec<AcceleratorRule>,
    #[serde(default)]
    pub(super) left_out: Vec<LeftOut>,
}

/// What a vendor's devices of one kind are.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::inventory) struct AcceleratorRule {
    /// The vendor's name in small letters.
    pub(in crate::inventory) vendor: String,
    pub(in crate::inventory) kind: AcceleratorKind,
    /// The vendor's PCI numbers. None for devices that are on no PCI bus.
    #[serde(default)]
    pci: Vec<PciNumber>,
    /// Class codes of its devices; the usual ones if there are none.
    #[serde(default)]
    pub(super) classes: PciClasses,
    /// Whether the rule is for the devices in `models` only.
    #[serde(default)]
    only_models: bool,
    /// Models by PCI device number.
    #[serde(default)]
    models: BTreeMap<PciNumber, DeviceModel>,
    /// Whether each function is a device of its own.
    #[serde(default)]
    pub(in crate::inventory) functions: FunctionUse,
    /// The kernel module that drives them.
    pub(in crate::inventory) driver: Option<String>,
    /// Directories in which the driver has an entry for each device: `sys/class/ve/ve*`.
    #[serde(default)]
    pub(in crate::inventory) driver_entries: Vec<DriverEntries>,
    /// Files that the driver makes in the directory of a PCI function. The function with the
    /// first of them is the one that tasks use.
    #[serde(default)]
    pub(in crate::inventory) driver_files: Vec<String>,
    /// For devices on no PCI bus: words, one of which is in the entry's file `name`.
    #[serde(default)]
    pub(in crate::inventory) name_has: Vec<String>,
    /// A file in the driver's entry that tells the memory.
    pub(in crate::inventory) memory_file: Option<MemoryFile>,
    /// Device files that a task with the device needs; `{n}` is the device's number.
    #[serde(default)]
    pub(in crate::inventory) files: Vec<DeviceFile>,
    /// Device files that a task gets as well where the machine has them.
    #[serde(default)]
    pub(in crate::inventory) optional_files: Vec<DeviceFile>,
    /// Entries in the device's directories below /sys that are called as device files are.
    #[serde(default)]
    pub(in crate::inventory) sysfs_files: Vec<SysfsFiles>,
}

/// What one device is called.
#[derive(Clone, Debug)]
pub(super) struct DeviceModel {
    pub(super) name: String,
    pub(super) memory_mb: u64,
}

/// Whether the functions of a card are one device or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::inventory) enum FunctionUse {
    /// A card is one device.
    #[default]
    Card,
    /// Each function is a device.
    Each,
}

/// A file with a device's memory as a number.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::inventory) struct MemoryFile {
    pub(in crate::inventory) file: String,
    /// How many MiB one of its units is.
    pub(in crate::inventory) unit_mb: u64,
}

/// Devices that are no accelerators, though their class says so.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LeftOut {
    /// The vendor's PCI number.
    pci: PciNumber,
    /// Device numbers; all devices of the vendor if there are none.
    #[serde(default)]
    devices: Vec<PciNumber>,
    /// Only devices of these class codes.
    #[serde(default)]
    classes: PciClasses,
    /// Only those with no bridge above them.
    #[serde(default)]
    on_root_bus: bool,
    /// What they are.
    why: String,
}

impl AcceleratorRule {
    pub(super) fn is_of(&self, vendor: u32) -> bool {
        self.pci.iter().any(|number| number.0 == vendor)
    }

    /// Whether the rule names this very device.
    pub(super) fn lists(&self, numbers: PciNumbers) -> bool {
        self.is_of(numbers.vendor) && self.models.contains_key(&PciNumber(numbers.device))
    }

    /// Whether the rule is for devices of this vendor and class.
    pub(super) fn covers(&self, numbers: PciNumbers) -> bool {
        let is_of_class = match self.classes.0.is_empty() {
            true => CLASSES.contains(&numbers.class),
            false => self.classes.contains(numbers.class),
        };
        self.is_of(numbers.vendor) && is_of_class && !self.only_models
    }

    pub(super) fn model(&self, vendor: u32, device: u32) -> Option<&DeviceModel> {
        let of_vendor = self.is_of(vendor).then_some(&self.models)?;
        of_vendor.get(&PciNumber(device))
    }

    /// Whether it is for devices on no PCI bus.
    pub(in crate::inventory) fn is_without_pci(&self) -> bool {
        self.pci.is_empty()
    }

    /// Whether it is for devices of this PCI vendor.
    pub(in crate::inventory) fn is_for_vendor(&self, vendor: u32) -> bool {
        self.is_of(vendor)
    }

    /// Whether it says by which files tasks use its devices.
    pub(in crate::inventory) fn names_files(&self) -> bool {
        !self.files.is_empty() || !self.sysfs_files.is_empty()
    }

    /// What serde cannot check: fields that need each other.
    fn check(&self) -> Result<(), String> {
        let is_lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.vendor.is_empty() || !self.vendor.chars().all(is_lower) {
            return Err("field `vendor`: small letters, digits and - only".into());
        }
        let of = |field: &str, what: &str| {
            Err(format!("vendor {}: field `{field}`: {what}", self.vendor))
        };
        if self.is_without_pci() {
            if self.driver_entries.is_empty() {
                return of("pci", "missing; a rule without it needs `driver_entries`");
            }
            if !self.models.is_empty() {
                return of("models", "needs `pci`, the vendor's number");
            }
        } else if !self.name_has.is_empty() {
            return of("name_has", "is for rules without `pci`");
        }
        if self.only_models && self.models.is_empty() {
            return of("only_models", "is true, but there is no model");
        }
        if self.memory_file.is_some() && self.driver_entries.is_empty() {
            return of("memory_file", "needs `driver_entries`");
        }
        Ok(())
    }
}

impl LeftOut {
    /// Whether it names devices, and not all of a vendor.
    pub(super) fn names_device(&self) -> bool {
        !self.devices.is_empty()
    }

    pub(super) fn applies(&self, numbers: PciNumbers) -> bool {
        let mut devices = self.devices.iter();
        self.pci.0 == numbers.vendor
            && (self.devices.is_empty() || devices.any(|device| device.0 == numbers.device))
            && (self.classes.0.is_empty() || self.classes.contains(numbers.class))
            && (!self.on_root_bus || numbers.is_on_root_bus)
    }
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeviceRuleFileError {
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("{0}")]
    Wrong(String),
}

impl DeviceRuleFileError {
    pub(super) fn problem(&self, path: &Path) -> InventoryProblem {
        let remedy = match self {
            Self::Unreadable(_) => "Let the agent read the file, or remove it.",
            Self::Wrong(_) => {
                "Correct that field; docs/devices.md explains the format. Until then the file's rules do not apply."
            }
        };
        InventoryProblem {
            name: "rule-file".into(),
            subject: Some(path.display().to_string()),
            evidence: format!("The rule file is not used: {self}."),
            remedy: remedy.into(),
        }
    }
}

impl DeviceRuleFile {
    pub(super) fn read(path: &Path) -> Result<Self, DeviceRuleFileError> {
        Self::parse(&fs::read_to_string(path)?)
    }

    pub(super) fn parse(text: &str) -> Result<Self, DeviceRuleFileError> {
        let file: Self = toml::from_str(text).map_err(|error| {
            let place = error
                .span()
                .map_or_else(String::new, |span| place(text, &span));
            DeviceRuleFileError::Wrong(format!("{place}{}", error.message().trim_end_matches('.')))
        })?;
        for rule in &file.rule {
            rule.check().map_err(DeviceRuleFileError::Wrong)?;
        }
        if file.left_out.iter().any(|out| out.why.trim().is_empty()) {
            let wrong = "field `why` of `left_out`: say what the devices are";
            return Err(DeviceRuleFileError::Wrong(wrong.into()));
        }
        Ok(file)
    }
}

/// The line of a span and, where it has one, its field.
fn place(text: &str, span: &Range<usize>) -> String {
    let before = text.get(..span.start).unwrap_or_default();
    let number = before.matches('\n').count() + 1;
    let line = text.lines().nth(number - 1).unwrap_or_default();
    match line.split_once('=') {
        Some((field, _)) => format!("line {number}, field `{}`: ", field.trim()),
        None => format!("line {number}: "),
    }
}

/// A PCI number of four hex digits: `10de`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PciNumber(u32);

impl<'de> Deserialize<'de> for PciNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_hex = text.len() == 4 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = is_hex
            .then(|| u32::from_str_radix(&text, 16).ok())
            .flatten();
        let wrong = || {
            de::Error::custom(format_args!(
                "{text:?} is not four hex digits like \"10de\""
            ))
        };
        number.map(Self).ok_or_else(wrong)
    }
}

/// Class codes.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(transparent)]
pub(super) struct PciClasses(Vec<PciNumber>);

impl PciClasses {
    pub(super) fn contains(&self, class: u32) -> bool {
        self.0.contains(&PciNumber(class))
    }
}

impl<'de> Deserialize<'de> for DeviceModel {
    /// A name, or a table with a name and the memory.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ModelVisitor)
    }
}

/// A model with more than a name.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    name: String,
    memory_mb: u64,
}

struct ModelVisitor;

impl<'de> de::Visitor<'de> for ModelVisitor {
    type Value = DeviceModel;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name, or { name = \"...\", memory_mb = ... }")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<DeviceModel, E> {
        Ok(DeviceModel {
            name: name.to_owned(),
            memory_mb: 0,
        })
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<DeviceModel, A::Error> {
        let table = ModelTable::deserialize(de::value::MapAccessDeserializer::new(map))?;
        Ok(DeviceModel {
            name: table.name,
            memory_mb: table.memory_mb,
        })
    }
}

/// Entries of a directory below the root: `sys/class/ve/ve*`, where the asterisk stands for the
/// device's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::inventory) struct DriverEntries {
    pub(in crate::inventory) dir: String,
    pub(in crate::inventory) prefix: String,
}

impl<'de> Deserialize<'de> for DriverEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let split = text
            .strip_suffix('*')
            .and_then(|text| text.rsplit_once('/'));
        let is_sys = text.starts_with("sys/") && !text.split('/').any(|part| part == "..");
        match split.filter(|_| is_sys && text.matches('*').count() == 1) {
            Some((dir, prefix)) => Ok(Self {
                dir: dir.to_owned(),
                prefix: prefix.to_owned(),
            }),
            None => Err(de::Error::custom(format_args!(
                "{text:?} is not a path like \"sys/class/ve/ve*\""
            ))),
        }
    }
}

/// Entries below a device's directory in /sys: `drm/renderD*`, where the asterisk stands for
/// anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::inventory) struct SysfsFiles {
    /// The directory below the device's; empty for its own.
    dir: String,
    prefix: String,
}

/// Where the files of a class of devices are in /dev, if not there itself.
const CLASS_DIRS: &[(&str, &str)] = &[("drm", "dri/"), ("accel", "accel/")];

impl SysfsFiles {
    /// The device files of the entries that are in a device's directory, in the order of names.
    pub(in crate::inventory) fn paths(&self, device: &Path) -> Vec<String> {
        let class = CLASS_DIRS.iter().find(|(class, _)| *class == self.dir);
        let below = class.map_or("", |(_, below)| below);
        let entries = entries(device.join(&self.dir)).into_iter();
        let named = entries.filter(|(name, _)| name.starts_with(&self.prefix));
        named
            .map(|(name, _)| format!("/dev/{below}{name}"))
            .collect()
    }
}

impl fmt::Display for SysfsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.dir.is_empty() { "" } else { "/" };
        write!(f, "{}{separator}{}*", self.dir, self.prefix)
    }
}

impl<'de> Deserialize<'de> for SysfsFiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (dir, name) = text.rsplit_once('/').unwrap_or(("", &text));
        let prefix = name.strip_suffix('*').filter(|prefix| !prefix.is_empty());
        let is_below = !text.starts_with('/') && !text.split('/').any(|part| part == "..");
        match prefix.filter(|_| is_below && text.matches('*').count() == 1) {
            Some(prefix) => Ok(Self {
                dir: dir.to_owned(),
                prefix: prefix.to_owned(),
            }),
            None => Err(de::Error::custom(format_args!(
                "{text:?} is not a path like \"drm/renderD*\""
            ))),
        }
    }
}

/// A device file: `/dev/davinci{n}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::inventory) struct DeviceFile(String);

impl DeviceFile {
    /// The path for the device with a number. None if the path needs one and there is none.
    pub(in crate::inventory) fn path(&self, number: Option<u32>) -> Option<String> {
        match (self.0.contains("{n}"), number) {
            (false, _) => Some(self.0.clone()),
            (true, Some(number)) => Some(self.0.replace("{n}", &number.to_string())),
            (true, None) => None,
        }
    }
}

impl<'de> Deserialize<'de> for DeviceFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_dev = text.starts_with("/dev/") && !text.split('/').any(|part| part == "..");
        let is_plain = !text.replacen("{n}", "", 1).contains(['{', '}', '*']);
        match is_dev && is_plain {
            true => Ok(Self(text)),
            false => Err(de::Error::custom(format_args!(
                "{text:?} is not a device file like \"/dev/ve{{n}}\""
            ))),
        }
    }
}
