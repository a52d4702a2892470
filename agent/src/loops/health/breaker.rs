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
    turn: QuestionTurn,
    alarm: HeldBackAlarm,
}

/// When the breaker is to be asked.
#[derive(Debug)]
struct QuestionTurn {
    /// What was asked last; none before the first question.
    asked: Option<NodeQuarantines>,
    is_waiting: bool,
    /// Nothing is asked before this.
    not_before: Instant,
    /// The same is asked again then.
    again_at: Instant,
}

/// What the alarm that stands says of held back parts; none while none stands.
#[derive(Debug, Default)]
struct HeldBackAlarm(Option<Trouble>);

impl BreakerTalk {
    pub(crate) fn new(vc: VcHandle, alarms: Alarms) -> Self {
        let (answers, answered) = mpsc::channel(ANSWERS_MAX);
        Self {
            vc,
            alarms,
            answers,
            answered,
            turn: QuestionTurn::new(Instant::now()),
            alarm: HeldBackAlarm::default(),
        }
    }

    /// Asks, if what is quarantined is otherwise than at the last question, or if that was long ago.
    pub(super) fn ask(&mut self, question: NodeQuarantines) {
        if !self.turn.begin(Instant::now(), &question) {
            return;
        }
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
        self.turn.end(Instant::now(), reviewed.1.as_ref());
        Some(reviewed)
    }

    /// Raises the alarm when parts are held back, and clears it when none is.
    pub(super) fn tell(&mut self, held_back: usize) {
        if let Some(event) = self.alarm.changed(held_back) {
            self.alarms.note(clock::now(), &event);
        }
    }
}

impl QuestionTurn {
    const fn new(now: Instant) -> Self {
        Self {
            asked: None,
            is_waiting: false,
            not_before: now,
            again_at: now,
        }
    }

    /// Whether this is asked now. Then the answer is waited for.
    fn begin(&mut self, now: Instant, question: &NodeQuarantines) -> bool {
        let is_same = |asked: &NodeQuarantines| is_same(asked, question);
        let is_due = now >= self.again_at || !self.asked.as_ref().is_some_and(is_same);
        if self.is_waiting || now < self.not_before || !is_due {
            return false;
        }
        self.is_waiting = true;
        self.asked = Some(question.clone());
        true
    }

    /// The answer, if there is one.
    fn end(&mut self, now: Instant, review: Option<&BreakerReview>) {
        let is_decided = matches!(review, Some(BreakerReview::HeldBack(_)));
        let pause = match is_decided {
            true => Duration::from_secs(REVIEW_S),
            false => RETRY_PAUSE,
        };
        self.is_waiting = false;
        self.again_at = now + pause;
        if !is_decided {
            self.not_before = now + RETRY_PAUSE;
        }
    }
}

impl HeldBackAlarm {
    /// What is to be told if so many parts are held back now.
    fn changed(&mut self, held_back: usize) -> Option<MemberEvent> {
        match (self.0.take(), held_back) {
            (None, 0) => None,
            (None, parts) => {
                let trouble = Trouble::QuarantinesHeldBack { parts };
                self.0 = Some(trouble.clone());
                Some(MemberEvent::Raised(trouble))
            }
            (Some(trouble), 0) => Some(MemberEvent::Cleared {
                trouble,
                why: Clearing::Well,
            }),
            (Some(trouble), _) => {
                self.0 = Some(trouble);
                None
            }
        }
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

#[cfg(test)]
mod tests {
    use muster_control::breaker::QuarantinedPart;
    use muster_model::health::HealthSubject;

    use super::*;

    /// Quarantines of so many parts, admitted for so long.
    fn question(parts: u32, admitted_for_ms: Option<u64>) -> NodeQuarantines {
        let part = |number| QuarantinedPart {
            subject: HealthSubject::at(format!("0000:{number:02x}:00.0")),
            devices: 1,
            admitted_for_ms,
        };
        NodeQuarantines {
            devices: 8,
            parts: (0..parts).map(part).collect(),
        }
    }

    #[test]
    fn what_is_new_is_asked_at_once_and_the_same_again_after_a_while() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let decided = BreakerReview::HeldBack(Vec::new());
        let mut turn = QuestionTurn::new(start);
        assert!(turn.begin(at(0), &question(0, None)), "what it has");
        assert!(!turn.begin(at(60), &question(1, None)), "one at a time");
        turn.end(at(60), Some(&decided));
        assert!(turn.begin(at(60), &question(1, None)), "it is new");
        turn.end(at(61), Some(&decided));
        assert!(!turn.begin(at(90), &question(1, None)), "it is the same");
        assert!(
            !turn.begin(at(90), &question(1, Some(29_000))),
            "only older"
        );
        assert!(turn.begin(at(91), &question(1, Some(30_000))));
        turn.end(at(91), Some(&decided));
        let mut more = question(1, None);
        more.devices = 9;
        assert!(turn.begin(at(92), &more), "a device has come");
    }

    #[test]
    fn where_nobody_decides_it_is_asked_again_soon_and_not_at_once() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut turn = QuestionTurn::new(start);
        for (began, review) in [(0, None), (100, Some(BreakerReview::NotYet))] {
            assert!(turn.begin(at(began), &question(1, None)));
            turn.end(at(began + 1), review.as_ref());
            // Not even what is new.
            assert!(!turn.begin(at(began + 5), &question(2, None)));
            assert!(turn.begin(at(began + 6), &question(1, None)));
            turn.end(at(began + 6), Some(&BreakerReview::HeldBack(Vec::new())));
        }
    }

    #[test]
    fn the_alarm_stands_while_anything_is_held_back() {
        let mut alarm = HeldBackAlarm::default();
        let trouble = Trouble::QuarantinesHeldBack { parts: 2 };
        assert_eq!(alarm.changed(0), None);
        assert_eq!(alarm.changed(2), Some(MemberEvent::Raised(trouble.clone())));
        assert_eq!(alarm.changed(2), None);
        assert_eq!(alarm.changed(1), None);
        let why = Clearing::Well;
        assert_eq!(
            alarm.changed(0),
            Some(MemberEvent::Cleared { trouble, why })
        );
        assert_eq!(alarm.changed(0), None);
    }
}
