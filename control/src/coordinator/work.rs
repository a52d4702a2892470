//! What a leader is doing about one gang. Lost with the leadership, and made again from the
//! state and reports.

use std::collections::BTreeMap;

use muster_model::exit::Verdict;
use muster_model::id::{AttemptUid, NodeId};
use muster_model::launch::Placement;
use muster_model::time::Time;

use crate::few::Few;
use crate::gang::Run;
use crate::order::{Ask, Member, Ports, Refusal, Reply, Standing};

/// A gang's run in the hands of its leader.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) run: Run,
    pub(super) links: Few<NodeId, Link>,
    pub(super) reserving: Option<Box<Reserving>>,
    pub(super) proposed: Few<Proposal>,
    /// Whether members of it need other places.
    pub(super) mending: Mending,
    /// Members that their nodes have no place for any more.
    pub(super) gone: Few<AttemptUid>,
    /// Nodes where a member of it could not be launched.
    pub(super) shunned: Few<NodeId>,
    /// Since when this leader has it launched.
    pub(super) launching_since: Option<Time>,
    /// Since when a task has been waiting for the rest.
    pub(super) ready_since: Option<Time>,
    /// Plans that nodes refused in a row.
    pub(super) refused: u32,
    /// Not to be planned again before.
    pub(super) retry_at: Time,
    pub(super) wake: Option<Time>,
}

/// A plan that is being reserved.
#[derive(Clone, Debug)]
pub(super) struct Reserving {
    /// Every task in the gang's order; ports come with the grants, but for who keeps its place.
    pub(super) members: Vec<Placement>,
    /// Who had another place in the round before, and why it has not any more; empty in the first.
    pub(super) instead: Option<Instead>,
    pub(super) asks: BTreeMap<NodeId, Vec<Ask>>,
    /// Tasks of other virtual clusters that would have to give way.
    pub(super) victims: BTreeMap<NodeId, Vec<AttemptUid>>,
    pub(super) since: Time,
}

/// Whether other places are looked for, for members that cannot start where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mending {
    Not,
    Since(Time),
    /// There are none: the round is void.
    GivenUp,
}

/// Members that are to have other places than in the round before.
#[derive(Clone, Debug)]
pub(super) struct Instead {
    /// Where they were placed then.
    pub(super) left: Vec<(NodeId, Member)>,
    /// Why they cannot stay there, a sentence part.
    pub(super) reason: String,
}

/// What was proposed for the run and is not to be proposed again in this term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Proposal {
    Placed,
    Go,
    Void,
    Stopping,
    Ended(AttemptUid),
}

/// The kinds of orders that a gang's phase can call for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Reserve,
    Launch,
    Go,
    Stop,
}

/// The newest order to one node about the gang, and its answer.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) kind: Kind,
    pub(super) seq: u64,
    tries: u32,
    sent_at: Time,
    /// Since when an answer is waited for.
    asked_at: Time,
    pub(super) answered: bool,
    /// The node let an order wait for too long, and has said nothing since.
    is_silent: bool,
    pub(super) refused: Option<Refusal>,
    pub(super) granted: Few<AttemptUid, Ports>,
    pub(super) standing: Few<Member, Standing>,
}

impl Work {
    pub(super) fn new(run: Run) -> Self {
        Self {
            run,
            links: Few::default(),
            reserving: None,
            proposed: Few::default(),
            mending: Mending::Not,
            gone: Few::default(),
            shunned: Few::default(),
            launching_since: None,
            ready_since: None,
            refused: 0,
            retry_at: Time::default(),
            wake: None,
        }
    }

    /// By when the first of the answers must have come that are waited for.
    pub(super) fn answers_by(&self, patience_ms: u64) -> Option<Time> {
        let links = self.links.values();
        links.filter_map(|link| link.answers_by(patience_ms)).min()
    }

    /// Where a task stands that has this place.
    pub(super) fn standing(&self, place: &Placement) -> Option<&Standing> {
        self.links.get(&place.node)?.standing_of(&place.uid)
    }
}

impl Link {
    pub(super) fn new(kind: Kind, now: Time) -> Self {
        Self {
            kind,
            seq: 0,
            tries: 0,
            sent_at: Time::default(),
            asked_at: now,
            answered: false,
            is_silent: false,
            refused: None,
            granted: Few::default(),
            standing: Few::default(),
        }
    }

    fn standing_of(&self, uid: &AttemptUid) -> Option<&Standing> {
        let mut standings = self.standing.iter();
        standings.find_map(|(member, standing)| (member.uid == *uid).then_some(standing))
    }

    /// How a task ended there, if it did.
    pub(super) fn end_of(&self, uid: &AttemptUid) -> Option<&Verdict> {
        match self.standing_of(uid)? {
            Standing::Ended(verdict) => Some(verdict),
            _ => None,
        }
    }

    /// Whether a task there is not ready yet: nothing was heard of any since the order, or that one starts.
    pub(super) fn is_behind(&self) -> bool {
        let mut standings = self.standing.values();
        self.standing.is_empty() || standings.any(|standing| *standing == Standing::Starting)
    }

    /// Whether the node does not have what was asked of it, or not any more.
    pub(super) fn is_refused(&self) -> bool {
        let mut standings = self.standing.values();
        self.refused.is_some() || standings.any(|standing| *standing == Standing::Gone)
    }

    /// When an order of this kind is to be sent; none if it was answered.
    pub(super) fn due(&self, kind: Kind, resend_ms: u64, resend_max_ms: u64) -> Option<Time> {
        if self.seq == 0 || self.kind != kind {
            return Some(Time::default());
        }
        let doublings = self.tries.saturating_sub(1).min(16);
        let pause = resend_ms.saturating_mul(1 << doublings).min(resend_max_ms);
        (!self.answered).then(|| self.sent_at.plus_millis(pause))
    }

    /// Notes that an order was sent. Only ends stay true whatever comes; the rest is to be
    /// answered anew.
    pub(super) fn sent(&mut self, now: Time, kind: Kind, seq: u64) {
        self.tries = if self.kind == kind { self.tries + 1 } else { 1 };
        if self.tries == 1 {
            self.asked_at = now;
            self.is_silent = false;
        }
        self.kind = kind;
        self.seq = seq;
        self.sent_at = now;
        self.answered = false;
        self.refused = None;
        if kind != Kind::Reserve {
            // It stands in the placement by now.
            self.granted.clear();
        }
        self.standing
            .retain(|_, standing| matches!(standing, Standing::Ended(_)));
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
    pub(super) fn take(&mut self, reply: Reply) {
        match reply {
            Reply::Granted(grants) => {
                self.answered = true;
                let grants = grants.into_iter();
                self.granted = grants.map(|(m, ports)| (m.uid, ports)).collect();
            }
            Reply::Standing(list) => {
                // What was granted is still to be heard where only that a claim came free is said.
                self.answered |= self.kind != Kind::Reserve || !self.granted.is_empty();
                for (member, standing) in &list {
                    self.stands(member, standing);
                }
            }
            // Sent again in due time, to the life that the next report names.
            Reply::Refused(
                Refusal::OtherLife | Refusal::Unfenced | Refusal::Unsettled | Refusal::Fenced(_),
            ) => {}
            Reply::Refused(refusal) => {
                self.answered = true;
                self.refused = Some(refusal);
            }
            Reply::Settled => {}
        }
    }

    /// Takes where a task stands; answers to one order may come out of turn, so a task never
    /// goes back.
    pub(super) fn stands(&mut self, member: &Member, standing: &Standing) {
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
fn rank(standing: &Standing) -> u8 {
    match standing {
        Standing::Reserved => 1,
        Standing::Starting => 2,
        Standing::Absent => 3,
        Standing::Ready => 4,
        Standing::Running => 5,
        Standing::Stopping => 6,
        Standing::Evicted => 7,
        Standing::Gone => 8,
        Standing::Ended(_) => 9,
    }
}
