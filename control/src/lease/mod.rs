//! The run lease: how long a task may run on a node of which nobody hears anything.
//!
//! A node asks for renewal; the leader of the virtual cluster, or of the `cluster` group where that
//! one does not answer, grants it after a majority has confirmed that it still leads. The node
//! counts from its own sending, so an answer that took long grants less and never more. At the end
//! of a lease the task's own muster-init ends the task, whether the agent lives or not. A leader
//! that has heard nothing of a node for longer than a lease can last may therefore start the job
//! elsewhere: what ran there has ended. See `docs/decisions/016-run-leases.md`.
//!
//! Times here are of clocks that nobody sets: of a node's clock since boot, which counts while the
//! machine sleeps, and of a leader's monotonic clock, which need not.

mod holder;
mod watch;

pub use holder::{LeaseAuthority, LeaseHolder, LeaseOutput, Leased, RenewalRequest};
pub use watch::{Hearing, SilenceQuestion, SilenceWatch};

use serde::{Deserialize, Serialize};

/// Renewals that are asked for while a lease lasts.
const RENEWALS: u64 = 20;
/// Asked for no more often than this, milliseconds.
const RENEW_MS_MIN: u64 = 1_000;
/// Between the polite and the hard signal at the end of a lease, milliseconds.
pub const GRACE_MS: u64 = 20_000;
/// Hundredths of a lease after which a silent node's task has ended by any clock whose rate is
/// within one percent of the leader's, and by some more.
const LOST_PERCENT: u64 = 103;

/// The lease of a run: the seconds for which its node may be away without any harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeaseTime {
    /// How long, as the job says.
    pub seconds: u32,
}

impl LeaseTime {
    /// The shortest that a job may ask for.
    pub const SHORTEST: Self = Self {
        seconds: muster_model::job::FAILOVER_S_MIN,
    };

    /// Between two renewals, milliseconds.
    pub fn renew_ms(self) -> u64 {
        (u64::from(self.seconds) * 1000 / RENEWALS).max(RENEW_MS_MIN)
    }

    /// From the sending of a request that was granted to the task's very end, milliseconds: two
    /// renewals may be missed and the task has its grace, so that who is away for less than
    /// [`LeaseTime::seconds`] loses nothing.
    pub fn wire_ms(self) -> u64 {
        u64::from(self.seconds) * 1000 + 2 * self.renew_ms() + GRACE_MS
    }

    /// After so many milliseconds without a request the task has ended.
    pub fn lost_ms(self) -> u64 {
        self.wire_ms() * LOST_PERCENT / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_outlasts_the_time_that_a_job_names() {
        let lease = |seconds| LeaseTime { seconds };
        assert_eq!(lease(300).renew_ms(), 15_000);
        assert_eq!(lease(300).wire_ms(), 350_000);
        assert_eq!(lease(300).lost_ms(), 360_500);
        assert_eq!(LeaseTime::SHORTEST.renew_ms(), 1_000);
        assert_eq!(LeaseTime::SHORTEST.wire_ms(), 37_000);
        assert_eq!(LeaseTime::SHORTEST.lost_ms(), 38_110);
        let longest = lease(muster_model::job::FAILOVER_S_MAX);
        assert!(longest.lost_ms() > longest.wire_ms());
    }
}
