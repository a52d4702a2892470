//! What a level of a cluster is to those who ask for nearness.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of place in which things can be near to each other.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Devices behind one PCIe switch.
    Pcie,
    /// Devices linked by NVLink.
    Nvlink,
    /// Devices of one socket.
    Numa,
    /// One machine.
    Node,
    /// Machines behind one network switch.
    Rack,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Pcie, Self::Nvlink, Self::Numa, Self::Node, Self::Rack];

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pcie => "pcie",
            Self::Nvlink => "nvlink",
            Self::Numa => "numa",
            Self::Node => "node",
            Self::Rack => "rack",
        }
    }

    /// Whether it lies inside a machine.
    pub const fn is_inside_node(self) -> bool {
        matches!(self, Self::Pcie | Self::Nvlink | Self::Numa)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no level; write pcie, nvlink, numa, node or rack")]
pub struct UnknownLevel(pub String);

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        let named = |level: &Self| level.as_str() == text;
        let level = Self::ALL.into_iter().find(named);
        level.ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}
