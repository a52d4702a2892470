//! The search for the member that leads a group, for one request.

use muster_consensus::GroupId;
use muster_gossip::Mesh;
use muster_gossip::member::MemberId;
use muster_model::time::Time;

use super::{AnyRequest, RequestFailure};
use crate::member::routing;

/// How long a leader is looked for, ms. An election takes less than a second.
pub const PATIENCE_MS: u64 = 8_000;
/// How long one member may take to answer a request that can be sent to another one, ms.
pub const CANDIDATE_MS: u64 = 3_000;
/// Pause before the next member is asked, ms; and between two looks at whether the one that is asked leads
/// still.
pub const AGAIN_MS: u64 = 100;

/// What is known on a node of the leader of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clues {
    /// The leader, as far as the copy on this node knows.
    pub here: Option<MemberId>,
    /// Members that say they have a copy, the likeliest leader first.
    pub copies: Vec<MemberId>,
    /// The first of them, if it says that it leads.
    pub said: Option<MemberId>,
}

impl Clues {
    /// As the mesh tells. `here`: the leader, as far as the copy on this node knows.
    pub fn of(mesh: &Mesh, group: GroupId, here: Option<MemberId>) -> Self {
        let copies = routing::copies(mesh, group);
        let leads = copies.first().filter(|(_, copy)| copy.leads > 0);
        Self {
            here,
            said: leads.map(|(id, _)| *id),
            copies: copies.iter().map(|(id, _)| *id).collect(),
        }
    }

    /// Where this node is the leader, as far as it knows: nobody else is asked first.
    pub const fn led_by(me: MemberId) -> Self {
        Self {
            here: Some(me),
            copies: Vec::new(),
            said: None,
        }
    }

    /// The leader, by the copy on this node or else by its own word.
    fn leader(&self) -> Option<MemberId> {
        self.here.or(self.said)
    }
}

/// What matters of a request for the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchTraits {
    /// As [`Request::may_repeat`](super::Request::may_repeat).
    pub may_repeat: bool,
    /// As [`Request::changes`](super::Request::changes).
    pub changes: bool,
    /// As [`Request::is_slow`](super::Request::is_slow).
    pub is_slow: bool,
}

impl SearchTraits {
    /// Of this request.
    pub fn of(request: &AnyRequest) -> Self {
        Self {
            may_repeat: request.may_repeat(),
            changes: request.changes(),
            is_slow: request.is_slow(),
        }
    }

    /// Whether another member may be asked before one has answered.
    pub const fn may_be_given_up(&self) -> bool {
        self.may_repeat && !self.is_slow
    }
}

/// The search for the leader of a group. Ask the member that [`next`](Self::next) names, give its answer to
/// [`answered`](Self::answered), and begin again [`AGAIN_MS`] later unless that ends the search.
#[derive(Clone, Debug)]
pub struct LeaderSearch {
    wanted: SearchTraits,
    until: Time,
    /// Members that were asked in this round.
    tried: Vec<MemberId>,
    /// The leader, by the word of the member that was asked last.
    named: Option<MemberId>,
    /// The member that is asked, if any.
    asked: Option<MemberId>,
    /// The leader as it was known when that was asked.
    before: Option<MemberId>,
    /// Why nobody has carried it out so far.
    last: String,
    /// Whether a member that was asked may have carried it out.
    is_unsure: bool,
}

impl LeaderSearch {
    /// A search that ends at this time.
    pub const fn new(wanted: SearchTraits, until: Time) -> Self {
        Self {
            wanted,
            until,
            tried: Vec::new(),
            named: None,
            asked: None,
            before: None,
            last: String::new(),
            is_unsure: false,
        }
    }

    /// The member to ask now; none if nobody is known that was not tried.
    pub fn next(&mut self, clues: &Clues) -> Option<MemberId> {
        let named = self.named.take();
        let untried = |member: &MemberId| !self.tried.contains(member);
        let known = clues.here.iter().chain(&clues.copies).copied();
        self.asked = named.or_else(|| known.clone().find(untried));
        self.before = clues.leader();
        self.asked
    }

    /// Whether a member was asked before.
    pub const fn is_begun(&self) -> bool {
        self.asked.is_some() || self.named.is_some() || !self.tried.is_empty()
    }

    /// The member that is asked, if any.
    pub const fn asked(&self) -> Option<MemberId> {
        self.asked
    }

    /// Whether another member than the one that is asked has begun to lead since: a machine that lost power
    /// refuses nothing, and the others have a new leader long before it counts as silent. Old news does not
    /// count, for the member may be asked because of newer ones.
    pub fn is_overtaken(&self, clues: &Clues) -> bool {
        let now = clues.leader();
        self.wanted.may_be_given_up()
            && now != self.before
            && now.is_some_and(|now| Some(now) != self.asked)
    }

    /// The end of the search, if this answer is one. Where [`next`](Self::next) named nobody, the answer is
    /// [`RequestFailure::unavailable`]. `is_former`: another group has taken the place of this one. `whose`: what the
    /// group decides for, to be named to people.
    pub fn answered<T>(
        &mut self,
        now: Time,
        answer: Result<T, RequestFailure>,
        (is_former, whose): (bool, &str),
    ) -> Option<Result<T, RequestFailure>> {
        let asked = self.asked.take();
        match answer {
            Err(RequestFailure::NotLed {
                leader: Some(member),
                ..
            }) => self.named = Some(member).filter(|named| Some(*named) != asked),
            // What one has answered tells more than that nobody is left to ask.
            Err(RequestFailure::NotLed { why, .. }) if asked.is_some() || self.last.is_empty() => {
                self.last = why;
            }
            Err(RequestFailure::NotLed { .. }) => {}
            Err(RequestFailure::Unknown(why)) if self.wanted.may_repeat => {
                self.is_unsure |= self.wanted.changes;
                self.last = why;
            }
            answer => return Some(answer),
        }
        if now >= self.until || is_former {
            return Some(Err(self.end(whose)));
        }
        match asked {
            Some(member) if self.named.is_none() => self.tried.push(member),
            Some(_) => {}
            None => self.tried.clear(),
        }
        None
    }

    fn end(&self, whose: &str) -> RequestFailure {
        let last = &self.last;
        if self.is_unsure {
            return unknown_outcome(last);
        }
        RequestFailure::unavailable(format!(
            "nobody decides this now, try again when enough of the voters of {whose} can be reached: \
             {last}; if they are lost for good, see `muster cluster recover --help`"
        ))
    }
}

/// It is not known whether a request took effect, and the request must not be sent again.
pub fn unknown_outcome(why: &str) -> RequestFailure {
    RequestFailure::unknown(format!(
        "it is not known whether this took effect, look before you try again: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: MemberId = MemberId(1);
    const B: MemberId = MemberId(2);
    const C: MemberId = MemberId(3);
    const SUBMIT: SearchTraits = SearchTraits {
        may_repeat: true,
        changes: true,
        is_slow: false,
    };
    const NAMES: (bool, &str) = (false, "the cluster");

    fn clues(here: Option<MemberId>, said: Option<MemberId>, copies: &[MemberId]) -> Clues {
        Clues {
            here,
            said,
            copies: copies.to_vec(),
        }
    }

    fn search(wanted: SearchTraits) -> LeaderSearch {
        LeaderSearch::new(wanted, Time::from_millis(PATIENCE_MS))
    }

    fn refused(
        search: &mut LeaderSearch,
        failure: RequestFailure,
    ) -> Option<Result<(), RequestFailure>> {
        search.answered(Time::default(), Err(failure), NAMES)
    }

    #[test]
    fn members_with_copies_are_asked_one_after_the_other_and_then_all_again() {
        let mut search = search(SUBMIT);
        let known = clues(Some(B), None, &[A, B, C]);
        let mut asked = Vec::new();
        for _ in 0..5 {
            asked.push(search.next(&known));
            assert_eq!(
                refused(&mut search, RequestFailure::unavailable("no leader")),
                None
            );
        }
        assert_eq!(asked, [Some(B), Some(A), Some(C), None, Some(B)]);
    }

    #[test]
    fn the_leader_that_a_member_names_is_asked_next_but_not_itself_again() {
        let mut search = search(SUBMIT);
        let known = clues(None, None, &[A, B]);
        assert_eq!(search.next(&known), Some(A));
        refused(&mut search, RequestFailure::led_by(C));
        assert_eq!(search.next(&known), Some(C));
        refused(&mut search, RequestFailure::led_by(C));
        assert_eq!(search.next(&known), Some(A), "it was not found wanting");
    }

    #[test]
    fn the_first_answer_ends_it_and_so_does_a_refusal() {
        let mut search = search(SUBMIT);
        search.next(&clues(Some(A), None, &[]));
        assert_eq!(search.answered(Time(0), Ok(7), NAMES), Some(Ok(7)));
        search.next(&clues(Some(A), None, &[]));
        let no = RequestFailure::invalid("no");
        assert_eq!(refused(&mut search, no.clone()), Some(Err(no)));
    }

    #[test]
    fn what_may_have_taken_effect_is_never_told_to_have_failed() {
        let over = Time::from_millis(PATIENCE_MS);
        let ends = |wanted| {
            let mut search = search(wanted);
            search.next(&clues(Some(A), None, &[]));
            refused(&mut search, RequestFailure::unknown("it does not answer"));
            search.next(&clues(Some(A), None, &[]));
            search.answered::<()>(over, Err(RequestFailure::unavailable("no leader")), NAMES)
        };
        assert!(matches!(
            ends(SUBMIT),
            Some(Err(RequestFailure::Unknown(_)))
        ));
        let look = SearchTraits {
            changes: false,
            ..SUBMIT
        };
        assert!(matches!(
            ends(look),
            Some(Err(RequestFailure::NotLed { .. }))
        ));
    }

    #[test]
    fn what_must_not_be_sent_twice_ends_where_its_outcome_is_unknown() {
        let mut search = search(SearchTraits {
            may_repeat: false,
            ..SUBMIT
        });
        search.next(&clues(Some(A), None, &[]));
        let unknown = RequestFailure::unknown("it does not answer");
        assert_eq!(refused(&mut search, unknown.clone()), Some(Err(unknown)));
    }

    #[test]
    fn a_group_that_another_one_succeeds_is_looked_for_no_longer() {
        let mut search = search(SUBMIT);
        search.next(&clues(Some(A), None, &[]));
        let gone = Err::<(), _>(RequestFailure::unavailable("no copy"));
        let end = search.answered(Time(0), gone, (true, "the virtual cluster"));
        let Some(Err(failure)) = end else {
            panic!("{end:?}");
        };
        assert!(
            failure
                .to_string()
                .contains("voters of the virtual cluster")
        );
        assert!(failure.to_string().contains("no copy"));
    }

    #[test]
    fn only_a_member_that_begins_to_lead_meanwhile_overtakes_the_one_that_is_asked() {
        let overtaken = |before, now| {
            let mut search = search(SUBMIT);
            let known = clues(before, None, &[A]);
            search.named = Some(A);
            assert_eq!(search.next(&known), Some(A));
            search.is_overtaken(&clues(now, None, &[A]))
        };
        assert!(overtaken(Some(A), Some(C)));
        assert!(overtaken(None, Some(C)));
        assert!(!overtaken(Some(A), None), "an election");
        assert!(!overtaken(Some(B), Some(A)));
        assert!(!overtaken(Some(B), Some(B)), "old news");
    }
}
