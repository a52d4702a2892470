//! The way to tell a runner.

use std::time::Duration;

use muster_model::exit::Cause;
use muster_model::id::AttemptUid;
use tokio::sync::watch;

/// What is wanted of a task. Only ever grows, so that saying a thing twice, or late, is harmless.
#[derive(Clone, Debug, Default)]
pub(super) struct WantedState {
    pub(super) go: bool,
    pub(super) stop: Option<AskedStop>,
    /// Until when it may run, and its grace before that.
    pub(super) lease: Option<RenewedLease>,
}

/// A renewed run lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RenewedLease {
    /// Since the machine's boot.
    pub(super) ends: Duration,
    pub(super) grace: Duration,
}

/// A stop that was asked.
#[derive(Clone, Debug)]
pub(super) struct AskedStop {
    pub(super) cause: Cause,
    pub(super) message: String,
    pub(super) grace: Duration,
}

/// Tells one task's runner what to do. Cheap to clone; the runner lives on without it.
#[derive(Clone, Debug)]
pub struct Handle {
    uid: AttemptUid,
    wanted: watch::Sender<WantedState>,
}

impl Handle {
    pub(super) fn new(uid: AttemptUid) -> (Self, watch::Receiver<WantedState>) {
        let (wanted, receiver) = watch::channel(WantedState::default());
        (Self { uid, wanted }, receiver)
    }

    /// The task.
    pub const fn uid(&self) -> &AttemptUid {
        &self.uid
    }

    /// Lets its commands begin, now or as soon as it is ready. May be said again.
    pub fn go(&self) {
        self.wanted.send_modify(|wanted| wanted.go = true);
    }

    /// Lets it run until `ends`, a time since the machine's boot; it is told to end `grace` before.
    /// Never shortens what it was let before.
    pub fn renew(&self, ends: Duration, grace: Duration) {
        let lease = RenewedLease { ends, grace };
        self.wanted.send_if_modified(|wanted| {
            let longer = wanted.lease.is_none_or(|before| before.ends < ends);
            if longer {
                wanted.lease = Some(lease);
            }
            longer
        });
    }

    /// Ends it: SIGTERM now, SIGKILL after `grace`. The first stop's cause is kept; a later
    /// stop may shorten the grace.
    pub fn stop(&self, cause: Cause, grace: Duration) {
        self.stop_because(cause, "", grace);
    }

    /// As [`Handle::stop`], with a text that says more than the cause.
    pub fn stop_because(&self, cause: Cause, message: &str, grace: Duration) {
        self.wanted.send_modify(|wanted| match &mut wanted.stop {
            Some(stop) => stop.grace = stop.grace.min(grace),
            none => {
                let message = message.to_owned();
                *none = Some(AskedStop {
                    cause,
                    message,
                    grace,
                });
            }
        });
    }
}
