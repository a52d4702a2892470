//! What the judge keeps, also over restarts of the agent.

use std::collections::{BTreeMap, VecDeque};

use muster_model::health::{HealthState, HealthSubject};
use serde::{Deserialize, Serialize};

use crate::health::kernel_log::Boot;

/// What stands, and what was seen before. The agent keeps it, together with the cursor of the
/// kernel's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthMemory {
    /// The boot that it is of.
    pub(super) boot: Boot,
    /// The record, and its line, of the last event of the kernel's log of that boot.
    pub(super) last: Option<(u64, u32)>,
    /// The parts of the machine, in the order in which they were first seen.
    pub(super) parts: Vec<PartMemory>,
    /// Processes that were seen in the last look, with the number of looks in a row.
    pub(super) looks: Vec<ProcessLooks>,
}

/// The faults, past events and holds of a part that the judge keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartMemory {
    pub(super) subject: HealthSubject,
    /// What stands, by rule. A good entry says that a look found it well.
    pub(super) standing: BTreeMap<String, Standing>,
    /// Events that may count for an escalation, the oldest first.
    pub(super) past: VecDeque<PastEvent>,
    /// When a fault came up that needs a reset, milliseconds since the epoch.
    pub(super) resets: Vec<u64>,
    /// Who holds it out of use, and why.
    pub(super) hold: Option<Hold>,
    /// NVIDIA's recovery action, 0 for none.
    pub(super) action: u32,
    pub(super) gpu: GpuMemory,
    pub(super) port: PortMemory,
}

/// A check that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Standing {
    pub(super) state: HealthState,
    pub(super) evidence: String,
    pub(super) since_ms: u64,
    /// When it was last seen to be so.
    pub(super) seen_ms: u64,
    /// Whether what was seen is so mild that nothing follows from it.
    pub(super) is_mild: bool,
}

/// An event of before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PastEvent {
    pub(super) at_ms: u64,
    pub(super) code: String,
    pub(super) place: Option<String>,
    /// Who used the device alone at that time.
    pub(super) user: Option<String>,
    /// Whether it is one of hardware or links that makes the part bad.
    pub(super) is_fatal: bool,
}

/// A person's decision to keep a part out of use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hold {
    pub(super) by: String,
    pub(super) why: String,
    pub(super) since_ms: u64,
}

/// What was seen of a GPU at earlier looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GpuMemory {
    /// Since when its driver has not answered.
    pub(super) silent_since_ms: Option<u64>,
    /// The most links that were active.
    pub(super) links_max: u32,
    /// The links that were active at the last look.
    pub(super) links: u32,
    /// Looks of the window: when, whether it was too hot, whether the power was too low.
    pub(super) slow: VecDeque<(u64, bool, bool)>,
    pub(super) narrow_looks: u32,
    pub(super) ghost_looks: u32,
    pub(super) recovered_looks: u32,
    pub(super) slow_pstate_since_ms: Option<u64>,
    /// Whether AMD's KFD ever had it.
    pub(super) was_in_kfd: bool,
    /// When errors that AMD's GPU corrected were last counted, and how many.
    pub(super) corrected: Option<(u64, u64)>,
}

/// What was seen of a port at earlier looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PortMemory {
    pub(super) was_up: bool,
    pub(super) is_down_since_ms: Option<u64>,
    /// When outages ended.
    pub(super) outages: Vec<u64>,
    pub(super) link_downed: Option<u64>,
}

/// A process that was seen in some looks in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessLooks {
    pub(super) pid: u32,
    pub(super) start: u64,
    /// Looks in which it hung in the kernel.
    pub(super) stuck: u32,
    /// Looks in which it held a device.
    pub(super) held: u32,
    /// Looks in which it was of a task and held a device that no task had.
    #[serde(default)]
    pub(super) left: u32,
}

impl PartMemory {
    pub(super) fn new(subject: HealthSubject) -> Self {
        Self {
            subject,
            standing: BTreeMap::new(),
            past: VecDeque::new(),
            resets: Vec::new(),
            hold: None,
            action: 0,
            gpu: GpuMemory::default(),
            port: PortMemory::default(),
        }
    }

    /// The state in which a check stands.
    pub(super) fn state(&self, rule: &str) -> HealthState {
        let standing = self.standing.get(rule);
        standing.map_or(HealthState::Good, |standing| standing.state)
    }
}

impl HealthMemory {
    /// The part, which is made if it is not known.
    pub(super) fn part(&mut self, subject: &HealthSubject) -> &mut PartMemory {
        let at = self.parts.iter().position(|part| part.subject == *subject);
        let at = at.unwrap_or_else(|| {
            self.parts.push(PartMemory::new(subject.clone()));
            self.parts.len() - 1
        });
        &mut self.parts[at]
    }
}
