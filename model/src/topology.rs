//! How the devices of a machine and its network adapters are connected, pair by pair.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine's devices and adapters. `muster node topology -o json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    /// The machine's name.
    pub host: String,
    /// Devices in the order of the inventory, then network adapters that do RDMA, by name.
    pub points: Vec<TopologyPoint>,
}

/// A device or an adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyPoint {
    /// Its short name: the kind and the index of a device, `GPU0`; `NIC0` of an adapter.
    pub name: String,
    /// Its model, or the kernel's name of the adapter, `mlx5_0`.
    pub model: String,
    /// The NUMA node next to it. None if the firmware does not tell it.
    pub numa: Option<u32>,
    /// The CPUs of that node, `0-3,8-11`. Empty if it is not known, or has none.
    pub cpus: String,
    /// The way to each point, in the order of the points.
    pub links: Vec<DeviceLink>,
}

/// The way between two devices, as `nvidia-smi topo -m` calls it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum DeviceLink {
    /// The device itself.
    X,
    /// Between partitions of one card.
    Card,
    /// NVLink.
    Nv,
    /// AMD's xGMI.
    Xgmi,
    /// At most one PCIe switch.
    Pix,
    /// Several PCIe switches, and no host bridge.
    Pxb,
    /// A PCIe host bridge.
    Phb,
    /// Two host bridges of one NUMA node.
    Node,
    /// The connection of two NUMA nodes.
    Sys,
    /// It is not known.
    Unknown,
}

impl DeviceLink {
    /// All of them, the shortest way first.
    pub const ALL: [Self; 10] = [
        Self::X,
        Self::Card,
        Self::Nv,
        Self::Xgmi,
        Self::Pix,
        Self::Pxb,
        Self::Phb,
        Self::Node,
        Self::Sys,
        Self::Unknown,
    ];

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::X => "X",
            Self::Card => "CARD",
            Self::Nv => "NV",
            Self::Xgmi => "XGMI",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
            Self::Unknown => "?",
        }
    }

    /// What it means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::X => "itself",
            Self::Card => "partitions of one card",
            Self::Nv => "NVLink",
            Self::Xgmi => "xGMI",
            Self::Pix => "at most one PCIe switch",
            Self::Pxb => "several PCIe switches, and no host bridge",
            Self::Phb => "a PCIe host bridge",
            Self::Node => "two PCIe host bridges of one NUMA node",
            Self::Sys => "the connection between NUMA nodes",
            Self::Unknown => "not known",
        }
    }
}

impl fmt::Display for DeviceLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
