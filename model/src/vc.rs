//! What a virtual cluster has, as users see it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::VcName;

/// An amount of what nodes grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// CPU cores.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Devices.
    pub gpu: u32,
}

/// A virtual cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Plain sentences on what it is short of.
    pub problems: Vec<String>,
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
            problems: Vec::new(),
        }
    }
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
