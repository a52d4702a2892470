//! The kernel's log: records of `/dev/kmsg`, and the events of devices that their lines tell.
//!
//! [`KernelLog`] reads from a cursor on, so that an agent that restarts reports nothing twice
//! and loses nothing. What an event means is not decided here, but by the rules.

mod amd;
mod boot;
mod bus;
mod hardware_error;
mod host;
mod lines;
mod nvidia;
mod reader;
mod record;
#[cfg(test)]
mod tests;

use muster_model::health::HealthSubject;
use serde::{Deserialize, Serialize};

pub use boot::{Boot, BootError};
pub use lines::Unfinished;
pub use reader::{KernelLog, KernelLogCursor, KernelLogError, KernelLogRead};

use crate::inventory::pci::PciAddress;

/// What lines of the kernel's log report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelEvent {
    /// When, milliseconds since the epoch.
    pub at_ms: u64,
    /// The number of the record in the kernel's log of this boot.
    pub sequence: u64,
    /// Which of the record's lines it is. A record of the kernel has one, as a rule.
    pub line: u32,
    /// What it says.
    pub fact: KernelFact,
    /// The line, without its prefix. Lines that belong together are joined by spaces.
    pub text: String,
}

/// What a line says, before it is judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFact {
    /// The device that the line names; the machine if it names none.
    pub subject: HealthSubject,
    /// Which event: `xid 48`, `sxid 20034`, `gpu-gone`. The rules have an entry for it.
    pub code: String,
    /// Whether the line itself says that the error is fatal, or that it is not.
    pub fatal: Option<bool>,
    /// Where in the device or on the machine: `GPC 10, TPC 1`, `link 12`, a server's name.
    pub place: Option<String>,
    /// The process that the line names.
    pub pid: Option<u32>,
    /// That process' name.
    pub process: Option<String>,
    /// Of Xid 154: the driver's number of the recovery action before and now.
    pub recovery: Option<RecoveryChange>,
}

/// A change of what NVIDIA's driver says has to be done to use a GPU again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryChange {
    /// The number of the earlier action.
    pub from: u32,
    /// The number of the action from now on; NVML's field 230 has the same numbers.
    pub to: u32,
}

impl KernelFact {
    fn new(subject: HealthSubject, code: impl Into<String>) -> Self {
        Self {
            subject,
            code: code.into(),
            fatal: None,
            place: None,
            pid: None,
            process: None,
            recovery: None,
        }
    }

    fn at_place(self, place: Option<String>) -> Self {
        Self { place, ..self }
    }
}

/// A PCI address in the kernel's form, from a text with or without the function.
pub(crate) fn kernel_form(text: &str) -> Option<String> {
    let address: PciAddress = text.parse().or_else(|_| format!("{text}.0").parse()).ok()?;
    Some(address.to_string())
}

/// The device of a line that begins with its driver and its address, `amdgpu 0000:c1:00.0: `,
/// and the rest of the line.
fn driver_line<'a>(line: &'a str, driver: &str) -> Option<(HealthSubject, &'a str)> {
    let rest = line.strip_prefix(driver)?.strip_prefix(' ')?;
    let (address, rest) = rest.split_once(": ")?;
    // A network driver writes its interface as well: `mlx5_core 0000:5c:00.0 ibp92s0: `.
    let address = address.split(' ').next()?;
    Some((HealthSubject::at(kernel_form(address)?), rest))
}

/// The number that a text begins with.
fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.get(..end.unwrap_or(text.len()))?.parse().ok()
}
