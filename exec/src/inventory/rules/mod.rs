//! Which devices are accelerators and what they are called: the table that comes with the
//! program, and the files with which an administrator extends it.

mod file;

use std::path::Path;

use muster_model::inventory::{AcceleratorKind, InventoryProblem};

use super::kernel_file::entries;
pub(super) use file::{AcceleratorRule, FunctionUse};
use file::{DeviceRuleFile, LeftOut};

/// The table that comes with the program. docs/devices.md explains its fields.
const BUILT_IN: &str = include_str!("accelerators.toml");
/// Where an administrator's files are, below the machine's root.
pub(super) const RULE_DIR: &str = "etc/muster/devices.d";

/// Class codes of accelerators: display controllers, processing accelerators, co-processors.
const CLASSES: &[u32] = &[0x0300, 0x0302, 0x0380, 0x1200, 0x0b40];
/// A class code of display controllers begins so.
const DISPLAY: u32 = 0x03;

/// All rules. Those of the administrator's files stand first and win.
#[derive(Debug)]
pub(super) struct AcceleratorRules {
    rules: Vec<AcceleratorRule>,
    left_out: Vec<LeftOut>,
}

/// What the rules say of a device.
#[derive(Clone, Debug)]
pub(super) struct Known<'r> {
    pub(super) kind: AcceleratorKind,
    pub(super) vendor: String,
    pub(super) model: Option<String>,
    pub(super) memory_mb: u64,
    /// The rule of its vendor that applies. None for a vendor that no rule has.
    pub(super) rule: Option<&'r AcceleratorRule>,
}

/// The numbers by which the rules know a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct PciNumbers {
    pub(super) class: u32,
    pub(super) vendor: u32,
    pub(super) device: u32,
    /// Whether no bridge is above it: most of these are parts of the processor.
    pub(super) is_on_root_bus: bool,
}

impl AcceleratorRules {
    /// Reads the rules of a machine. A file that cannot be used is a problem, and left out.
    pub(super) fn read(dir: &Path) -> (Self, Vec<InventoryProblem>) {
        let mut all = Self {
            rules: Vec::new(),
            left_out: Vec::new(),
        };
        let mut problems = Vec::new();
        let files = entries(dir).into_iter();
        for (_, path) in files.filter(|(name, _)| name.ends_with(".toml")) {
            match DeviceRuleFile::read(&path) {
                Ok(file) => all.add(file),
                Err(error) => problems.push(error.problem(&path)),
            }
        }
        match DeviceRuleFile::parse(BUILT_IN) {
            Ok(file) => all.add(file),
            Err(error) => problems.push(error.problem(Path::new("accelerators.toml"))),
        }
        (all, problems)
    }

    fn add(&mut self, file: DeviceRuleFile) {
        self.rules.extend(file.rule);
        self.left_out.extend(file.left_out);
    }

    pub(super) fn rules(&self) -> &[AcceleratorRule] {
        &self.rules
    }

    /// Whether a function of this class and vendor may be an accelerator. What it is, if so,
    /// tells [`AcceleratorRules::known`].
    pub(super) fn may_be(&self, class: u32, vendor: u32) -> bool {
        CLASSES.contains(&class) || self.rules.iter().any(|rule| rule.is_of(vendor))
    }

    /// What a device is, or None if it is no accelerator.
    pub(super) fn known(&self, numbers: PciNumbers) -> Option<Known<'_>> {
        if self.leave_out(numbers) {
            return None;
        }
        let listed = self.rules.iter().find(|rule| rule.lists(numbers));
        let rule = listed.or_else(|| self.rules.iter().find(|rule| rule.covers(numbers)));
        let is_of_class = CLASSES.contains(&numbers.class);
        (rule.is_some() || is_of_class).then(|| self.describe(numbers, rule))
    }

    /// Whether a device is named as none that computes.
    pub(super) fn leave_out(&self, numbers: PciNumbers) -> bool {
        let is_listed = || self.rules.iter().any(|rule| rule.lists(numbers));
        self.is_left_out(numbers, true) || self.is_left_out(numbers, false) && !is_listed()
    }

    fn describe<'r>(&'r self, numbers: PciNumbers, rule: Option<&'r AcceleratorRule>) -> Known<'r> {
        let model = rule.and_then(|rule| rule.model(numbers.vendor, numbers.device));
        let vendor = rule.map(|rule| rule.vendor.clone());
        Known {
            kind: rule.map_or_else(|| kind_of_class(numbers.class), |rule| rule.kind),
            vendor: vendor.unwrap_or_else(|| self.vendor_name(numbers.vendor)),
            memory_mb: model.map_or(0, |model| model.memory_mb),
            model: model.map(|model| model.name.clone()),
            rule,
        }
    }

    /// A vendor's name by any rule of it, or its number.
    fn vendor_name(&self, vendor: u32) -> String {
        let rule = self.rules.iter().find(|rule| rule.is_of(vendor));
        rule.map_or_else(|| format!("{vendor:04x}"), |rule| rule.vendor.clone())
    }

    fn is_left_out(&self, numbers: PciNumbers, by_device: bool) -> bool {
        let mut all = self.left_out.iter();
        all.any(|out| out.names_device() == by_device && out.applies(numbers))
    }
}

fn kind_of_class(class: u32) -> AcceleratorKind {
    match class >> 8 {
        DISPLAY => AcceleratorKind::Gpu,
        _ => AcceleratorKind::Other,
    }
}
