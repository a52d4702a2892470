use std::collections::BTreeMap;

use muster_gossip::frame::{Coverage, DocumentRef};
use muster_gossip::member::{Incarnation, MemberId};
use muster_gossip::mesh::Reach;

use super::world::{Bench, RULES, edit};
use crate::cluster::{
    ActivationProgress, ClusterEntry, DocumentEdit, MemberHealth, Proposer, Soak, VersionStage,
    steps,
};

/// A cluster of so many members that all answer, with one edit.
struct Rollout {
    bench: Bench,
    progress: ActivationProgress,
    sights: BTreeMap<MemberId, MemberHealth>,
    me: MemberId,
    now_ms: u64,
}

impl Rollout {
    fn of(members: u8) -> Self {
        let mut bench = Bench::of(members);
        bench.edit(edit(0, 1)).unwrap();
        let sight = MemberHealth {
            reach: Reach::Alive,
            incarnation: Incarnation(7),
        };
        let document = Some(DocumentRef {
            id: RULES,
            version: 1,
        });
        Self {
            sights: bench.state.members().map(|(id, _)| (id, sight)).collect(),
            progress: ActivationProgress {
                coverage: Coverage {
                    document,
                    ..Coverage::default()
                },
                reasons: BTreeMap::new(),
            },
            me: MemberId(0),
            now_ms: 10_000,
            bench,
        }
    }

    fn next(&self) -> Option<VersionStage> {
        let progress = [(RULES, self.progress.clone())].into();
        let proposer = Proposer {
            me: self.me,
            progress: &progress,
            sights: &self.sights,
            soak: Soak::default(),
            now_ms: self.now_ms,
        };
        let entry = steps(&self.bench.state, &proposer)?;
        match entry {
            ClusterEntry::DocumentStep(step) => {
                assert_eq!(
                    (step.id, step.at_ms, step.forced),
                    (RULES, self.now_ms, false)
                );
                Some(step.stage)
            }
            other => panic!("not a step: {other:?}"),
        }
    }

    /// Commits the next step; gives the stage.
    fn advance(&mut self) -> VersionStage {
        let stage = self.next().expect("a step is due");
        let version = self.bench.state.document(RULES).unwrap().version();
        let mut step = super::world::step(version, stage.clone());
        step.at_ms = self.now_ms;
        self.bench.step(step).unwrap();
        stage
    }

    /// All find it valid; gives who tries it first.
    fn try_first(&mut self) -> Vec<MemberId> {
        self.progress.coverage.valid = vec![0xff; 32];
        match self.advance() {
            VersionStage::Canary(canaries) => canaries.iter().map(|canary| canary.member).collect(),
            other => panic!("no canaries: {other:?}"),
        }
    }

    fn wait_ms(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    fn set(&mut self, member: MemberId, change: impl FnOnce(&mut MemberHealth)) {
        change(self.sights.get_mut(&member).unwrap());
    }

    fn reason(&self) -> String {
        match self.next() {
            Some(VersionStage::Withdrawn(reason)) => reason,
            other => panic!("not withdrawn: {other:?}"),
        }
    }
}

#[test]
fn a_version_reaches_all_through_canaries() {
    let mut rollout = Rollout::of(5);
    assert_eq!(rollout.next(), None, "nobody has it");
    let canaries = rollout.try_first();
    assert_eq!(canaries.len(), 1);
    assert_ne!(canaries[0], rollout.me);
    rollout.progress.coverage.active = vec![0xff];
    rollout.wait_ms(59_999);
    assert_eq!(rollout.next(), None, "not yet");
    rollout.wait_ms(1);
    assert_eq!(rollout.advance(), VersionStage::Active);
    assert_eq!(rollout.next(), None, "nothing is left to do");
}

#[test]
fn all_that_can_be_reached_must_find_it_valid() {
    let mut rollout = Rollout::of(5);
    rollout.progress.coverage.valid = vec![0b0_1111];
    assert_eq!(rollout.next(), None);
    rollout.set(MemberId(4), |sight| sight.reach = Reach::Suspect);
    assert_eq!(rollout.next(), None, "a suspect can be reached");
    rollout.set(MemberId(4), |sight| sight.reach = Reach::Unreachable);
    assert!(matches!(rollout.next(), Some(VersionStage::Canary(_))));
    rollout.sights.remove(&MemberId(4));
    assert!(
        matches!(rollout.next(), Some(VersionStage::Canary(_))),
        "nor who was never seen"
    );
    rollout.sights.clear();
    assert_eq!(rollout.next(), None, "nobody can be asked");
}

#[test]
fn who_left_is_not_waited_for() {
    let mut rollout = Rollout::of(5);
    rollout.progress.coverage.valid = vec![0b0_1111];
    rollout.progress.coverage.rejected = vec![0b1_0000];
    rollout.bench.leave(4).unwrap();
    assert!(matches!(rollout.next(), Some(VersionStage::Canary(_))));
}

#[test]
fn one_rejection_stops_it_before_anybody_has_it_in_force() {
    let mut rollout = Rollout::of(5);
    rollout.progress.coverage.valid = vec![0b1_0111];
    rollout.progress.coverage.rejected = vec![0b0_1000];
    rollout
        .progress
        .reasons
        .insert(MemberId(3), "rule 7: bad pattern".to_owned());
    assert_eq!(rollout.reason(), "rejected by n3: rule 7: bad pattern");
    rollout.set(MemberId(3), |sight| sight.reach = Reach::Unreachable);
    assert_eq!(rollout.reason(), "rejected by n3: rule 7: bad pattern");
    rollout.advance();
    assert_eq!(rollout.next(), None);
}

#[test]
fn a_long_reason_is_cut_and_many_names_are_counted() {
    let mut rollout = Rollout::of(9);
    rollout.progress.coverage.rejected = vec![0xff];
    rollout
        .progress
        .reasons
        .insert(MemberId(0), "ä".repeat(5_000));
    assert!(
        rollout
            .reason()
            .starts_with("rejected by n0, n1, n2, n3, n4 and 3 more: ä")
    );
    rollout.advance();
}

#[test]
fn a_cluster_of_one_goes_straight_through() {
    let mut rollout = Rollout::of(1);
    assert_eq!(rollout.next(), None);
    rollout.progress.coverage.valid = vec![1];
    assert_eq!(rollout.advance(), VersionStage::Active);
}

#[test]
fn the_proposer_tries_it_only_if_nobody_else_can() {
    for (me, other) in [(0, 1), (1, 0)].map(|(me, other)| (MemberId(me), MemberId(other))) {
        let mut rollout = Rollout::of(2);
        rollout.me = me;
        assert_eq!(rollout.try_first(), [other]);
        let mut rollout = Rollout::of(2);
        rollout.me = me;
        rollout.set(other, |sight| sight.reach = Reach::Unreachable);
        assert_eq!(rollout.try_first(), [me]);
    }
}

#[test]
fn one_in_a_hundred_tries_it_others_each_time() {
    assert_eq!(Rollout::of(100).try_first().len(), 1);
    assert_eq!(Rollout::of(101).try_first().len(), 2);
    let mut rollout = Rollout::of(250);
    let first = rollout.try_first();
    assert_eq!(first.len(), 3);
    assert!(first.is_sorted());
    assert_eq!(
        Rollout::of(250).try_first(),
        first,
        "the same on every replica"
    );
    rollout.bench.edit(edit(1, 2)).unwrap();
    rollout.progress.coverage.document = Some(DocumentRef {
        id: RULES,
        version: 2,
    });
    assert_ne!(rollout.try_first(), first);
}

type SightChange = fn(&mut MemberHealth);

#[test]
fn harm_to_a_canary_stops_it() {
    let name = |member: MemberId| format!("n{}", member.0);
    let cases: [(&str, SightChange, &str); 2] = [
        (
            "at once",
            |sight| sight.incarnation.0 += 1,
            "restarted while they tried it",
        ),
        (
            "when its time is over",
            |sight| sight.reach = Reach::Unreachable,
            "cannot be reached since they tried it",
        ),
    ];
    for (when, harm, reason) in cases {
        let mut rollout = Rollout::of(5);
        let canary = rollout.try_first()[0];
        rollout.progress.coverage.active = vec![0xff];
        rollout.set(canary, harm);
        if when == "at once" {
            assert_eq!(
                rollout.reason(),
                format!("canaries {reason}: {}", name(canary))
            );
        } else {
            assert_eq!(rollout.next(), None, "it may come back");
        }
        rollout.wait_ms(60_000);
        assert_eq!(
            rollout.reason(),
            format!("canaries {reason}: {}", name(canary))
        );
    }
}

#[test]
fn harm_to_others_does_not_stop_it() {
    let mut rollout = Rollout::of(5);
    let canary = rollout.try_first()[0];
    rollout.progress.coverage.active = vec![0xff];
    for number in (0..5).map(MemberId).filter(|number| *number != canary) {
        rollout.set(number, |sight| {
            sight.reach = Reach::Unreachable;
            sight.incarnation.0 += 1;
        });
    }
    rollout.wait_ms(60_000);
    assert_eq!(rollout.next(), Some(VersionStage::Active));
}

#[test]
fn a_rejection_while_canaries_try_it_stops_it() {
    let mut rollout = Rollout::of(5);
    rollout.try_first();
    rollout.progress.coverage.rejected = vec![0b1];
    assert_eq!(rollout.reason(), "rejected by n0");
}

#[test]
fn canaries_that_never_put_it_in_force_stop_it() {
    let mut rollout = Rollout::of(5);
    let canary = rollout.try_first()[0];
    rollout.wait_ms(119_999);
    assert_eq!(rollout.next(), None, "they get some time more");
    rollout.wait_ms(1);
    assert_eq!(
        rollout.reason(),
        format!("canaries did not put it in force: n{}", canary.0)
    );
    rollout.progress.coverage.active = vec![1 << canary.0];
    assert_eq!(rollout.next(), Some(VersionStage::Active));
}

#[test]
fn a_canary_that_left_is_not_counted_unless_all_did() {
    let mut rollout = Rollout::of(250);
    let canaries = rollout.try_first();
    rollout.progress.coverage.active = vec![0xff; 32];
    rollout.wait_ms(60_000);
    for canary in &canaries {
        assert_eq!(rollout.next(), Some(VersionStage::Active));
        rollout.set(*canary, |sight| sight.reach = Reach::Unreachable);
        rollout.bench.leave(canary.0).unwrap();
    }
    assert_eq!(rollout.reason(), "all canaries left while they tried it");
}

#[test]
fn canaries_are_not_judged_before_anything_is_known() {
    let mut rollout = Rollout::of(5);
    rollout.try_first();
    rollout.progress = ActivationProgress::default();
    rollout.wait_ms(1_000_000);
    assert_eq!(
        rollout.next(),
        None,
        "a proposer that has just started knows nothing yet"
    );
}

#[test]
fn what_is_known_of_an_older_version_counts_for_nothing() {
    let mut rollout = Rollout::of(5);
    rollout.progress.coverage.valid = vec![0xff];
    rollout.progress.coverage.rejected = vec![0xff];
    rollout.bench.edit(edit(1, 2)).unwrap();
    assert_eq!(rollout.next(), None);
}

#[test]
fn a_forced_version_needs_no_steps() {
    let mut rollout = Rollout::of(5);
    rollout
        .bench
        .edit(DocumentEdit {
            forced: true,
            ..edit(1, 2)
        })
        .unwrap();
    rollout.progress.coverage.document = Some(DocumentRef {
        id: RULES,
        version: 2,
    });
    rollout.progress.coverage.valid = vec![0xff];
    assert_eq!(rollout.next(), None);
}
