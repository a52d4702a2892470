//! What is promised of a cluster that was found.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{DeviceGroup, Discovered, MachineSurvey, PLAIN_NODE, plain};
use crate::cluster_spec::{CellSpec, LEAVES_MAX, QuotaSpec, SpecProblem, VcSpec};
use crate::id::VcName;

/// What a cell is called that stands for one which is promised and is not there; a number follows.
/// No machine can be called so.
pub const ABSENT: &str = "missing machine";
/// Types that are named where another one is not known, at most.
const TYPES_NAMED: usize = 20;

impl Discovered {
    /// What is promised as a description to be edited: with it applied nothing changes.
    pub fn template(&self) -> String {
        let mut text = String::from(
            "# Who is promised what of the machines that were found. Divide the cells among as many\n\
             # virtual clusters as you like; what is promised to nobody is for opportunistic jobs.\n\
             # A part of a machine is written with its place: MACHINE.PART\n\
             virtualClusters:\n",
        );
        for (name, vc) in &self.spec.virtual_clusters {
            let none = if vc.quota.is_empty() { " []" } else { "" };
            let _ = writeln!(text, "  {name}:\n    virtualCells:{none}");
            for quota in &vc.quota {
                let path = quota.path.join(".");
                let _ = writeln!(
                    text,
                    "    - cellType: {path}\n      cellNumber: {}",
                    quota.count
                );
                let _ = write!(text, "{}", self.parts(&path));
            }
        }
        text
    }

    /// The cells inside a machine's, as a comment.
    fn parts(&self, top: &str) -> String {
        let below = self.spec.path_down(top).unwrap_or_default();
        let (mut text, mut all) = (String::new(), 1);
        for length in 2..=below.len() {
            let Some(kind) = self.spec.cell_types.get(below[length - 2]) else {
                break;
            };
            all *= u64::from(kind.count);
            let path = below[..length].join(".");
            let _ = writeln!(text, "      # {all} in each machine: {path}");
        }
        text
    }
}

/// What is promised of one type of machine's cells.
#[derive(Clone, Copy, Debug, Default)]
struct Promised {
    /// Leaves in all.
    leaves: u64,
    /// Cells that are missing for them.
    absent: u64,
}

impl MachineSurvey {
    /// Promises what the virtual clusters say, as far as there are such types of cells.
    pub(super) fn promise(&mut self, vcs: &BTreeMap<VcName, VcSpec>) {
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for cell in &self.found.spec.cells {
            *found.entry(cell.cell_type.clone()).or_default() += 1;
        }
        let mut promised = BTreeMap::new();
        for (name, vc) in vcs {
            let met = self.met(name, vc, &found, &mut promised);
            self.found.spec.virtual_clusters.insert(name.clone(), met);
        }
        self.fill_up(&promised);
    }

    /// A virtual cluster without what no machine could have.
    fn met(
        &mut self,
        name: &VcName,
        vc: &VcSpec,
        found: &BTreeMap<String, u64>,
        promised: &mut BTreeMap<String, Promised>,
    ) -> VcSpec {
        let mut met = VcSpec::default();
        for (at, quota) in vc
            .quota
            .iter()
            .enumerate()
            .filter(|(_, quota)| quota.count > 0)
        {
            match self.take_in(quota, found, promised) {
                Ok(()) => met.quota.push(quota.clone()),
                Err(message) => {
                    let path = format!("virtualClusters.{name}.virtualCells[{at}]");
                    self.found.unmet.push(SpecProblem::new(path, message));
                }
            }
        }
        for (at, _) in vc.pinned.iter().enumerate() {
            let path = format!("virtualClusters.{name}.pinnedCells[{at}]");
            let message = "cells can be pinned only under physicalCluster, which is not written";
            self.found.unmet.push(SpecProblem::new(path, message));
        }
        met
    }

    /// Adds a promise to those of its type of machines, if the cluster stays countable.
    fn take_in(
        &mut self,
        quota: &QuotaSpec,
        found: &BTreeMap<String, u64>,
        promised: &mut BTreeMap<String, Promised>,
    ) -> Result<(), String> {
        let each = self.leaves_of(&quota.path)?;
        let top = quota.path.first().cloned().unwrap_or_default();
        let top_leaves = self.leaves_of(std::slice::from_ref(&top))?;
        let before = promised.get(&top).copied().unwrap_or_default();
        let more = each.saturating_mul(quota.count.into());
        let leaves = before.leaves.saturating_add(more);
        let there = found.get(&top).copied().unwrap_or(0);
        let absent = leaves.div_ceil(top_leaves).saturating_sub(there);
        let grown = (absent - before.absent).saturating_mul(top_leaves);
        let all = self.leaves.saturating_add(grown);
        if all > u64::from(LEAVES_MAX) {
            return Err(format!(
                "{} of {each} devices each are more than a cluster can have",
                quota.count
            ));
        }
        self.leaves = all;
        promised.insert(top, Promised { leaves, absent });
        Ok(())
    }

    /// How many leaves a cell has that is reached by this path of types.
    fn leaves_of(&mut self, path: &[String]) -> Result<u64, String> {
        let top = path.first().map_or("", |top| &**top);
        self.absent(top, String::new());
        let types = &self.found.spec.cell_types;
        let is_machine = |name: &&String| types[*name].node_level;
        let unknown = || {
            let known = types.keys().filter(is_machine).map(|name| &**name);
            let known: Vec<&str> = known.take(TYPES_NAMED).collect();
            let known = known.join(", ");
            format!("no machine has cells of type {top}; there are: {known}")
        };
        let below = self.found.spec.path_down(top).map_err(|_| unknown())?;
        if !types.get(top).is_some_and(|kind| kind.node_level) {
            return Err(unknown());
        }
        if !below.iter().zip(path).all(|(is, asked)| is == asked) || path.len() > below.len() {
            let below = below.join(".");
            return Err(format!("there is no such path of types; there is: {below}"));
        }
        let inside = below.iter().skip(path.len() - 1);
        let counts = inside.map(|name| types.get(*name).map_or(1, |kind| u64::from(kind.count)));
        Ok(counts.product())
    }

    /// The cells that are missing. Those of two types of devices are never on one machine.
    fn fill_up(&mut self, promised: &BTreeMap<String, Promised>) {
        let (mut plain, mut devices) = (0, 0);
        for (top, promised) in promised {
            let number = match &**top {
                PLAIN_NODE => &mut plain,
                _ => &mut devices,
            };
            for _ in 0..promised.absent {
                *number += 1;
                let cell = self.absent(top, format!("{ABSENT} {number}"));
                self.found.spec.cells.extend(cell);
            }
        }
    }

    /// A machine's cell of this type, as its name tells; its types are added where they are new.
    fn absent(&mut self, top: &str, address: String) -> Option<CellSpec> {
        let types = &mut self.found.spec.cell_types;
        if top == PLAIN_NODE {
            return Some(plain(&address, types));
        }
        Some(DeviceGroup::named(top)?.cell(&address, types))
    }
}
