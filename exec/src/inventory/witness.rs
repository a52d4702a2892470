//! The PCI bus as the second witness: what it shows and the driver does not.

use std::path::Path;

use muster_model::inventory::InventoryProblem;
use muster_model::node::NVIDIA;

use super::card::Card;

/// A vendor whose driver is asked by a reader of its own, as NVIDIA's is.
pub(super) const AMD: &str = "amd";

/// Which drivers can be asked about a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DriversAsked {
    /// NVIDIA's library was asked.
    pub(super) nvidia: bool,
    /// The tree would show AMD's driver if it were loaded.
    pub(super) amd: bool,
    /// The tree is of a running kernel: it has the list of its modules.
    pub(super) modules: bool,
}

/// What is wrong with a device that no vendor's reader listed.
pub(super) fn problems(root: &Path, card: &Card<'_>, asked: DriversAsked) -> Vec<InventoryProblem> {
    let driver = driver_problem(root, card, asked);
    let has_driver = driver.is_none();
    let files = has_driver.then(|| missing_files(root, card));
    driver
        .into_iter()
        .chain(files.into_iter().flatten())
        .collect()
}

fn driver_problem(root: &Path, card: &Card<'_>, asked: DriversAsked) -> Option<InventoryProblem> {
    let rule = card.rule?;
    let is_expected = match card.accelerator.vendor.as_str() {
        NVIDIA => asked.nvidia,
        AMD => asked.amd,
        _ => shows_devices(root, card) || (asked.modules && has_witness(card)),
    };
    if !is_expected || card.is_shown {
        return None;
    }
    let driver = rule.driver.as_deref()?;
    Some(explain(root, card, driver))
}

/// Whether the rule names something by which its driver shows a device.
fn has_witness(card: &Card<'_>) -> bool {
    card.rule
        .is_some_and(|rule| !rule.driver_entries.is_empty() || !rule.driver_files.is_empty())
}

/// Whether the driver's directory is there, so that the driver is.
fn shows_devices(root: &Path, card: &Card<'_>) -> bool {
    let mut dirs = card.rule.iter().flat_map(|rule| &rule.driver_entries);
    dirs.any(|entries| root.join(&entries.dir).is_dir())
}

fn explain(root: &Path, card: &Card<'_>, driver: &str) -> InventoryProblem {
    // The kernel writes module names with underscores only.
    let module = root.join("sys/module").join(driver.replace('-', "_"));
    let (name, evidence, remedy) = match card.bound.as_deref() {
        Some("vfio-pci") => (
            "driver-other",
            "The PCI bus shows it, bound to vfio-pci, which passes it on to virtual machines.".to_owned(),
            format!("Bind it to the driver {driver} if tasks are to use it; else list it under `left_out` in a rule file."),
        ),
        Some(bound) if bound != driver => (
            "driver-other",
            format!("The PCI bus shows it, bound to the driver {bound} instead of {driver}."),
            format!("Keep {bound} from loading (`blacklist {bound}` in a file of /etc/modprobe.d), install the driver {driver} and restart the machine."),
        ),
        None if !module.is_dir() => (
            "driver-missing",
            format!("The PCI bus shows it, but the kernel module {driver} is not loaded."),
            format!("Install the driver for the kernel that runs (after an update of the kernel: `dkms autoinstall`), then load it: `modprobe {driver}`."),
        ),
        _ => (
            "device-not-in-driver",
            format!("The PCI bus shows it, but the driver {driver}, which is loaded, does not list it."),
            "Look for its address in the kernel log (`dmesg`); restart the machine, and if that does not help check the card's seat and power, or replace it.".to_owned(),
        ),
    };
    InventoryProblem {
        name: name.into(),
        subject: card.accelerator.pci.clone(),
        evidence,
        remedy,
    }
}

/// Device files that the rule names and the machine lacks. A tree without `dev` tells nothing.
fn missing_files(root: &Path, card: &Card<'_>) -> Vec<InventoryProblem> {
    let Some(rule) = card.rule.filter(|_| root.join("dev/null").exists()) else {
        return Vec::new();
    };
    let paths = rule.files.iter().filter_map(|file| file.path(card.number));
    let missing = paths.filter(|path| !root.join(path.trim_start_matches('/')).exists());
    let problems = missing.map(|path| InventoryProblem {
        name: "device-file-missing".into(),
        subject: card.accelerator.pci.clone(),
        evidence: format!("Tasks with the device need {path}, which does not exist."),
        remedy: match &rule.driver {
            Some(driver) => format!("Load the driver, `modprobe {driver}`, and see whether its udev rules are installed."),
            None => "See whether the driver is loaded and its udev rules are installed.".into(),
        },
    });
    problems.collect()
}
