//! Whether and when something that ended is started again: OpenPAI's policy, with a guard.
//!
//! OpenPAI repeats a transient failure forever and without pause, so a task that keeps failing
//! that way burns its node. Here the pause grows, and past a limit the failure counts as the
//! user's own.

use muster_model::exit::{Behavior, Verdict};
use muster_model::state::{EXIT_ATTEMPT_COMPLETED, EXIT_STOPPED};
use serde::{Deserialize, Serialize};

use crate::gang::hash;

/// Transient failures that are repeated at once.
pub const TRANSIENT_AT_ONCE: u32 = 3;
/// Transient failures that are not charged to the user.
pub const TRANSIENT_FREE: u32 = 30;
/// The longest pause after a transient failure, milliseconds.
pub const TRANSIENT_PAUSE_MAX_MS: u64 = 600_000;
/// Bounds of the pause after a conflict, milliseconds (FrameworkController's defaults).
pub const CONFLICT_PAUSE_MS: std::ops::RangeInclusive<u64> = 60_000..=900_000;

/// Exit code of a task removed by a smaller instance count; never retried.
const EXIT_SCALED_DOWN: i32 = -230;
const ALWAYS: i32 = -2;
const ON_FAILURE: i32 = -1;

/// A retry policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Look at what the failure means, not only at the count.
    pub(crate) fancy: bool,
    /// Charged retries at most; -1 any number after a failure, -2 always.
    pub(crate) max: i32,
    /// Pause after a conflict. Only whole jobs pause.
    pub(crate) pauses: bool,
}

/// How often something was retried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Count {
    /// In all.
    pub(crate) total: u32,
    /// Charged to the user.
    pub(crate) charged: u32,
}

impl Count {
    pub(crate) const fn free(self) -> u32 {
        self.total.saturating_sub(self.charged)
    }

    pub(crate) const fn add(&mut self, charged: bool) {
        self.total = self.total.saturating_add(1);
        if charged {
            self.charged = self.charged.saturating_add(1);
        }
    }
}

/// What comes after an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing: it is over.
    Stop,
    /// Another attempt.
    Retry { charged: bool, pause_ms: u64 },
}

/// Decides what comes after `verdict`. `name` seeds the pause.
pub(crate) fn next(policy: Policy, verdict: &Verdict, count: Count, name: &str) -> Next {
    let code = verdict.code();
    if [EXIT_STOPPED, EXIT_ATTEMPT_COMPLETED, EXIT_SCALED_DOWN].contains(&code) {
        return Next::Stop;
    }
    if policy.fancy && code != 0 {
        let free = count.free() < TRANSIENT_FREE;
        match verdict.spec.behavior {
            Behavior::Permanent => return Next::Stop,
            Behavior::Transient if free => return uncharged(transient_pause(count.free(), name)),
            Behavior::TransientConflict if free && policy.pauses => {
                return uncharged(conflict_pause(name));
            }
            Behavior::TransientConflict if free => {
                return uncharged(transient_pause(count.free(), name));
            }
            Behavior::Transient | Behavior::TransientConflict | Behavior::Unknown => {}
        }
    }
    normal(policy.max, code, count.charged)
}

fn normal(max: i32, code: i32, charged: u32) -> Next {
    let failed = code != 0;
    let again = match max {
        ALWAYS => true,
        ON_FAILURE => failed,
        max => failed && i64::from(charged) < i64::from(max),
    };
    if !again {
        return Next::Stop;
    }
    Next::Retry {
        charged: true,
        pause_ms: 0,
    }
}

const fn uncharged(pause_ms: u64) -> Next {
    Next::Retry {
        charged: false,
        pause_ms,
    }
}

/// Nothing at first, then doubling from a second, half of it by chance.
fn transient_pause(before: u32, name: &str) -> u64 {
    if before < TRANSIENT_AT_ONCE {
        return 0;
    }
    let doublings = (before - TRANSIENT_AT_ONCE).min(20);
    let pause = (1000 << doublings).min(TRANSIENT_PAUSE_MAX_MS);
    pause / 2 + hash(name) % (pause / 2)
}

fn conflict_pause(name: &str) -> u64 {
    let (first, last) = (CONFLICT_PAUSE_MS.start(), CONFLICT_PAUSE_MS.end());
    first + hash(name) % (last - first + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict;

    fn verdict_of(code: i32, behavior: Behavior) -> Verdict {
        let mut verdict = verdict::succeeded();
        verdict.spec.code = code;
        verdict.spec.behavior = behavior;
        verdict
    }

    #[test]
    fn the_table() {
        use Behavior::{Permanent, Transient, TransientConflict, Unknown};
        const FREE: Next = Next::Retry {
            charged: false,
            pause_ms: 0,
        };
        const CHARGED: Next = Next::Retry {
            charged: true,
            pause_ms: 0,
        };
        let table = [
            (true, 3, 0, 137, Transient, FREE),
            (false, 3, 3, 137, Transient, Next::Stop),
            (true, 3, 0, 254, Permanent, Next::Stop),
            (false, 3, 0, 254, Permanent, CHARGED),
            (true, 3, 2, 255, Unknown, CHARGED),
            (true, 3, 3, 255, Unknown, Next::Stop),
            (true, 0, 0, 251, TransientConflict, FREE),
            (true, -1, 9, 255, Unknown, CHARGED),
            (true, -1, 9, 0, Unknown, Next::Stop),
            (true, -2, 9, 0, Unknown, CHARGED),
            (true, -2, 0, EXIT_STOPPED, Unknown, Next::Stop),
            (true, -2, 0, EXIT_ATTEMPT_COMPLETED, Unknown, Next::Stop),
        ];
        for (fancy, max, charged, code, behavior, expected) in table {
            let policy = Policy {
                fancy,
                max,
                pauses: false,
            };
            let count = Count {
                total: charged,
                charged,
            };
            let got = next(policy, &verdict_of(code, behavior), count, "x");
            assert_eq!(
                got, expected,
                "{code} {behavior:?} max {max} charged {charged}"
            );
        }
    }

    #[test]
    fn transient_failures_slow_down_and_end() {
        let policy = Policy {
            fancy: true,
            max: 0,
            pauses: true,
        };
        let verdict = verdict_of(137, Behavior::Transient);
        let mut count = Count::default();
        let mut pauses = Vec::new();
        while let Next::Retry { charged, pause_ms } = next(policy, &verdict, count, "a~b") {
            pauses.push(pause_ms);
            count.add(charged);
        }
        assert_eq!(pauses.len(), 30);
        assert_eq!(pauses[..3], [0, 0, 0]);
        assert!(pauses[3..].is_sorted() && pauses[3] >= 500);
        assert!(pauses[29] <= TRANSIENT_PAUSE_MAX_MS);
        let conflict = verdict_of(251, Behavior::TransientConflict);
        let Next::Retry { pause_ms, .. } = next(policy, &conflict, Count::default(), "a~b") else {
            panic!("a conflict is retried");
        };
        assert!(CONFLICT_PAUSE_MS.contains(&pause_ms));
    }

    /// FrameworkController's own answers, where the file is at hand. It names the attributes
    /// `Transient`, `Conflict` and `Permanent`; the pause 77 stands for one by chance.
    #[test]
    fn agrees_with_framework_controller() {
        let file = "../../shared/data/retry-cases.json";
        let Ok(text) = std::fs::read_to_string(file) else {
            eprintln!("skipped: {file} is not here");
            return;
        };
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        let number = |value: &serde_json::Value| i32::try_from(value.as_i64().unwrap()).unwrap();
        for case in file["cases"].as_array().unwrap() {
            let attributes = case["attributes"].to_string();
            let behavior = match attributes.as_str() {
                "null" => Behavior::Unknown,
                text if text.contains("Conflict") => Behavior::TransientConflict,
                text if text.contains("Transient") => Behavior::Transient,
                _ => Behavior::Permanent,
            };
            let policy = Policy {
                fancy: case["fancyRetryPolicy"].as_bool().unwrap(),
                max: number(&case["maxRetryCount"]),
                pauses: true,
            };
            let charged = u32::try_from(number(&case["accountableRetriedCount"])).unwrap();
            let count = Count {
                total: charged,
                charged,
            };
            let verdict = verdict_of(number(&case["code"]), behavior);
            let got = match next(policy, &verdict, count, "x") {
                Next::Stop => (false, true, false),
                Next::Retry { charged, pause_ms } => (true, charged, pause_ms > 0),
            };
            let expected = (
                case["shouldRetry"].as_bool().unwrap(),
                case["isAccountable"].as_bool().unwrap(),
                number(&case["delaySec"]) > 0,
            );
            assert_eq!(got, expected, "{case}");
        }
    }
}
