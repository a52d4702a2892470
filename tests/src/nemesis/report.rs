//! What a run came to, as one line of JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::history::{ClientAnswer, ClientHistory};

/// The figures of a run, and everything that must not be.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NemesisReport {
    /// What all randomness came from.
    pub seed: u64,
    /// How long faults were made, in minutes.
    pub minutes: f64,
    /// Questions asked.
    pub operations: usize,
    /// Submissions that were accepted.
    pub accepted: usize,
    /// Submissions that were refused.
    pub refused: usize,
    /// Submissions of which nobody knew what came.
    pub unknown: usize,
    /// Tasks that said something.
    pub runs: usize,
    /// Seconds from the end of the faults until every job had ended.
    pub settled_s: f64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// What must not be, one sentence each.
    pub violations: Vec<String>,
}

impl NemesisReport {
    /// Counts what a history holds.
    pub(super) fn of(history: &ClientHistory) -> Self {
        let mut report = Self {
            operations: history.operations.len(),
            runs: history.runs.len(),
            ..Self::default()
        };
        for (.., answer) in history.submissions() {
            let count = match answer {
                ClientAnswer::Told(()) => &mut report.accepted,
                ClientAnswer::Refused { .. } => &mut report.refused,
                ClientAnswer::Unknown(_) => &mut report.unknown,
            };
            *count += 1;
        }
        report
    }

    /// Whether nothing was as it must not be.
    pub const fn clean(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for NemesisReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}
