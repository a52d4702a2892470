//! How old ended jobs are: the leader counts hours by its monotonic clock. Without a leader no time counts, nor does
//! the rest of an hour when another leader is elected: ended jobs are kept longer then, never shorter.

use muster_model::time::Time;

use super::context::Context;
use super::output::CoordinatorOutput;
use crate::vc::VcEntry;

const HOUR_MS: u64 = 60 * 60 * 1_000;

/// The hour that is being counted.
#[derive(Clone, Debug, Default)]
pub(super) struct HistoryHour {
    hour_over_at: Option<Time>,
}

impl HistoryHour {
    /// What the last leader counted of an hour is not known.
    pub(super) const fn begin_term(&mut self) {
        self.hour_over_at = None;
    }

    /// When the hour is over.
    pub(super) const fn next(&self) -> Option<Time> {
        self.hour_over_at
    }

    /// Counts an hour that is over, and begins another, where anything grows older.
    pub(super) fn count_hours(&mut self, context: &Context<'_>, out: &mut Vec<CoordinatorOutput>) {
        if !context.state.has_history() {
            self.hour_over_at = None;
            return;
        }
        let next = context.now.plus_millis(HOUR_MS);
        let over_at = self.hour_over_at.get_or_insert(next);
        if *over_at <= context.now {
            *over_at = next;
            out.push(CoordinatorOutput::Propose(Box::new(VcEntry::HourPassed)));
        }
    }
}
