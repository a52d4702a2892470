//! What is written when: at once what others will rely on, a moment later what may be lost.

use muster_model::id::AttemptUid;

use super::{Ledger, LedgerChange, LedgerOutput, record};

/// A change that may wait is made durable with the next one, at the latest after this long.
pub const LAZY_WRITE_MS: u64 = 1000;

impl Ledger {
    /// Drops a grant. The record may stay on disk until the next write: a reservation that
    /// comes back after a crash ends by itself, an unsettled exit is settled again.
    pub(super) fn forget(&mut self, uid: &AttemptUid) {
        if self.grants.remove(uid).is_some() {
            self.pending.remove(uid);
            self.lazy.push(record::delete_grant(uid));
            self.changed();
        }
    }

    pub(super) fn changed(&mut self) {
        self.version += 1;
    }

    pub(super) fn persist(&mut self, changes: Vec<LedgerChange>, out: &mut Vec<LedgerOutput>) {
        let mut all = std::mem::take(&mut self.lazy);
        all.extend(changes);
        if !all.is_empty() {
            out.push(LedgerOutput::Persist(all));
        }
    }

    pub(super) fn flush(&mut self, out: &mut Vec<LedgerOutput>) {
        if self.lazy.is_empty() {
            self.flush_at = None;
            return;
        }
        match self.flush_at {
            None => self.flush_at = Some(self.now.plus_millis(LAZY_WRITE_MS)),
            Some(due) if due <= self.now => {
                self.flush_at = None;
                self.persist(Vec::new(), out);
            }
            Some(_) => {}
        }
    }
}
