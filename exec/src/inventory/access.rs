//! How tasks get a device that only the bus or its driver's directory shows: by the files that
//! its rule names.

use std::path::Path;

use super::card::Card;
use super::vendor::{DeviceAccess, is_there};

/// The driver that passes cards on to virtual machines.
pub(super) const VFIO: &str = "vfio-pci";

/// None if no rule names its device files, or virtual machines have it.
pub(super) fn access(root: &Path, card: &Card<'_>) -> Option<DeviceAccess> {
    let rule = card.rule.filter(|rule| rule.names_files())?;
    if card.bound.as_deref() == Some(VFIO) {
        return None;
    }
    let numbered = rule.files.iter().filter_map(|file| file.path(card.number));
    let mut paths: Vec<String> = numbered.collect();
    let mut fault = None;
    for files in &rule.sysfs_files {
        paths.extend(card.dirs.iter().flat_map(|dir| files.paths(dir)));
    }
    if paths.is_empty() {
        let patterns: Vec<String> = rule.sysfs_files.iter().map(ToString::to_string).collect();
        fault = Some(format!(
            "its driver shows no file {}",
            patterns.join(" or ")
        ));
    }
    let optional = rule.optional_files.iter();
    let optional = optional.filter_map(|file| file.path(card.number));
    let is_made = |path: &String| root.join("dev/null").exists() && is_there(root, path);
    let mut access = DeviceAccess::by_files(root, id(card), paths);
    access.paths.extend(optional.filter(is_made));
    access.fault = fault.or(access.fault);
    Some(access)
}

/// A name that lasts as long as the device stays in its place.
fn id(card: &Card<'_>) -> String {
    let vendor = &card.accelerator.vendor;
    let entry = || {
        let dir = card.dirs.first()?;
        Some(dir.file_name()?.to_string_lossy().into_owned())
    };
    let place = card.accelerator.pci.clone().or_else(entry);
    format!("{vendor}-{}", place.unwrap_or_default())
}
