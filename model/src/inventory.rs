//! What a machine is made of, as its kernel and its drivers tell it.
//!
//! The inventory lists all that a machine has. [`Capacity`] is the part
//! of it that is granted to tasks.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node::{Capacity, Device, DeviceLevel};

/// One machine's parts. `muster node inventory -o json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inventory {
    /// Logical CPUs that are online.
    pub cpus: u32,
    /// Cores that are online: threads of one core count once.
    pub cores: u32,
    /// Memory that tasks can use, MiB: the kernel's total less the memory of devices and less
    /// the pools of huge pages.
    pub memory_mb: u64,
    /// NUMA nodes, by number. Numbers may have gaps.
    pub numa: Vec<NumaNode>,
    /// Accelerators. Those of one vendor stand in the order of their driver, in the order of
    /// the bus where no driver numbers them. A group of [`levels`](Self::levels) names a device
    /// by its place in this list.
    pub devices: Vec<Accelerator>,
    /// Ports of network adapters that do RDMA, by name and number.
    pub fabric: Vec<FabricPort>,
    /// Which devices lie near to each other, the widest level first. A machine with PCIe
    /// switches below PCIe switches has the level `pcie` twice, the outer switches first.
    pub levels: Vec<DeviceLevel>,
    /// What is wrong, with a remedy.
    pub problems: Vec<InventoryProblem>,
}

impl Inventory {
    /// What a node with these devices would grant if all of them were well, as far as cells are
    /// made of it: without device files and ports. A device's index is its place in the list.
    pub fn to_capacity(&self) -> Capacity {
        let device = |(index, device): (u32, &Accelerator)| Device {
            kind: device.kind,
            vendor: device.vendor.clone(),
            memory_mb: device.memory_mb,
            pci: device.pci.clone(),
            partition_of: device.partition_of.clone(),
            simulated: false,
            ..Device::simulated(format!("device-{index}"), index, &*device.model)
        };
        Capacity {
            cpu: self.cpus,
            memory_mb: self.memory_mb,
            devices: (0..).zip(&self.devices).map(device).collect(),
            levels: self.levels.clone(),
            port_first: 0,
            port_last: 0,
        }
    }
}

/// A NUMA node: CPUs, memory, or both; neither where the firmware made it for another device.
/// Nodes that are the memory of GPUs are not listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NumaNode {
    /// The kernel's number.
    pub id: u32,
    /// How many logical CPUs of it are online. 0 if it has memory only.
    pub cpus: u32,
    /// Which CPUs these are, in the kernel's form `0-3,8-11`.
    pub cpu_list: String,
    /// Its memory, MiB. 0 if it has CPUs only.
    pub memory_mb: u64,
}

/// A device that computes, or a partition of one that is granted on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accelerator {
    /// What sort of device it is.
    pub kind: AcceleratorKind,
    /// Its maker in small letters: `nvidia`, `amd`, `huawei`. The PCI number in four hex digits
    /// if the maker is not known.
    pub vendor: String,
    /// What the driver calls it; what the table of PCI numbers calls it if no driver answers;
    /// `VENDOR:DEVICE` in hex if the table does not have it.
    pub model: String,
    /// Its address on the PCI bus, `0000:1a:00.0`. None for a device that is on no PCI bus.
    pub pci: Option<String>,
    /// The NUMA node next to it. None if the firmware does not tell it.
    pub numa: Option<u32>,
    /// Its own memory, MiB. 0 if unknown, or if it shares the host's.
    pub memory_mb: u64,
    /// For a partition: the PCI address of the card, which is the same for all its partitions.
    pub partition_of: Option<String>,
}

/// A sort of accelerator.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum AcceleratorKind {
    /// A graphics processor for computing.
    Gpu,
    /// A processor for neural networks.
    Npu,
    /// A vector processor.
    Vector,
    /// A field-programmable gate array.
    Fpga,
    /// None of these.
    Other,
}

impl AcceleratorKind {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Npu => "npu",
            Self::Vector => "vector",
            Self::Fpga => "fpga",
            Self::Other => "other",
        }
    }
}

/// One port of an adapter that does RDMA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FabricPort {
    /// The adapter's name: `mlx5_0`.
    pub device: String,
    /// The port's number, from 1.
    pub port: u32,
    /// What runs on the wire.
    pub link_layer: LinkLayer,
    /// The kernel's word: ACTIVE, DOWN, INIT or ARMED.
    pub state: String,
    /// Gigabits a second. What a port that is down shows is a filler of its driver.
    pub rate_gbps: u32,
}

/// What runs on a port's wire.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// RDMA over Ethernet: RoCE or iWARP.
    Ethernet,
    /// Omni-Path, whose kernel files say InfiniBand.
    #[serde(rename = "Omni-Path")]
    OmniPath,
    /// The Elastic Fabric Adapter of AWS, whose kernel files say nothing.
    #[serde(rename = "EFA")]
    Efa,
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
            Self::OmniPath => "Omni-Path",
            Self::Efa => "EFA",
        })
    }
}

/// Something of a machine that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct InventoryProblem {
    /// What sort of problem it is, one word with hyphens: `driver-missing`.
    pub name: String,
    /// The device or port that has it: a PCI address, `mlx5_0/1`. None if it is the machine.
    pub subject: Option<String>,
    /// What was seen, one sentence.
    pub evidence: String,
    /// What to do about it, one sentence.
    pub remedy: String,
}
