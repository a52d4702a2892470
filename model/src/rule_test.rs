//! What new failure rules would say of the failures that nodes keep: which verdicts would change.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exit::{Behavior, ExitSpec, Verdict};

/// Most pairs of verdicts in one answer.
pub const CHANGES_MAX: usize = 200;
/// Most failures that are named for a pair.
pub const EXAMPLES_MAX: usize = 5;
/// Most signatures that are shown.
pub const SIGNATURES_MAX: usize = 10;
/// Most signatures in the answer of one node. More than are shown: what is frequent in the cluster may be rare
/// on each of its nodes.
pub const NODE_SIGNATURES_MAX: usize = 50;

/// A verdict, as far as two are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct JudgedAs {
    /// The code that users see.
    pub code: i32,
    /// The code in words.
    pub phrase: String,
    /// Whether running again may help: it decides retries.
    pub behavior: Behavior,
}

impl From<&Verdict> for JudgedAs {
    fn from(verdict: &Verdict) -> Self {
        Self::from(&verdict.spec)
    }
}

impl From<&ExitSpec> for JudgedAs {
    fn from(spec: &ExitSpec) -> Self {
        Self {
            code: spec.code,
            phrase: spec.phrase.clone(),
            behavior: spec.behavior,
        }
    }
}

/// A failure that stands for others of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExampleFailure {
    /// `user~job`.
    pub job: String,
    /// `role:index`.
    pub task: String,
    /// The node that it ran on.
    pub node: String,
    /// When it ended, milliseconds since the epoch.
    pub ended_ms: u64,
    /// The line that the new rules match; empty if they match none.
    pub line: String,
}

/// Failures whose verdict would change in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictChange {
    /// By the rules in force.
    pub before: JudgedAs,
    /// By the new rules.
    pub after: JudgedAs,
    /// How many there are.
    pub count: u64,
    /// The newest of them, at most [`EXAMPLES_MAX`].
    pub examples: Vec<ExampleFailure>,
}

/// How the logs of failures end that the new rules do not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureSignature {
    /// The line, with `N` for digits and `PATH` for paths.
    pub text: String,
    /// An expression that matches these lines, to begin a rule with.
    pub pattern: String,
    /// How many failures end so.
    pub count: u64,
    /// The newest of them, with its own line.
    pub example: ExampleFailure,
}

/// A node that took no part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnheardNode {
    /// Its name.
    pub node: String,
    /// Why.
    pub why: String,
}

/// What new rules would say of failures, of one node or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleTest {
    /// Failures that were judged by the rules in force and by the new ones.
    pub tried: u64,
    /// Those of them whose verdict would change.
    pub changed: u64,
    /// In which ways, the most frequent first, at most [`CHANGES_MAX`].
    pub changes: Vec<VerdictChange>,
    /// Failures whose verdict would change in a way for which there was no room.
    pub changes_left_out: u64,
    /// Failures that the new rules do not know.
    pub unknown: u64,
    /// How their logs end, the most frequent first, at most [`SIGNATURES_MAX`].
    pub signatures: Vec<FailureSignature>,
    /// Failures that were tried, and of which too little was kept to repeat their verdict.
    pub cut: u64,
    /// Kept failures that cannot be read.
    pub damaged: u64,
    /// Failures that were left when the time was up.
    pub untried: u64,
    /// Nodes that took part.
    pub nodes: Vec<String>,
    /// Members that took no part.
    pub unheard: Vec<UnheardNode>,
}

/// A [`RuleTest`] in the making.
#[derive(Debug, Default)]
pub struct RuleTestTally {
    /// All but what is in the maps.
    sum: RuleTest,
    changes: BTreeMap<(JudgedAs, JudgedAs), VerdictChange>,
    signatures: BTreeMap<String, FailureSignature>,
}

impl RuleTestTally {
    /// Counts a failure that was judged twice.
    pub fn tried(&mut self, (before, after): (JudgedAs, JudgedAs), example: ExampleFailure) {
        self.sum.tried += 1;
        if before == after {
            return;
        }
        self.sum.changed += 1;
        self.change(VerdictChange {
            before,
            after,
            count: 1,
            examples: vec![example],
        });
    }

    /// Counts a failure that the new rules do not know, with what its log ends with, if that says anything.
    pub fn unknown(&mut self, signature: Option<FailureSignature>) {
        self.sum.unknown += 1;
        if let Some(signature) = signature {
            self.signature(signature);
        }
    }

    /// Counts a failure of which too little was kept.
    pub fn cut(&mut self) {
        self.sum.cut += 1;
    }

    /// Counts a failure that cannot be read.
    pub fn damaged(&mut self) {
        self.sum.damaged += 1;
    }

    /// Counts failures for which there was no time.
    pub fn untried(&mut self, count: u64) {
        self.sum.untried += count;
    }

    /// Names a member that took no part.
    pub fn unheard(&mut self, node: String, why: String) {
        self.sum.unheard.push(UnheardNode { node, why });
    }

    /// Names a node that took part.
    pub fn heard(&mut self, node: String) {
        self.sum.nodes.push(node);
    }

    /// Adds what was found elsewhere.
    pub fn add(&mut self, other: RuleTest) {
        let RuleTest {
            tried,
            changed,
            changes,
            changes_left_out,
            unknown,
            signatures,
            cut,
            damaged,
            untried,
            nodes,
            unheard,
        } = other;
        let sum = &mut self.sum;
        sum.tried += tried;
        sum.changed += changed;
        sum.changes_left_out += changes_left_out;
        sum.unknown += unknown;
        sum.cut += cut;
        sum.damaged += damaged;
        sum.untried += untried;
        sum.nodes.extend(nodes);
        sum.unheard.extend(unheard);
        changes.into_iter().for_each(|change| self.change(change));
        signatures.into_iter().for_each(|one| self.signature(one));
    }

    /// The answer, with so many signatures at most.
    pub fn finish(self, signatures_max: usize) -> RuleTest {
        let mut changes: Vec<_> = self.changes.into_values().collect();
        // A stable sort: equally frequent ones stay in the order of their codes.
        changes.sort_by_key(|change| Reverse(change.count));
        let left_out = changes.drain(changes.len().min(CHANGES_MAX)..);
        let left_out: u64 = left_out.map(|change| change.count).sum();
        let mut signatures: Vec<_> = self.signatures.into_values().collect();
        signatures.sort_by_key(|signature| Reverse(signature.count));
        signatures.truncate(signatures_max);
        let mut test = self.sum;
        test.nodes.sort();
        test.unheard.sort_by(|a, b| a.node.cmp(&b.node));
        RuleTest {
            changes,
            changes_left_out: test.changes_left_out + left_out,
            signatures,
            ..test
        }
    }

    fn change(&mut self, change: VerdictChange) {
        let key = (change.before.clone(), change.after.clone());
        match self.changes.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(change);
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                known.count += change.count;
                known.examples.extend(change.examples);
                let newest_first = |example: &ExampleFailure| Reverse(example.ended_ms);
                known.examples.sort_by_key(newest_first);
                known.examples.truncate(EXAMPLES_MAX);
            }
        }
    }

    fn signature(&mut self, signature: FailureSignature) {
        match self.signatures.entry(signature.text.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(signature);
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                known.count += signature.count;
                if signature.example.ended_ms > known.example.ended_ms {
                    known.example = signature.example;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(code: i32) -> JudgedAs {
        JudgedAs {
            code,
            phrase: format!("Code{code}"),
            behavior: Behavior::Unknown,
        }
    }

    fn example(ended_ms: u64) -> ExampleFailure {
        ExampleFailure {
            job: "ada~train".to_owned(),
            task: "worker:0".to_owned(),
            node: "n1".to_owned(),
            ended_ms,
            line: String::new(),
        }
    }

    fn signature(text: &str, ended_ms: u64) -> FailureSignature {
        FailureSignature {
            text: text.to_owned(),
            pattern: text.to_owned(),
            count: 1,
            example: example(ended_ms),
        }
    }

    #[test]
    fn the_same_verdict_is_no_change_and_another_behavior_is_one() {
        let mut tally = RuleTestTally::default();
        tally.tried((judged(1), judged(1)), example(1));
        let retried = JudgedAs {
            behavior: Behavior::Transient,
            ..judged(1)
        };
        tally.tried((judged(1), retried.clone()), example(2));
        let test = tally.finish(SIGNATURES_MAX);
        assert_eq!((test.tried, test.changed), (2, 1));
        assert_eq!(test.changes[0].after, retried);
    }

    #[test]
    fn answers_of_nodes_add_up_and_stay_bounded() {
        let node = |name: &str, first_ms: u64| {
            let mut tally = RuleTestTally::default();
            for ended_ms in first_ms..first_ms + 4 {
                tally.tried((judged(255), judged(7)), example(ended_ms));
            }
            tally.tried((judged(255), judged(8)), example(1));
            tally.unknown(Some(signature("boom N", first_ms)));
            tally.unknown(None);
            tally.cut();
            tally.damaged();
            tally.untried(3);
            tally.heard(name.to_owned());
            tally.finish(NODE_SIGNATURES_MAX)
        };
        let mut all = RuleTestTally::default();
        all.add(node("n2", 100));
        all.add(node("n1", 200));
        all.unheard("n3".to_owned(), "it is off".to_owned());
        let test = all.finish(SIGNATURES_MAX);
        assert_eq!((test.tried, test.changed, test.unknown), (10, 10, 4));
        assert_eq!((test.cut, test.damaged, test.untried), (2, 2, 6));
        assert_eq!(test.nodes, ["n1", "n2"]);
        assert_eq!(test.unheard[0].node, "n3");
        let [most, least] = &test.changes[..] else {
            panic!("{test:?}")
        };
        assert_eq!((most.after.code, most.count), (7, 8));
        let newest: Vec<_> = most.examples.iter().map(|one| one.ended_ms).collect();
        assert_eq!(newest, [203, 202, 201, 200, 103]);
        assert_eq!((least.after.code, least.count), (8, 2));
        let [boom] = &test.signatures[..] else {
            panic!("{test:?}")
        };
        assert_eq!((boom.count, boom.example.ended_ms), (2, 200));
    }

    #[test]
    fn what_there_is_no_room_for_is_counted() {
        let mut tally = RuleTestTally::default();
        for code in 0..300 {
            tally.tried((judged(255), judged(code)), example(1));
            tally.unknown(Some(signature(&format!("{code}"), 1)));
        }
        tally.tried((judged(255), judged(299)), example(1));
        let test = tally.finish(SIGNATURES_MAX);
        assert_eq!(test.changes.len(), CHANGES_MAX);
        assert_eq!(test.changes[0].after.code, 299, "the most frequent is kept");
        assert_eq!(test.changes_left_out, 100 - 1);
        assert_eq!(test.signatures.len(), SIGNATURES_MAX);
    }
}
