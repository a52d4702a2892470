//! The failures of this node's tasks, kept so that new failure rules can be tried on them.
//!
//! One file a failure: how it ended, what the devices reported, the ends of its logs without secrets, and the verdict.
//! [`FailureNotes`] takes what the executor judged and never makes it wait; [`crate::loops::failures`] writes. What is
//! kept and for how long is decided in [`retention`], without a disk. [`RuleTester`] judges all of them by new rules.

mod mask;
mod notes;
mod record;
mod replay;
pub(crate) mod retention;
mod store;
mod tester;
#[cfg(test)]
mod tests;

pub(crate) use mask::SecretMask;
pub(crate) use notes::{FailureNote, FailureNotes, PendingFailure, is_failure, notes};
pub(crate) use record::FailureRecord;
pub(crate) use store::FailureStore;
pub(crate) use tester::RuleTester;
