//! A leader's side: how long nothing was heard of a node, and which nodes' tasks must have ended.

use std::collections::BTreeMap;

use muster_model::id::NodeId;
use muster_model::time::Time;

use super::LeaseTime;

/// When a leader heard of each node last, counted from its election at the earliest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hearing {
    since: Time,
    last: BTreeMap<NodeId, Time>,
}

impl Hearing {
    /// Of a leader that was elected now.
    pub const fn new(now: Time) -> Self {
        Self {
            since: now,
            last: BTreeMap::new(),
        }
    }

    /// Something of the node arrived.
    pub fn heard(&mut self, now: Time, node: &NodeId) {
        match self.last.get_mut(node) {
            Some(last) => *last = now.max(*last),
            None => {
                self.last.insert(node.clone(), now);
            }
        }
    }

    /// For how many milliseconds nothing has arrived.
    pub fn silence_ms(&self, now: Time, node: &NodeId) -> u64 {
        let last = self.last.get(node).copied().unwrap_or_default();
        now.micros_since(last.max(self.since)) / 1000
    }
}

/// A question to the leader of the `cluster` group: has this node been silent to it for so long?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilenceQuestion {
    /// The node.
    pub node: NodeId,
    /// For so many milliseconds.
    pub for_ms: u64,
    /// Names the question: an answer to another one says nothing.
    pub number: u64,
}

/// What the leader of a virtual cluster does about silent nodes.
#[derive(Clone, Debug)]
pub struct SilenceWatch {
    hearing: Hearing,
    /// The question that is on its way, by the node that it is about.
    asking: BTreeMap<NodeId, u64>,
    questions: u64,
}

impl SilenceWatch {
    /// Of a leader that was elected by now; tasks of its virtual cluster are on these nodes.
    pub fn new(now: Time, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut hearing = Hearing::new(now);
        for node in nodes {
            hearing.heard(now, &node);
        }
        Self {
            hearing,
            asking: BTreeMap::new(),
            questions: 0,
        }
    }

    /// Whom it has heard.
    pub const fn hearing(&self) -> &Hearing {
        &self.hearing
    }

    /// Something of the node arrived: a request for renewal, or anything else.
    pub fn heard(&mut self, now: Time, node: &NodeId) {
        self.hearing.heard(now, node);
    }

    /// What the other leader is to be asked. `overdue` says for how long a node must have been
    /// silent for the shortest lease on it, if that is no more than its silence in milliseconds.
    pub fn questions(
        &mut self,
        now: Time,
        overdue: impl Fn(&NodeId, u64) -> Option<u64>,
    ) -> Vec<SilenceQuestion> {
        let mut questions = Vec::new();
        for (node, last) in &self.hearing.last {
            let silence_ms = now.micros_since(*last) / 1000;
            if silence_ms < LeaseTime::SHORTEST.lost_ms() || self.asking.contains_key(node) {
                continue;
            }
            if let Some(for_ms) = overdue(node, silence_ms) {
                self.questions += 1;
                let (node, number) = (node.clone(), self.questions);
                self.asking.insert(node.clone(), number);
                questions.push(SilenceQuestion {
                    node,
                    for_ms,
                    number,
                });
            }
        }
        questions
    }

    /// The other leader's answer; none if it gave none. True: all that held by a lease which is
    /// over after `for_ms` has ended on that node. What arrived since the question was asked
    /// voids it.
    pub fn answered(
        &mut self,
        now: Time,
        question: &SilenceQuestion,
        silent: Option<bool>,
    ) -> bool {
        if self.asking.get(&question.node) != Some(&question.number) {
            return false;
        }
        self.asking.remove(&question.node);
        silent == Some(true) && self.hearing.silence_ms(now, &question.node) >= question.for_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: u64 = 38_110;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn node() -> NodeId {
        "n1".parse().unwrap()
    }

    fn watch(elected_ms: u64) -> SilenceWatch {
        SilenceWatch::new(at(elected_ms), [node()])
    }

    fn overdue(_: &NodeId, silence_ms: u64) -> Option<u64> {
        (silence_ms >= LONG).then_some(LONG)
    }

    fn questions(watch: &mut SilenceWatch, ms: u64) -> Vec<SilenceQuestion> {
        watch.questions(at(ms), overdue)
    }

    #[test]
    fn a_node_is_asked_about_when_its_shortest_lease_is_over() {
        let mut watch = watch(1_000);
        assert_eq!(questions(&mut watch, 1_000 + LONG - 1), []);
        watch.heard(at(2_000), &node());
        assert_eq!(questions(&mut watch, 2_000 + LONG - 1), []);
        let due = 2_000 + LONG;
        let question = |number| SilenceQuestion {
            node: node(),
            for_ms: LONG,
            number,
        };
        assert_eq!(questions(&mut watch, due), [question(1)]);
        assert_eq!(questions(&mut watch, due + 1), [], "asked once at a time");
        assert!(!watch.answered(at(due + 2), &question(1), None));
        assert_eq!(questions(&mut watch, due + 3), [question(2)]);
        assert!(
            !watch.answered(at(due + 4), &question(1), Some(true)),
            "late"
        );
        assert!(!watch.answered(at(due + 4), &question(2), Some(false)));
        assert_eq!(questions(&mut watch, due + 5), [question(3)]);
        assert!(watch.answered(at(due + 6), &question(3), Some(true)));
        assert!(
            !watch.answered(at(due + 6), &question(3), Some(true)),
            "twice"
        );
    }

    #[test]
    fn what_arrives_meanwhile_voids_the_question() {
        let mut watch = watch(0);
        let asked = questions(&mut watch, LONG);
        watch.heard(at(LONG + 1), &node());
        assert!(!watch.answered(at(LONG + 2), &asked[0], Some(true)));
    }

    #[test]
    fn another_election_voids_the_question_and_counts_anew() {
        let asked = questions(&mut watch(0), LONG);
        let mut watch = watch(LONG + 1);
        assert!(!watch.answered(at(LONG + 2), &asked[0], Some(true)));
        assert_eq!(questions(&mut watch, LONG + 2), []);
    }

    #[test]
    fn a_leader_counts_from_its_election_whom_it_never_heard() {
        let mut hearing = Hearing::new(at(500));
        assert_eq!(hearing.silence_ms(at(700), &node()), 200);
        hearing.heard(at(600), &node());
        assert_eq!(hearing.silence_ms(at(700), &node()), 100);
        hearing.heard(at(550), &node());
        assert_eq!(hearing.silence_ms(at(700), &node()), 100, "never back");
    }
}
