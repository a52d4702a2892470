//! The run leases of this node: asks for their renewal, and tells tasks until when they may run.
//!
//! Each task's muster-init ends it by itself when nobody renews; the agent's death changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use muster_consensus::NodeId;
use muster_control::lease::{LeaseAuthority, LeaseOutput, RenewalRequest};
use muster_model::time::Time;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::NodeLoop;
use crate::clock;
use crate::vc::VcError;

/// Answers that may wait.
const ANSWERS_MAX: usize = 64;

/// The answers to requests for renewal.
#[derive(Debug)]
pub(super) struct Renewals {
    answers: mpsc::Sender<(RenewalRequest, bool)>,
    answered: mpsc::Receiver<(RenewalRequest, bool)>,
}

impl Renewals {
    pub(super) fn new() -> Self {
        let (answers, answered) = mpsc::channel(ANSWERS_MAX);
        Self { answers, answered }
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Option<(RenewalRequest, bool)> {
        self.answered.recv().await
    }
}

impl NodeLoop {
    /// Does what is due by the leases. What goes to one leader at a time is one message.
    pub(super) fn see_to_leases(&self, outputs: Vec<LeaseOutput>) {
        let mut asked: BTreeMap<_, Vec<RenewalRequest>> = BTreeMap::new();
        for output in outputs {
            match output {
                LeaseOutput::Ask(request) => {
                    let leader = match request.of {
                        LeaseAuthority::Vc => self.node.leader(&request.vc),
                        LeaseAuthority::Cluster => None,
                    };
                    asked.entry((request.of, leader)).or_default().push(request);
                }
                LeaseOutput::Extend { uid, ends } => self.executor.renew(&uid, since_boot(ends)),
                LeaseOutput::End { uid } => {
                    tracing::warn!(%uid, "nobody has renewed a task's run lease: it is ended");
                    self.executor.end_lease(uid);
                }
            }
        }
        for ((of, leader), requests) in asked {
            self.ask_for_renewal(of, leader, requests);
        }
    }

    /// The answers are waited for beside the loop: everything else goes on meanwhile.
    fn ask_for_renewal(
        &self,
        of: LeaseAuthority,
        leader: Option<NodeId>,
        requests: Vec<RenewalRequest>,
    ) {
        let (vc, node) = (self.vc.clone(), self.id.clone());
        let answers = self.renewals.answers.clone();
        tokio::spawn(async move {
            if of == LeaseAuthority::Cluster {
                let renewed = vc.renew_at_cluster(node).await;
                for request in &requests {
                    tell(&answers, request, &renewed).await;
                }
                return;
            }
            let together = match leader {
                Some(leader) if requests.len() > 1 => {
                    let vcs = requests.iter().map(|request| &request.vc);
                    vc.renew_all(leader, vcs, &node).await
                }
                _ => BTreeSet::new(),
            };
            let each = requests.iter().map(async |request| {
                let renewed = match together.contains(&request.vc) {
                    true => Ok(()),
                    // It is the only one, or another member may lead it by now.
                    false => vc.renew(&request.vc, node.clone()).await,
                };
                tell(&answers, request, &renewed).await;
            });
            join_all(each).await;
        });
    }
}

/// Passes on how a request went.
async fn tell(
    answers: &mpsc::Sender<(RenewalRequest, bool)>,
    request: &RenewalRequest,
    renewed: &Result<(), VcError>,
) {
    if let Err(error) = renewed {
        tracing::warn!(of = ?request.of, vc = %request.vc, %error, "run leases are not renewed");
    }
    // The loop ends only with the agent.
    let _ = answers.send((request.clone(), renewed.is_ok())).await;
}

/// A moment of the clock since boot, as time since then.
pub(super) const fn since_boot(at: Time) -> Duration {
    Duration::from_micros(at.0)
}

/// The same, as tokio's timers count.
pub(super) fn instant(at: Time) -> Instant {
    Instant::now() + Duration::from_micros(at.micros_since(clock::since_boot()))
}
