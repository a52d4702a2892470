//! The table of rules: what each sign means, what follows from it, and what clears it. It is
//! data, `health.toml` and `xid.toml`; a file of the administrator changes fields of it.

mod limits;
mod overlay;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use muster_model::health::{EventClass, HealthState, Quarantine, Remedy};
use serde::Deserialize;

pub use limits::HealthLimits;

/// Where the administrator's file is, below the machine's root.
pub const OVERLAY_FILE: &str = "etc/muster/health.toml";
const BUILT_IN: &str = concat!(include_str!("health.toml"), "\n", include_str!("xid.toml"));

/// All rules, with their thresholds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthRules {
    /// Thresholds of what is sampled.
    pub limits: HealthLimits,
    /// What follows from NVIDIA's recovery actions, by their number.
    recovery: BTreeMap<String, RecoveryRule>,
    /// Which repeated signs raise a rule of their own, by name.
    pub(super) escalation: BTreeMap<String, Escalation>,
    /// The rules by name. `xid *` holds for Xid errors that have no rule.
    rule: BTreeMap<String, HealthRule>,
}

/// What one sign means, and what follows from it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthRule {
    /// What the sign means, one sentence.
    pub meaning: String,
    /// Whose fault it is.
    #[serde(default = "hardware")]
    pub class: EventClass,
    /// The state of the check that it makes. Good: it makes none.
    #[serde(default = "good")]
    pub state: HealthState,
    /// What may not be granted.
    #[serde(default)]
    pub quarantine: Quarantine,
    /// What has to be done.
    #[serde(default)]
    pub remedy: Remedy,
    /// What clears the check.
    #[serde(default)]
    pub clears: ClearedBy,
    /// For how long nothing of it has to be seen until it is cleared, seconds. An event without
    /// it stays until `clears`.
    #[serde(default)]
    pub sticky_s: Option<u64>,
    /// The events that this one cancels.
    #[serde(default)]
    pub cancels: Vec<String>,
    /// Whether an event that calls itself not fatal is a warning that nothing follows from.
    #[serde(default)]
    pub milder_if_nonfatal: bool,
    /// Whether it is only shown, and nothing follows from it.
    #[serde(default)]
    pub shadow: bool,
}

const fn hardware() -> EventClass {
    EventClass::Hardware
}

const fn good() -> HealthState {
    HealthState::Good
}

/// What clears a check. A later one clears what an earlier one does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClearedBy {
    /// A look that finds it well.
    #[default]
    Data,
    /// A reset of the device.
    Reset,
    /// A restart of the machine.
    Reboot,
    /// A person who says that it is repaired.
    Repair,
}

/// What follows from a recovery action of NVIDIA's driver.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryRule {
    /// What has to be done, the end of a sentence.
    pub meaning: String,
    /// The state of the check.
    pub state: HealthState,
    /// What may not be granted.
    pub quarantine: Quarantine,
    /// What has to be done, to all faults of the GPU.
    pub remedy: Remedy,
}

/// A sign that repeats.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Escalation {
    /// The events that count. None: all fatal ones.
    #[serde(default)]
    pub(super) of: Vec<String>,
    /// What is counted.
    pub(super) counts: EscalationCount,
    /// From how many on.
    pub(super) count: usize,
    /// Within which time, seconds.
    pub(super) window_s: u64,
    /// Events within this time are one incident, seconds.
    #[serde(default)]
    pub(super) burst_s: u64,
    /// The rule that it raises.
    pub(super) raises: String,
}

/// What an escalation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EscalationCount {
    /// Incidents at one place of the device, if there were none at other places.
    Places,
    /// Users whose programs failed.
    Users,
    /// Incidents.
    Incidents,
    /// How often a fault came up that needs a reset.
    Resets,
}

/// Why rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HealthRulesError {
    /// The administrator's file cannot be read.
    #[error("the health rules {file} cannot be read; let the agent read the file, or remove it")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A field is wrong. The sentence names the line, the field and what is wrong.
    #[error("the health rules {file} are not used: {what}; docs/devices.md explains the fields")]
    Wrong {
        /// The file.
        file: String,
        /// What is wrong where.
        what: String,
    },
}

impl HealthRules {
    /// The rules of this release.
    ///
    /// # Errors
    /// Never in a release: a test reads them.
    pub fn built_in() -> Result<Self, HealthRulesError> {
        Self::with("", "health.toml")
    }

    /// The rules of this release, changed by the administrator's file if there is one.
    ///
    /// # Errors
    /// When the file cannot be read, or a field of it is not known or wrong. The rules of this
    /// release are then the ones to use.
    pub fn read(root: &Path) -> Result<Self, HealthRulesError> {
        let path = root.join(OVERLAY_FILE);
        let file = path.display().to_string();
        match fs::read_to_string(&path) {
            Ok(text) => Self::with(&text, &file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::built_in(),
            Err(source) => Err(HealthRulesError::Unreadable { file, source }),
        }
    }

    /// The rules of this release, changed by `text`.
    fn with(text: &str, file: &str) -> Result<Self, HealthRulesError> {
        let wrong = |what: String| HealthRulesError::Wrong {
            file: file.to_owned(),
            what,
        };
        let rules = overlay::merged(BUILT_IN, text).map_err(wrong)?;
        rules.check().map_err(wrong)?;
        Ok(rules)
    }

    /// The name and the rule of a code. `xid 999` has that of `xid *`.
    pub(super) fn of_code(&self, code: &str) -> Option<&HealthRule> {
        let family = code.split(' ').next().unwrap_or_default();
        let rule = self.rule.get(code);
        rule.or_else(|| self.rule.get(&format!("{family} *")))
    }

    pub(super) fn of_recovery(&self, action: u32) -> Option<&RecoveryRule> {
        self.recovery.get(&action.to_string())
    }

    /// What no type says: rules that other fields name, and numbers that make no sense.
    fn check(&self) -> Result<(), String> {
        for (name, escalation) in &self.escalation {
            let of = |field: &str, what: &str| {
                Err(format!("field `{field}` of `escalation.{name}` {what}"))
            };
            if !self.rule.contains_key(&escalation.raises) {
                return of("raises", "names no rule");
            }
            if escalation.count == 0 || escalation.window_s == 0 {
                return of("count", "and `window_s` have to be greater than 0");
            }
            let unknown = escalation
                .of
                .iter()
                .find(|code| self.of_code(code).is_none());
            if let Some(code) = unknown {
                return of("of", &format!("names `{code}`, which has no rule"));
            }
        }
        for (name, rule) in &self.rule {
            let unknown = rule
                .cancels
                .iter()
                .find(|code| !self.rule.contains_key(*code));
            if let Some(code) = unknown {
                return Err(format!(
                    "field `cancels` of `rule.\"{name}\"` names `{code}`, which has no rule"
                ));
            }
        }
        self.limits.check()
    }
}

impl ClearedBy {
    /// One sentence.
    pub(super) fn sentence(self, sticky_s: Option<u64>) -> String {
        let event = match self {
            Self::Data => "A look that finds it well",
            Self::Reset => "A reset of the device, a restart of the machine",
            Self::Reboot => "A restart of the machine",
            Self::Repair => "",
        };
        let time = sticky_s.map(|seconds| match self {
            Self::Data => format!(" for {seconds} seconds"),
            _ => format!(", or {seconds} seconds without another one"),
        });
        let repair = "a person who marks it repaired";
        match self {
            Self::Repair => "A person who marks it repaired.".to_owned(),
            _ => format!("{event}{}, or {repair}.", time.unwrap_or_default()),
        }
    }
}

/// What a person is told to do.
pub(super) fn advice(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::Nothing => "",
        Remedy::RestartTask => "Start the task again.",
        Remedy::EndProcess => "End the process, or leave the device to it.",
        Remedy::MendFabric => "Look at the fabric: subnet manager, switch, cable, server.",
        Remedy::DrainLinks => "End the tasks that use the links of the device.",
        Remedy::RecoverDomain => "Restart the services of the domain of GPUs (IMEX).",
        Remedy::ResetDevice => "Reset the device when no task uses it.",
        Remedy::DrainAndReset => "End the tasks that use the device and its links; then reset it.",
        Remedy::RebootMachine => "Drain the machine, then restart it.",
        Remedy::Inspect => {
            "Test the device with its vendor's tool; look at its slot, cables, power and cooling."
        }
        Remedy::CallVendor => "Take the device out of use, and ask its vendor.",
        Remedy::ReplaceDevice => "Take the device out of use, and have it replaced.",
    }
}
