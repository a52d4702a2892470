//! What a virtual cluster has, as users see it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{JobKey, NodeId, VcName};
use crate::view::Age;

/// The error text for a request that names a virtual cluster which does not exist. `name`: as the request has it.
pub fn unknown(name: &str) -> String {
    format!("no virtual cluster is called {name:?}: `muster vc list` shows those that exist")
}

/// An amount of what nodes grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Amount {
    /// CPU cores.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Devices.
    pub gpu: u32,
}

/// How many devices of one kind there are, and how many of them are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceUse {
    /// With those that cannot be used now.
    pub total: u32,
    /// Those that can be used.
    pub healthy: u32,
    /// Those in use.
    pub used: u32,
}

impl DeviceUse {
    /// Those that can be used and are not in use.
    pub const fn free(self) -> u32 {
        self.healthy.saturating_sub(self.used)
    }

    /// Those that cannot be used now.
    pub const fn bad(self) -> u32 {
        self.total.saturating_sub(self.healthy)
    }
}

/// A virtual cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VcView {
    /// Its name.
    pub name: VcName,
    /// Healthy and in use.
    pub used: Amount,
    /// Healthy.
    pub guaranteed: Amount,
    /// With what is unhealthy now.
    pub total: Amount,
    /// What one cell of each type that it is promised brings along; empty if nothing is stated.
    pub skus: BTreeMap<String, Amount>,
    /// Its devices, by what they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, DeviceUse>,
    /// Plain sentences on what it is short of.
    pub problems: Vec<String>,
    /// How old what is known of its jobs is, if its leader does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<Age>,
}

impl VcView {
    /// One that has nothing.
    pub fn new(name: VcName) -> Self {
        Self {
            name,
            used: Amount::default(),
            guaranteed: Amount::default(),
            total: Amount::default(),
            skus: BTreeMap::new(),
            devices: BTreeMap::new(),
            problems: Vec::new(),
            age: None,
        }
    }
}

/// What another description of the cluster would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIf {
    /// Jobs that would go on, but no longer on what their virtual cluster is promised: they would
    /// give way to whom it is promised then.
    pub lose_quota: BTreeSet<JobKey>,
    /// Jobs that run on cells which would be there no more.
    pub lose_devices: BTreeSet<JobKey>,
    /// Jobs that wait, and could never run.
    pub impossible: Vec<Impossible>,
    /// Machines that it names or promises in addition, and that are not there: nothing can run on
    /// them now.
    pub absent: Vec<String>,
    /// Which types of cells it promises more of than there are, and to whom, a sentence part each.
    pub too_many: Vec<String>,
    /// Members that it would not name: nothing would be placed there.
    pub unnamed: Vec<NodeId>,
    /// Virtual clusters of which it is not known what their jobs would lose, and why, as a sentence part.
    pub unheard: BTreeMap<VcName, String>,
}

/// A job that could never run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Impossible {
    /// The job.
    pub job: JobKey,
    /// Why, as the end of a sentence.
    pub why: String,
}

impl Amount {
    /// Both together; saturates.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            memory_mb: self.memory_mb.saturating_add(other.memory_mb),
            gpu: self.gpu.saturating_add(other.gpu),
        }
    }

    /// What is left without the other; at least nothing.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(other.cpu),
            memory_mb: self.memory_mb.saturating_sub(other.memory_mb),
            gpu: self.gpu.saturating_sub(other.gpu),
        }
    }
}
