//! What is between a leader and one node about a run: the newest order, and what the node says of it.

use muster_model::exit::Verdict;
use muster_model::id::AttemptUid;
use muster_model::time::Time;

use crate::order::{OrderOutcome, OrderRefusal, RunMember, TaskPorts, TaskStanding};
use crate::small_map::SmallMap;

/// The kinds of orders that a gang's phase can call for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderKind {
    Reserve,
    Launch,
    Go,
    Stop,
}

/// The newest order to one node about the gang, and its answer.
#[derive(Clone, Debug)]
pub(super) struct GangLink {
    pub(super) kind: OrderKind,
    pub(super) seq: u64,
    tries: u32,
    sent_at: Time,
    /// Since when an answer is waited for.
    asked_at: Time,
    pub(super) answered: bool,
    /// The node let an order wait for too long, and has said nothing since.
    is_silent: bool,
    pub(super) refused: Option<OrderRefusal>,
    pub(super) granted: SmallMap<AttemptUid, TaskPorts>,
    pub(super) standing: SmallMap<RunMember, TaskStanding>,
}

impl GangLink {
    pub(super) fn new(kind: OrderKind, now: Time) -> Self {
        Self {
            kind,
            seq: 0,
            tries: 0,
            sent_at: Time::default(),
            asked_at: now,
            answered: false,
            is_silent: false,
            refused: None,
            granted: SmallMap::default(),
            standing: SmallMap::default(),
        }
    }

    /// Where the task of an attempt stands there.
    pub(super) fn standing_of(&self, uid: &AttemptUid) -> Option<&TaskStanding> {
        let mut standings = self.standing.iter();
        standings.find_map(|(member, standing)| (member.uid == *uid).then_some(standing))
    }

    /// How a task ended there, if it did.
    pub(super) fn end_of(&self, uid: &AttemptUid) -> Option<&Verdict> {
        match self.standing_of(uid)? {
            TaskStanding::Ended(verdict) => Some(verdict),
            _ => None,
        }
    }

    /// Whether a task there is not ready yet: nothing was heard of any since the order, or that one starts.
    pub(super) fn is_behind(&self) -> bool {
        let mut standings = self.standing.values();
        self.standing.is_empty() || standings.any(|standing| *standing == TaskStanding::Starting)
    }

    /// Whether the node does not have what was asked of it, or not any more.
    pub(super) fn is_refused(&self) -> bool {
        let mut standings = self.standing.values();
        self.refused.is_some() || standings.any(|standing| *standing == TaskStanding::Gone)
    }

    /// When an order of this kind is to be sent; none if it was answered.
    pub(super) fn due(&self, kind: OrderKind, resend_ms: u64, resend_max_ms: u64) -> Option<Time> {
        if self.seq == 0 || self.kind != kind {
            return Some(Time::default());
        }
        let doublings = self.tries.saturating_sub(1).min(16);
        let pause = resend_ms.saturating_mul(1 << doublings).min(resend_max_ms);
        (!self.answered).then(|| self.sent_at.plus_millis(pause))
    }

    /// Notes that an order was sent. Only ends stay true whatever comes; the rest is to be
    /// answered anew.
    pub(super) fn sent(&mut self, now: Time, kind: OrderKind, seq: u64) {
        self.tries = if self.kind == kind { self.tries + 1 } else { 1 };
        if self.tries == 1 {
            self.asked_at = now;
            self.is_silent = false;
        }
        debug_assert!(seq > 0, "what was not sent is not waited for");
        self.kind = kind;
        self.seq = seq;
        self.sent_at = now;
        self.answered = false;
        self.refused = None;
        if kind != OrderKind::Reserve {
            // It stands in the placement by now.
            self.granted.clear();
        }
        self.standing
            .retain(|_, standing| matches!(standing, TaskStanding::Ended(_)));
    }

    /// By when an answer must have come, if one is waited for.
    pub(super) fn answers_by(&self, patience_ms: u64) -> Option<Time> {
        let is_waited_for = !self.answered && !self.is_silent;
        is_waited_for.then(|| self.asked_at.plus_millis(patience_ms))
    }

    /// Whether the node has let an order wait for too long, and has not said anything since.
    pub(super) const fn is_silent(&self) -> bool {
        self.is_silent && !self.answered
    }

    pub(super) const fn set_silent(&mut self) {
        self.is_silent = true;
    }

    /// The node says something: it is given as long once more.
    pub(super) const fn heard(&mut self, now: Time) {
        if self.is_silent {
            self.is_silent = false;
            self.asked_at = now;
        }
    }

    /// Takes what the node says of the order.
    pub(super) fn take(&mut self, reply: OrderOutcome) {
        match reply {
            OrderOutcome::Granted(grants) => {
                self.answered = true;
                let grants = grants.into_iter();
                self.granted = grants.map(|(m, ports)| (m.uid, ports)).collect();
            }
            OrderOutcome::Standing(list) => {
                // What was granted is still to be heard where only that a claim came free is said.
                self.answered |= self.kind != OrderKind::Reserve || !self.granted.is_empty();
                for (member, standing) in &list {
                    self.stands(member, standing);
                }
            }
            // Sent again in due time, to the life that the next report names.
            OrderOutcome::Refused(
                OrderRefusal::OtherLife
                | OrderRefusal::Unfenced
                | OrderRefusal::Unsettled
                | OrderRefusal::Fenced(_),
            ) => {}
            OrderOutcome::Refused(refusal) => {
                self.answered = true;
                self.refused = Some(refusal);
            }
            OrderOutcome::Settled => {}
        }
    }

    /// Takes where a task stands; answers to one order may come out of turn, so a task never
    /// goes back.
    pub(super) fn stands(&mut self, member: &RunMember, standing: &TaskStanding) {
        let old = self.standing.get(member).map_or(0, rank);
        if rank(standing) >= old {
            self.standing.insert(member.clone(), standing.clone());
        }
    }

    /// The order must be sent again: the node lives anew, or has lost what it was told.
    pub(super) fn doubt(&mut self) {
        self.answered = false;
        self.tries = 0;
    }
}

/// How far along a task is. Nothing but a new order can take it back.
fn rank(standing: &TaskStanding) -> u8 {
    match standing {
        TaskStanding::Reserved => 1,
        TaskStanding::Starting => 2,
        TaskStanding::Absent => 3,
        TaskStanding::Ready => 4,
        TaskStanding::Running => 5,
        TaskStanding::OnHold(_) => 6,
        TaskStanding::Stopping => 7,
        TaskStanding::Evicted => 8,
        TaskStanding::Gone => 9,
        TaskStanding::Ended(_) => 10,
    }
}
