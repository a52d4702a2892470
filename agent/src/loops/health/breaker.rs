//! Asks the leader of the cluster which quarantines of this node its breaker holds back. Nothing
//! waits for the answer: until one comes, what is quarantined stays so.

use std::time::Duration;

use muster_control::breaker::{BreakerReview, NodeQuarantines, REVIEW_S};
use muster_control::member::MemberEvent;
use muster_control::member::alarms::{Clearing, Trouble};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::alarms::Alarms;
use crate::clock;
use crate::vc::VcHandle;

/// How long after a question that got no answer the next one comes.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// One question is on its way at most.
const ANSWERS_MAX: usize = 1;

/// What was asked, and the answer if there was one.
pub(super) type Reviewed = (NodeQuarantines, Option<BreakerReview>);

/// Asks the cluster's breaker about the quarantines of this node, and keeps the state of that.
#[derive(Debug)]
pub(crate) struct BreakerTalk {
    vc: VcHandle,
    alarms: Alarms,
    answers: mpsc::Sender<Reviewed>,
    answered: mpsc::Receiver<Reviewed>,
    /// What was asked last; none before the first question.
    asked: Option<NodeQuarantines>,
    is_waiting: bool,
    /// Nothing is asked before this.
    not_before: Instant,
    /// The same is asked again then.
    again_at: Instant,
    /// What the alarm that stands says of held back parts.
    raised: Option<Trouble>,
}

impl BreakerTalk {
    pub(crate) fn new(vc: VcHandle, alarms: Alarms) -> Self {
        let (answers, answered) = mpsc::channel(ANSWERS_MAX);
        let now = Instant::now();
        Self {
            vc,
            alarms,
            answers,
            answered,
            asked: None,
            is_waiting: false,
            not_before: now,
            again_at: now,
            raised: None,
        }
    }

    /// Asks, if what is quarantined is otherwise than at the last question, or if that was long ago.
    pub(super) fn ask(&mut self, question: NodeQuarantines) {
        let now = Instant::now();
        let is_same = |asked: &NodeQuarantines| is_same(asked, &question);
        let is_due = now >= self.again_at || !self.asked.as_ref().is_some_and(is_same);
        if self.is_waiting || now < self.not_before || !is_due {
            return;
        }
        self.is_waiting = true;
        self.asked = Some(question.clone());
        let (vc, answers) = (self.vc.clone(), self.answers.clone());
        tokio::spawn(async move {
            let review = vc.review_quarantines(question.clone()).await;
            if let Err(error) = &review {
                tracing::debug!(%error, "the breaker of quarantines does not answer");
            }
            // The loop ends only with the agent.
            let _ = answers.send((question, review.ok())).await;
        });
    }

    /// The next answer. May be dropped while it waits.
    pub(super) async fn reviewed(&mut self) -> Option<Reviewed> {
        let reviewed = self.answered.recv().await?;
        let now = Instant::now();
        let is_decided = matches!(reviewed.1, Some(BreakerReview::HeldBack(_)));
        let pause = match is_decided {
            true => Duration::from_secs(REVIEW_S),
            false => RETRY_PAUSE,
        };
        self.is_waiting = false;
        self.again_at = now + pause;
        if !is_decided {
            self.not_before = now + RETRY_PAUSE;
        }
        Some(reviewed)
    }

    /// Raises the alarm when parts are held back, and clears it when none is.
    pub(super) fn tell(&mut self, held_back: usize) {
        let event = match (self.raised.take(), held_back) {
            (None, 0) => return,
            (None, parts) => {
                let trouble = Trouble::QuarantinesHeldBack { parts };
                self.raised = Some(trouble.clone());
                MemberEvent::Raised(trouble)
            }
            (Some(trouble), 0) => MemberEvent::Cleared {
                trouble,
                why: Clearing::Well,
            },
            (Some(trouble), _) => {
                self.raised = Some(trouble);
                return;
            }
        };
        self.alarms.note(clock::now(), &event);
    }
}

/// Whether both ask for the same, whenever.
fn is_same(one: &NodeQuarantines, other: &NodeQuarantines) -> bool {
    let parts = |told: &NodeQuarantines| {
        let parts = told.parts.iter();
        let parts = parts.map(|part| (part.subject.clone(), part.devices));
        parts.collect::<Vec<_>>()
    };
    one.devices == other.devices && parts(one) == parts(other)
}
