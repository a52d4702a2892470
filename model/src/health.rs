//! The health of a machine's parts: what checks say of them, and events of devices that the end
//! of a task may be judged by.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node::DeviceId;

/// What one check says of one part of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthCheck {
    /// The rule that it follows: `xid 48`, `rows-failed`, `port-down`.
    pub name: String,
    /// The part that was checked.
    pub subject: HealthSubject,
    /// What came of it.
    pub state: HealthState,
    /// What was seen, one sentence.
    pub evidence: String,
    /// Since when it is in this state, milliseconds since the epoch, by the machine's clock.
    pub since_ms: u64,
    /// What brings it back to good, one sentence.
    pub clears: String,
    /// Whether the rule runs in shadow: the check is shown, and nothing follows from it.
    pub shadow: bool,
    /// What has to be done, for programs.
    pub remedy: Remedy,
    /// What has to be done, for people: one sentence. Empty where nothing has to be done.
    pub advice: String,
    /// What the rule keeps from being granted. [`HealthCheck::effect`] says what is kept in fact.
    pub quarantine: Quarantine,
    /// Why the quarantine is not done although the rule asks for it: the breaker of the cluster.
    pub held_back: Option<String>,
}

impl HealthCheck {
    /// What this check keeps from being granted: nothing if the part is good, if the rule runs
    /// in shadow, or if the quarantine is held back.
    pub fn effect(&self) -> Quarantine {
        let is_trouble = matches!(self.state, HealthState::Warn | HealthState::Bad);
        if is_trouble && !self.shadow && self.held_back.is_none() {
            self.quarantine
        } else {
            Quarantine::None
        }
    }
}

/// The part of a machine that a check or an event concerns.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum HealthSubject {
    /// The machine as a whole.
    Machine,
    /// A GPU or another accelerator, a switch between GPUs, or a network adapter.
    Device {
        /// Its PCI address in the kernel's form: `0000:1a:00.0`.
        pci: Option<String>,
        /// The name that it is granted by. None if it is not granted, if it is not known, or if
        /// several granted devices lie at the address.
        id: Option<DeviceId>,
    },
    /// A port of a network adapter that does RDMA.
    FabricPort {
        /// The adapter's name: `mlx5_0`.
        device: String,
        /// The port's number, from 1.
        port: u32,
    },
}

impl HealthSubject {
    /// The device at a PCI address.
    pub fn at(pci: impl Into<String>) -> Self {
        Self::Device {
            pci: Some(pci.into()),
            id: None,
        }
    }

    /// The PCI address, if it is a device that has one.
    pub fn pci(&self) -> Option<&str> {
        match self {
            Self::Device { pci, .. } => pci.as_deref(),
            Self::Machine | Self::FabricPort { .. } => None,
        }
    }
}

impl fmt::Display for HealthSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => f.write_str("machine"),
            Self::Device { pci: Some(pci), .. } => f.write_str(pci),
            Self::Device {
                id: Some(DeviceId(id)),
                ..
            } => f.write_str(id),
            Self::Device { .. } => f.write_str("device"),
            Self::FabricPort { device, port } => write!(f, "{device}/{port}"),
        }
    }
}

/// What a check says. The worse is the greater.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// It is as it should be.
    Good,
    /// It cannot be told at present.
    Unknown,
    /// It works, but badly, or not for long.
    Warn,
    /// It does not work, or what it computes cannot be trusted.
    Bad,
}

impl HealthState {
    /// The word that users see, the one that JSON has.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Unknown => "unknown",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

impl fmt::Display for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What may not be granted while a check is not good. The wider is the greater.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Quarantine {
    /// Everything may be granted.
    #[default]
    None,
    /// What needs the links. A port of the fabric is kept from tasks that ask for the fabric; a
    /// GPU from all, because a grant does not say which links its task will use.
    Links,
    /// The device.
    Device,
    /// All devices of the machine.
    Node,
}

/// What has to be done about a fault, from nothing to the most.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Nothing.
    #[default]
    Nothing,
    /// Start the task again; the device is well.
    RestartTask,
    /// End the process that holds the device.
    EndProcess,
    /// Mend the fabric: subnet manager, switch or cable.
    MendFabric,
    /// End what uses the links between devices.
    DrainLinks,
    /// Recover the domain of GPUs that share memory over several machines.
    RecoverDomain,
    /// Reset the device when no task uses it.
    ResetDevice,
    /// End what uses the device and its links, then reset it.
    DrainAndReset,
    /// Restart the machine.
    RebootMachine,
    /// Have a person test the device, or look at its slot, cables, power and cooling.
    Inspect,
    /// Ask the vendor.
    CallVendor,
    /// Replace the device.
    ReplaceDevice,
}

/// What a person says of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PersonMark {
    /// It stays out of use until a person releases it. Nothing else ends this.
    Held {
        /// Who.
        by: String,
        /// Why.
        why: String,
    },
    /// It is no longer held.
    Released,
    /// It is repaired: nothing of before counts any more. This does not release it.
    Repaired,
}

/// Something that a device, its driver or the kernel reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceEvent {
    /// The device; the machine if no device is named.
    pub subject: HealthSubject,
    /// When, milliseconds since the epoch, by the machine's clock.
    pub at_ms: u64,
    /// Which event: `xid 48`, `sxid 20034`, `gpu-gone`.
    pub code: String,
    /// Whose fault it is, as far as the code tells.
    pub class: EventClass,
    /// The process that the driver names, by its number on the machine.
    pub pid: Option<u32>,
    /// The kernel's line, without its prefix.
    pub text: String,
}

impl DeviceEvent {
    /// Whether a device or a link failed, which no program brings about.
    pub const fn is_fault(&self) -> bool {
        matches!(
            self.class,
            EventClass::Hardware | EventClass::Link | EventClass::ContainedEcc
        )
    }
}

/// Whose fault an event is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EventClass {
    /// The program's: it used the device wrongly. NVIDIA's 13, 31, 32, 43, 45, 68, 69.
    Application,
    /// The device's, and contained: the program lost data, and the device goes on. NVIDIA's 94.
    ContainedEcc,
    /// The device's or the machine's.
    Hardware,
    /// That of links between devices or between machines.
    Link,
    /// Nobody's: it only informs. So does each event whose rule runs in shadow.
    Information,
}
