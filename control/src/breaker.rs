//! The breaker of a cluster's quarantines: rules that suddenly take many devices out of use are
//! wrong more often than the devices are. It is a pure state machine, which the leader of the
//! `cluster` group owns for a term.
//!
//! Each node quarantines at once and then asks. What was admitted stands until the node no longer
//! names it; each node says for how long that has been so, so that the next leader counts it as
//! this one did. It clears nothing, blocks no clearing, and has no say in what a person holds:
//! nodes do not ask for that.

use std::collections::BTreeMap;

use muster_model::health::HealthSubject;
use muster_model::id::NodeId;
use muster_model::policy::BreakerPolicy;
use serde::{Deserialize, Serialize};

/// Nodes ask at least this often, seconds.
pub const REVIEW_S: u64 = 30;
/// A node that has not asked for so long counts no more, milliseconds.
const FORGET_MS: u64 = 600_000;
/// From its election on, a leader waits so long for nodes to tell what they have, milliseconds.
const SETTLE_MS: u64 = 3 * REVIEW_S * 1000;

/// What rules quarantine on a node. Which node that is, is known from who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeQuarantines {
    /// How many devices it has.
    pub devices: u32,
    /// The parts that take devices out of use, in the order in which they are asked for.
    pub parts: Vec<QuarantinedPart>,
}

/// A part that rules quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantinedPart {
    /// Which.
    pub subject: HealthSubject,
    /// How many devices that takes out of use.
    pub devices: u32,
    /// For how many milliseconds it has been admitted; none if no leader has admitted it yet.
    pub admitted_for_ms: Option<u64>,
}

/// What the breaker says of a node's quarantines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BreakerReview {
    /// The leader is new and does not know yet how many devices there are. What is quarantined
    /// stays so.
    NotYet,
    /// Those that are not named are admitted.
    HeldBack(Vec<HeldBackPart>),
}

/// A part that is not to be quarantined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBackPart {
    /// Which.
    pub subject: HealthSubject,
    /// Why, one sentence or two.
    pub why: String,
}

/// What one node has told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ReviewedNode {
    heard_ms: u64,
    devices: u32,
    /// Since when each part is admitted, and how many devices it takes out of use.
    admitted: BTreeMap<HealthSubject, (u64, u32)>,
}

/// Quarantines of a cluster, as far as they count. Times are milliseconds of any clock that
/// nobody sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuarantineBreaker {
    /// The leader's term.
    term: u64,
    since_ms: u64,
    nodes: BTreeMap<NodeId, ReviewedNode>,
}

impl QuarantineBreaker {
    /// The same in a leader's term: another term begins with nothing.
    pub fn in_term(&mut self, term: u64, now_ms: u64) -> &mut Self {
        if self.term != term {
            *self = Self {
                term,
                since_ms: now_ms,
                nodes: BTreeMap::new(),
            };
        }
        self
    }

    /// Takes what a node tells, and says which of its quarantines are held back. `members`: how
    /// many nodes the cluster has.
    pub fn review(
        &mut self,
        now_ms: u64,
        (node, told): (&NodeId, &NodeQuarantines),
        members: usize,
        policy: &BreakerPolicy,
    ) -> BreakerReview {
        self.hear(now_ms, node, told);
        let has_settled = now_ms.saturating_sub(self.since_ms) >= SETTLE_MS;
        if !has_settled && self.nodes.len() < members {
            return BreakerReview::NotYet;
        }
        let mut held_back = Vec::new();
        for part in &told.parts {
            if let Err(why) = self.admit(now_ms, node, part, policy) {
                let subject = part.subject.clone();
                held_back.push(HeldBackPart { subject, why });
            }
        }
        BreakerReview::HeldBack(held_back)
    }

    fn hear(&mut self, now_ms: u64, node: &NodeId, told: &NodeQuarantines) {
        self.nodes
            .retain(|_, node| now_ms.saturating_sub(node.heard_ms) < FORGET_MS);
        let node = self.nodes.entry(node.clone()).or_default();
        node.heard_ms = now_ms;
        node.devices = told.devices;
        let is_told = |subject: &HealthSubject| {
            let mut parts = told.parts.iter();
            parts.any(|part| part.subject == *subject)
        };
        node.admitted.retain(|subject, _| is_told(subject));
        for part in &told.parts {
            if let Some(for_ms) = part.admitted_for_ms {
                let since_ms = now_ms.saturating_sub(for_ms);
                let admitted = node.admitted.entry(part.subject.clone());
                admitted.or_insert((since_ms, part.devices));
            }
        }
    }

    /// What is admitted stays so, however much it takes out of use by now.
    fn admit(
        &mut self,
        now_ms: u64,
        node: &NodeId,
        part: &QuarantinedPart,
        policy: &BreakerPolicy,
    ) -> Result<(), String> {
        let devices: u32 = self.nodes.values().map(|node| node.devices).sum();
        let window_ms = policy.window_s.saturating_mul(1000);
        let admitted = self.nodes.values().flat_map(|node| node.admitted.values());
        let recent = admitted.filter(|(at_ms, _)| now_ms.saturating_sub(*at_ms) < window_ms);
        let recent: u32 = recent.map(|(_, devices)| *devices).sum();
        let known = self.nodes.entry(node.clone()).or_default();
        if known.admitted.contains_key(&part.subject) {
            return Ok(());
        }
        let sum = recent.saturating_add(part.devices);
        let is_on = devices >= policy.cluster_devices_min;
        let share = u64::from(sum) * 100 > u64::from(devices) * u64::from(policy.share_percent);
        if is_on && share && sum > policy.devices_free {
            return Err(format!(
                "rules have quarantined {recent} of {devices} devices within {} seconds, and more \
                 are held back. Look whether the rule is right.",
                policy.window_s
            ));
        }
        let taken = (now_ms, part.devices);
        known.admitted.insert(part.subject.clone(), taken);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: &str = "0000:1a:00.0";

    fn policy() -> BreakerPolicy {
        BreakerPolicy::default()
    }

    /// A node, and what it tells.
    type Told = (NodeId, NodeQuarantines);

    /// A node of one device, which rules quarantine.
    fn asks(node: u32, admitted_for_ms: Option<u64>) -> Told {
        let part = QuarantinedPart {
            subject: HealthSubject::at(GPU),
            devices: 1,
            admitted_for_ms,
        };
        told(node, vec![part])
    }

    fn well(node: u32) -> Told {
        told(node, Vec::new())
    }

    fn told(node: u32, parts: Vec<QuarantinedPart>) -> Told {
        let node = format!("n{node}").parse().unwrap();
        (node, NodeQuarantines { devices: 1, parts })
    }

    /// A breaker that has heard all of so many nodes.
    fn heard(nodes: u32) -> QuarantineBreaker {
        let mut breaker = QuarantineBreaker::default();
        for node in 0..nodes {
            review(&mut breaker, 0, &well(node), nodes);
        }
        breaker
    }

    fn review(
        breaker: &mut QuarantineBreaker,
        now_ms: u64,
        (node, told): &Told,
        members: u32,
    ) -> BreakerReview {
        breaker.review(now_ms, (node, told), members as usize, &policy())
    }

    fn is_admitted(breaker: &mut QuarantineBreaker, now_ms: u64, node: u32, members: u32) -> bool {
        let found = review(breaker, now_ms, &asks(node, None), members);
        found == BreakerReview::HeldBack(Vec::new())
    }

    /// How many of the first so many nodes are admitted.
    fn admitted(breaker: &mut QuarantineBreaker, now_ms: u64, ask: u32, members: u32) -> usize {
        let asked = (0..ask).filter(|node| is_admitted(breaker, now_ms, *node, members));
        asked.count()
    }

    /// How many devices the cluster has, how many quarantines are asked for, how many are done.
    #[test]
    fn share_and_number_hold_back_together() {
        for (cluster, ask, expect) in [
            (8, 8, 8),
            (31, 31, 31),
            (32, 32, 8),
            (40, 40, 8),
            (100, 100, 20),
            (200, 30, 30),
            (200, 100, 40),
        ] {
            let mut breaker = heard(cluster);
            let found = admitted(&mut breaker, 0, ask, cluster);
            assert_eq!(found, expect, "{ask} of {cluster}");
        }
    }

    #[test]
    fn after_the_window_more_may_follow() {
        let mut breaker = heard(100);
        assert_eq!(admitted(&mut breaker, 0, 100, 100), 20);
        assert_eq!(admitted(&mut breaker, 299_999, 100, 100), 20);
        // The first twenty are asked for again, and stand; as many others follow.
        assert_eq!(admitted(&mut breaker, 300_000, 100, 100), 40);
    }

    #[test]
    fn what_was_admitted_is_never_held_back_and_clearing_makes_room() {
        let mut breaker = heard(100);
        admitted(&mut breaker, 0, 100, 100);
        assert!(is_admitted(&mut breaker, 1, 0, 100));
        assert!(!is_admitted(&mut breaker, 1, 99, 100));
        review(&mut breaker, 1, &well(0), 100);
        assert!(is_admitted(&mut breaker, 1, 99, 100));
        assert!(!is_admitted(&mut breaker, 1, 0, 100));
    }

    #[test]
    fn a_node_that_is_heard_no_more_counts_no_more() {
        let mut breaker = heard(100);
        admitted(&mut breaker, 0, 100, 100);
        for node in 20..100 {
            review(&mut breaker, 599_999, &well(node), 100);
        }
        assert_eq!(breaker.nodes.len(), 100);
        review(&mut breaker, 600_000, &well(20), 100);
        assert_eq!(breaker.nodes.len(), 80);
    }

    #[test]
    fn another_leader_waits_for_the_nodes_and_counts_what_they_say() {
        let mut breaker = heard(100);
        admitted(&mut breaker, 0, 100, 100);
        let breaker = breaker.in_term(2, 1000);
        assert!(breaker.nodes.is_empty());
        // What stands is told with its age, and stands at once.
        for node in 0..20 {
            let found = review(breaker, 1000, &asks(node, Some(1000)), 100);
            assert_eq!(found, BreakerReview::NotYet);
        }
        // It waits no longer than until all nodes have told, or some time has passed.
        for node in 20..99 {
            review(breaker, 1000, &well(node), 100);
        }
        assert!(!is_admitted(breaker, 1000, 99, 100));
        let mut late = breaker.clone();
        late.nodes.clear();
        assert_eq!(
            review(&mut late, SETTLE_MS + 999, &asks(0, None), 100),
            BreakerReview::NotYet
        );
        assert!(is_admitted(&mut late, SETTLE_MS + 1000, 0, 100));
        // The ages count: the window of the first leader is over.
        assert!(is_admitted(breaker, 300_000, 99, 100));
    }

    #[test]
    fn it_says_how_much_is_out_of_use() {
        let mut breaker = heard(100);
        admitted(&mut breaker, 0, 20, 100);
        let found = review(&mut breaker, 1, &asks(50, None), 100);
        let BreakerReview::HeldBack(parts) = found else {
            panic!("{found:?}")
        };
        let why = &parts[0].why;
        assert!(
            why.contains("20 of 100 devices within 300 seconds"),
            "{why}"
        );
    }
}
