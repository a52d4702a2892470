//! The run leases of this node: asks for their renewal, and tells tasks until when they may run.
//!
//! Each task's muster-init ends it by itself when nobody renews; the agent's death changes nothing.

use std::time::Duration;

use muster_control::lease::{Authority, Output, Request};
use muster_model::time::Time;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::NodeLoop;
use crate::clock;

/// Answers that may wait.
const ANSWERS_MAX: usize = 64;

/// The answers to requests for renewal.
#[derive(Debug)]
pub(super) struct Renewals {
    answers: mpsc::Sender<(Request, bool)>,
    answered: mpsc::Receiver<(Request, bool)>,
}

impl Renewals {
    pub(super) fn new() -> Self {
        let (answers, answered) = mpsc::channel(ANSWERS_MAX);
        Self { answers, answered }
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Option<(Request, bool)> {
        self.answered.recv().await
    }
}

impl NodeLoop {
    /// Does what is due by the leases.
    pub(super) fn see_to_leases(&self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Ask(request) => self.ask_for_renewal(request),
                Output::Extend { uid, ends } => self.executor.renew(&uid, since_boot(ends)),
                Output::End { uid } => {
                    tracing::warn!(%uid, "nobody has renewed a task's run lease: it is ended");
                    self.executor.end_lease(uid);
                }
            }
        }
    }

    /// The answer is waited for beside the loop: everything else goes on meanwhile.
    fn ask_for_renewal(&self, request: Request) {
        let (vc, node) = (self.vc.clone(), self.id.clone());
        let answers = self.renewals.answers.clone();
        tokio::spawn(async move {
            let renewed = match request.of {
                Authority::Vc => vc.renew(&request.vc, node).await,
                Authority::Cluster => vc.renew_at_cluster(node).await,
            };
            if let Err(error) = &renewed {
                tracing::warn!(of = ?request.of, %error, "run leases are not renewed");
            }
            // The loop ends only with the agent.
            let _ = answers.send((request, renewed.is_ok())).await;
        });
    }
}

/// A moment of the clock since boot, as time since then.
pub(super) const fn since_boot(at: Time) -> Duration {
    Duration::from_micros(at.0)
}

/// The same, as tokio's timers count.
pub(super) fn instant(at: Time) -> Instant {
    Instant::now() + Duration::from_micros(at.micros_since(clock::since_boot()))
}
