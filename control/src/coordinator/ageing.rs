//! How old ended jobs are: counted in hours by whoever leads, with a clock that nobody sets. Nothing counts while
//! nobody leads, nor the rest of an hour when another one is elected: they are kept longer then, never shorter.

use super::{Coordinator, Output};
use crate::vc::{Entry, VcState};

const HOUR_MS: u64 = 60 * 60 * 1_000;

impl Coordinator {
    /// Counts an hour that is over, and begins another, where anything grows older.
    pub(super) fn count_hours(&mut self, state: &VcState, out: &mut Vec<Output>) {
        if !state.has_history() {
            self.hour_over_at = None;
            return;
        }
        let next = self.now.plus_millis(HOUR_MS);
        let over_at = self.hour_over_at.get_or_insert(next);
        if *over_at <= self.now {
            *over_at = next;
            out.push(Output::Propose(Box::new(Entry::HourPassed)));
        }
    }
}
