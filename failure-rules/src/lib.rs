//! Failure rules: from the facts of one task's end to one verdict.
//!
//! The rules are files in OpenPAI's exit spec format. This crate reads them, checks them, and
//! applies them in OpenPAI's two steps: first to the user's exit code and the ends of the logs
//! (what the container would have exited with), then to the container and the platform's own
//! findings (the code that users see).
//!
//! It is not a log reader and not a retry policy: it never touches a container, a file or a
//! clock, and it does not decide whether the task runs again.
//!
//! Invariant: the same rules and the same evidence give the same verdict, whatever bytes the
//! logs hold.
//!
//! Start with [`RuleSet`]; [`Case`] is the same question as a JSON record.

mod case;
#[cfg(test)]
mod corpus;
mod diagnosis;
mod dialect;
mod ending;
mod finder;
mod inside;
mod literals;
mod outside;
mod pattern;
mod problem;
mod progress;
mod reader;
mod report;
mod rule;
mod ruleset;
mod scan;
mod signature;
mod treatment;

pub use case::{CASES_MAX, Case, CaseVerdict, ClassifyError, classify_cases};
pub use inside::UNRECOGNIZED;
pub use pattern::{PATTERN_CHARS_MAX, PATTERN_COMPILED_BYTES_MAX};
pub use problem::RuleProblem;
pub use reader::{PATTERNS_MAX, RULES_BYTES_MAX, RULES_MAX};
pub use report::{MATCH_BYTES_MAX, PLATFORM_LINES_MAX, REPORT_BYTES_MAX, USER_LINES_MAX};
pub use ruleset::RuleSet;
pub use scan::LOG_BYTES_MAX;
pub use signature::{LogSignature, SIGNATURE_BYTES_MAX};
