//! The cells that a virtual cluster is promised, as a tree, and whose jobs are on them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::JobKey;

/// Devices that are listed one by one at most; of larger virtual clusters the rest is counted.
pub const LISTED_LEAVES_MAX: usize = 2048;

/// What a virtual cluster is promised, and what its jobs have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VcCells {
    /// Its cells by the type of the largest ones, and each pinned cell. Empty where the cluster has no cells yet.
    pub pools: Vec<CellPool>,
    /// Who has which devices, within the promise or beyond it: jobs of this virtual cluster.
    pub users: Vec<CellUser>,
}

/// The cells that are promised of one kind of hardware, or one pinned cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellPool {
    /// The type of the largest cells of this hardware.
    pub chain: String,
    /// The name of the pinned cell; none for cells of any place.
    pub pinned: Option<String>,
    /// Each level of the promised cells, the largest first.
    pub levels: Vec<CellLevel>,
    /// The promised cells that are listed.
    pub cells: Vec<PromisedCell>,
    /// How many more there are.
    pub unlisted: u32,
}

/// How many cells there are of one type. A cell of which a part is in use and another one lent counts as both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellLevel {
    /// The type.
    pub cell_type: String,
    /// In all.
    pub total: u32,
    /// Some of it is held by a job within the promise.
    pub used: u32,
    /// All of it is well, and nobody is on it.
    pub free: u32,
    /// Some of it cannot be used: its machine or device is faulty, away or cordoned.
    pub bad: u32,
    /// A job that must give way is on some of it: of another virtual cluster, or an opportunistic one.
    pub lent: u32,
}

/// A promised cell, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromisedCell {
    /// Its type.
    pub cell_type: String,
    /// The machine that it is or lies in; none if it is larger.
    pub node: Option<String>,
    /// Its parts, down to those that hold devices.
    pub parts: Vec<PromisedCell>,
    /// Its devices, if it has no parts.
    pub leaves: Vec<CellLeaf>,
}

/// A device of a cell, or one of the places for tasks without devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellLeaf {
    /// Its index on the machine.
    pub index: u32,
    /// What is with it.
    pub state: LeafState,
}

/// What is with a device that a virtual cluster is promised.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LeafState {
    /// A job of the virtual cluster holds it within the promise.
    Used,
    /// Nobody is on it.
    Free,
    /// It is faulty, or its machine is, or is away, or is cordoned.
    Bad,
    /// A job that must give way is on it.
    Lent,
}

/// What one job of a virtual cluster has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellUser {
    /// The job; none if it is not seen. Those that are not seen are one entry.
    pub job: Option<JobKey>,
    /// By machine.
    pub places: Vec<UsedDevices>,
    /// How many of them are beyond the promise: borrowed, so that the job may have to give way.
    pub borrowed: u32,
}

/// Devices of one machine that a job has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsedDevices {
    /// The machine.
    pub node: String,
    /// The type of the devices.
    pub leaf_type: String,
    /// Their indices.
    pub indices: BTreeSet<u32>,
}

impl LeafState {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 4] = [Self::Used, Self::Free, Self::Bad, Self::Lent];

    /// The word for it, the one that JSON has.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Free => "free",
            Self::Bad => "bad",
            Self::Lent => "lent",
        }
    }
}

impl PromisedCell {
    /// How many of its devices are in this state.
    pub fn count(&self, state: LeafState) -> usize {
        let own = self.leaves.iter().filter(|leaf| leaf.state == state);
        let parts = self.parts.iter().map(|part| part.count(state));
        own.count() + parts.sum::<usize>()
    }

    /// How many devices it has.
    pub fn size(&self) -> usize {
        let parts = self.parts.iter().map(Self::size);
        self.leaves.len() + parts.sum::<usize>()
    }
}

impl CellUser {
    /// How many devices the job has.
    pub fn devices(&self) -> usize {
        self.places.iter().map(|place| place.indices.len()).sum()
    }
}
