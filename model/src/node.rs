//! What a machine has and what is free on it.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster_spec::Level;
use crate::health::HealthCheck;
use crate::id::{NodeId, VcName};
use crate::inventory::AcceleratorKind;
use crate::pull::Pull;

/// Names a device on its node for as long as the hardware stays: the UUID of NVIDIA's GPUs, the
/// serial number of AMD's, the PCI address of others, or `sim-V100-3`.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct DeviceId(pub String);

/// The vendor of devices that NVIDIA's driver lists.
pub const NVIDIA: &str = "nvidia";

/// A device that is granted as a whole to one task at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Its lasting name.
    pub id: DeviceId,
    /// Its index on the node. NVIDIA's GPUs have the driver's numbers, which
    /// `NVIDIA_VISIBLE_DEVICES` shows; devices of other vendors follow.
    pub index: u32,
    /// What sort of device it is.
    pub kind: AcceleratorKind,
    /// Its maker in small letters: `nvidia`, `amd`, `huawei`.
    pub vendor: String,
    /// What it is, as its driver names it: `Tesla V100-SXM2-16GB`.
    pub model: String,
    /// Memory on the device in MiB, 0 if unknown.
    pub memory_mb: u64,
    /// Its address on the PCI bus, `0000:1a:00.0`. None if it is on none, or it is not known.
    pub pci: Option<String>,
    /// For a partition: the PCI address of the card, which is the same for all its partitions.
    pub partition_of: Option<String>,
    /// Device files that a task needs to use it. Empty for a simulated device.
    pub paths: Vec<String>,
    /// Whether it may be granted; a sick device stays listed, with the reason.
    pub fault: Option<String>,
    /// Made up by `[hardware] simulate`, for trials.
    pub simulated: bool,
}

impl Device {
    /// A GPU that does not exist, for trials.
    pub fn simulated(id: impl Into<String>, index: u32, model: impl Into<String>) -> Self {
        Self {
            id: DeviceId(id.into()),
            index,
            kind: AcceleratorKind::Gpu,
            vendor: NVIDIA.to_owned(),
            model: model.into(),
            memory_mb: 0,
            pci: None,
            partition_of: None,
            paths: Vec::new(),
            fault: None,
            simulated: true,
        }
    }

    /// Whether it is a GPU of NVIDIA, or plays one.
    pub fn is_nvidia(&self) -> bool {
        self.vendor == NVIDIA
    }
}

/// What a node can grant in all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// CPU in whole cores.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Every device, faulty ones too.
    pub devices: Vec<Device>,
    /// Which of them lie near to each other, as far as that is known; the widest level first.
    pub levels: Vec<DeviceLevel>,
    /// First port of the range tasks get theirs from.
    pub port_first: u16,
    /// Last port of that range, inclusive. Lies outside the kernel's ephemeral range.
    pub port_last: u16,
}

/// Devices of a machine in groups that lie near to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceLevel {
    /// What those of a group have in common: pcie, nvlink or numa.
    pub level: Level,
    /// Device indices by group. A device is in one group at most. Groups may differ in size, and
    /// devices that are near to no other may be in none.
    pub groups: Vec<Vec<u32>>,
}

/// What is free on a node, as its own ledger says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Free {
    /// CPU cores.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Free and healthy devices, by index.
    pub devices: Vec<(u32, DeviceId)>,
    /// How many ports are left.
    pub ports: u32,
}

/// One node as users see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeView {
    /// Its id.
    pub id: NodeId,
    /// Its host name.
    pub host_name: String,
    /// The address other nodes and tasks reach it at.
    pub address: IpAddr,
    /// Where it stands, as it told when it joined its cluster; empty if it told nothing.
    #[serde(default)]
    pub rack: String,
    /// What it has.
    pub capacity: Capacity,
    /// What of that is free.
    pub free: Free,
    /// Version of the agent that runs there.
    pub agent_version: String,
    /// Name and version of the container engine, or why it does not answer.
    pub engine: Result<String, String>,
    /// Faults that are known of the versions of the engine and its runtime, a sentence each.
    #[serde(default)]
    pub engine_faults: Vec<String>,
    /// Plain sentences on what is wrong with it. Empty when all is well.
    pub problems: Vec<String>,
    /// Tasks that hold resources there.
    pub tasks: Vec<NodeTask>,
    /// What checks of its parts say, good ones included.
    #[serde(default)]
    pub health: Vec<HealthCheck>,
    /// Images on their way there for tasks.
    pub pulls: Vec<Pull>,
    /// Fingerprint of the certificate that its REST API shows; none where it speaks in clear.
    #[serde(default)]
    pub certificate: Option<String>,
}

/// A task as its node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeTask {
    /// `user~job`.
    pub job: String,
    /// The virtual cluster of the job.
    pub vc: VcName,
    /// `role:index`.
    pub task: String,
    /// The attempt's uid.
    pub uid: String,
    /// Ledger state: Reserved, Claimed, Held, Draining or Quarantined.
    pub state: String,
    /// Indices of its devices.
    pub devices: Vec<u32>,
    /// Cores it holds.
    pub cpu: u32,
    /// Memory it holds, in MiB.
    pub memory_mb: u64,
}
