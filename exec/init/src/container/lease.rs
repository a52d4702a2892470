//! The run lease: until when this task may run, by the machine's clock since boot.
//!
//! That clock counts while the machine sleeps, and a timer on it fires as soon as it wakes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{self, clock_gettime};

use crate::message;

/// What survives the grace is killed so long before the lease is over, that it is gone by then.
const KILL_AHEAD: Duration = Duration::from_secs(1);

/// What is due by the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseDue {
    /// The task is to end within this time.
    Stop(Duration),
    /// What is left is to be killed.
    Kill,
}

/// The lease of this task.
#[derive(Debug)]
pub(super) struct TaskLease {
    timer: TimerFd,
    granted: Option<Granted>,
    /// The task was told to end. Nothing renews the lease any more.
    over: bool,
}

#[derive(Clone, Copy, Debug)]
struct Granted {
    /// Since boot.
    ends: Duration,
    grace: Duration,
}

impl Granted {
    const fn last_call(self) -> Duration {
        self.ends.saturating_sub(self.grace)
    }

    const fn kill_at(self) -> Duration {
        self.ends.saturating_sub(KILL_AHEAD)
    }
}

impl TaskLease {
    /// No lease yet.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Self {
            timer: TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?,
            granted: None,
            over: false,
        })
    }

    /// Becomes readable when something is due.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    /// Takes a renewal, unless the lease is over or lasts longer already.
    pub(super) fn renew(&mut self, renewal: &message::LeaseMessage) {
        let granted = Granted {
            ends: Duration::from_millis(renewal.ends_ms),
            grace: Duration::from_millis(renewal.grace_ms),
        };
        let longer = self.granted.is_none_or(|before| before.ends < granted.ends);
        if !self.over && longer {
            self.granted = Some(granted);
            self.wake_at(granted.last_call());
        }
    }

    /// What is due now. `Stop` is said once, `Kill` again and again.
    pub(super) fn due(&mut self) -> Option<LeaseDue> {
        self.due_at(since_boot())
    }

    fn due_at(&mut self, now: Duration) -> Option<LeaseDue> {
        let granted = self.granted?;
        if !self.over && now >= granted.last_call() {
            self.over = true;
            self.wake_at(granted.kill_at());
            return Some(LeaseDue::Stop(granted.kill_at().saturating_sub(now)));
        }
        (self.over && now >= granted.kill_at()).then(|| {
            self.wake_at(now + KILL_AHEAD);
            LeaseDue::Kill
        })
    }

    /// Setting it to nothing would disarm it.
    fn wake_at(&self, at: Duration) {
        let at = Expiration::OneShot(TimeSpec::from_duration(at.max(Duration::from_nanos(1))));
        // The arguments are right, and a timer needs nothing that could be missing.
        let _ = self.timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME);
    }
}

/// Of a clock that cannot be read nothing can be told: every lease is over then.
fn since_boot() -> Duration {
    clock_gettime(time::ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX, Duration::from)
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, poll};

    use super::*;

    fn renewal(ends: Duration) -> message::LeaseMessage {
        message::LeaseMessage {
            ends_ms: u64::try_from(ends.as_millis()).unwrap(),
            grace_ms: 20_000,
        }
    }

    fn lease(ends_s: u64) -> TaskLease {
        let mut lease = TaskLease::new().unwrap();
        lease.renew(&renewal(Duration::from_secs(ends_s)));
        lease
    }

    fn due(lease: &mut TaskLease, at_s: u64) -> Option<LeaseDue> {
        lease.due_at(Duration::from_secs(at_s))
    }

    #[test]
    fn the_task_is_told_once_and_killed_before_the_end() {
        let lease = &mut lease(100);
        assert_eq!(due(lease, 79), None);
        assert_eq!(
            due(lease, 81),
            Some(LeaseDue::Stop(Duration::from_secs(18)))
        );
        assert_eq!(due(lease, 98), None);
        assert_eq!(due(lease, 99), Some(LeaseDue::Kill));
        assert_eq!(due(lease, 101), Some(LeaseDue::Kill), "again");
    }

    #[test]
    fn a_lease_is_renewed_until_it_is_over_and_never_shortened() {
        let lease = &mut lease(100);
        lease.renew(&renewal(Duration::from_secs(200)));
        lease.renew(&renewal(Duration::from_secs(150)));
        assert_eq!(due(lease, 179), None);
        assert!(due(lease, 180).is_some());
        lease.renew(&renewal(Duration::from_secs(900)));
        assert_eq!(due(lease, 199), Some(LeaseDue::Kill));
    }

    #[test]
    fn who_slept_through_it_is_told_to_end_at_once() {
        let lease = &mut lease(100);
        assert_eq!(due(lease, 5_000), Some(LeaseDue::Stop(Duration::ZERO)));
        assert_eq!(due(lease, 5_000), Some(LeaseDue::Kill));
    }

    #[test]
    fn the_timer_fires_when_something_is_due() {
        let mut lease = TaskLease::new().unwrap();
        assert_eq!(lease.due(), None);
        let soon = since_boot() + Duration::from_millis(20_100);
        lease.renew(&renewal(soon));
        let mut fds = [PollFd::new(lease.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut fds, 0_u16).unwrap(), 0);
        assert_eq!(poll(&mut fds, 10_000_u16).unwrap(), 1);
        assert!(matches!(lease.due(), Some(LeaseDue::Stop(_))));
    }
}
