use muster_gossip::member::{Incarnation, MemberId};
use muster_gossip::record::DocumentId;

use super::world::{Bench, RULES, body, edit, step};
use crate::cluster::{
    ActivationStep, BODY_BYTES_MAX, CANARIES_MAX, Canary, ClusterApplied, ClusterDocument,
    ClusterRejection, DOCUMENTS_MAX, DocumentEdit, HISTORY_MAX, REASON_BYTES_MAX, VersionStage,
};

fn canary(member: u32) -> Canary {
    Canary {
        member: MemberId(member),
        incarnation: Incarnation(1),
    }
}

fn canaries(members: &[u32]) -> VersionStage {
    VersionStage::Canary(members.iter().map(|member| canary(*member)).collect())
}

fn withdrawn() -> VersionStage {
    VersionStage::Withdrawn("bad".to_owned())
}

fn document(bench: &Bench) -> &ClusterDocument {
    bench.state.document(RULES).unwrap()
}

#[test]
fn of_two_edits_on_one_version_one_is_taken() {
    let mut bench = Bench::new();
    let version = |version| Ok(ClusterApplied::Document { id: RULES, version });
    assert_eq!(
        bench.edit(edit(1, 1)),
        Err(ClusterRejection::Conflict {
            base: 1,
            current: 0
        })
    );
    assert_eq!(bench.edit(edit(0, 1)), version(1));
    assert_eq!(
        bench.edit(edit(0, 2)),
        Err(ClusterRejection::Conflict {
            base: 0,
            current: 1
        })
    );
    assert_eq!(bench.edit(edit(1, 3)), version(2));
    assert_eq!(
        bench.edit(edit(1, 4)),
        Err(ClusterRejection::Conflict {
            base: 1,
            current: 2
        })
    );
    assert_eq!(document(&bench).revision(2).unwrap().body, body(3));
}

#[test]
fn a_rollback_is_a_new_version_with_an_old_body() {
    let mut bench = Bench::new();
    bench.edit(edit(0, 1)).unwrap();
    bench.edit(edit(1, 2)).unwrap();
    let old = document(&bench).revision(1).unwrap().body;
    bench
        .edit(DocumentEdit {
            body: old,
            ..edit(2, 0)
        })
        .unwrap();
    assert_eq!(document(&bench).version(), 3);
    assert_eq!(document(&bench).newest().unwrap().body, body(1));
    let kept: Vec<_> = bench.state.bodies().copied().collect();
    assert_eq!(kept, [body(1), body(2), body(1)]);
}

#[test]
fn a_version_goes_forward_step_by_step() {
    let allowed = [
        (vec![canaries(&[1])], true),
        (vec![canaries(&[1]), VersionStage::Active], true),
        (vec![withdrawn()], true),
        (vec![canaries(&[1]), withdrawn()], true),
        (vec![VersionStage::Active], false),
        (vec![VersionStage::Distribute], false),
        (vec![canaries(&[1]), VersionStage::Distribute], false),
        (vec![canaries(&[1]), canaries(&[1, 2])], false),
        (
            vec![canaries(&[1]), VersionStage::Active, withdrawn()],
            false,
        ),
        (
            vec![canaries(&[1]), VersionStage::Active, canaries(&[1])],
            false,
        ),
        (
            vec![canaries(&[1]), VersionStage::Active, VersionStage::Active],
            false,
        ),
        (vec![withdrawn(), VersionStage::Active], false),
        (vec![withdrawn(), canaries(&[1])], false),
        (vec![withdrawn(), withdrawn()], false),
    ];
    for (stages, good) in allowed {
        let mut bench = Bench::of(3);
        bench.edit(edit(0, 1)).unwrap();
        let (last, first) = stages.split_last().unwrap();
        for stage in first {
            bench.step(step(1, stage.clone())).unwrap();
        }
        let result = bench.step(step(1, last.clone()));
        assert_eq!(result.is_ok(), good, "{stages:?}: {result:?}");
        let expected = if good {
            last
        } else {
            first.last().unwrap_or(&VersionStage::Distribute)
        };
        assert_eq!(bench.stage(), expected, "{stages:?}");
    }
}

#[test]
fn an_admin_may_skip_steps_and_it_is_recorded() {
    let mut bench = Bench::of(3);
    bench
        .edit(DocumentEdit {
            forced: true,
            ..edit(0, 1)
        })
        .unwrap();
    assert_eq!(bench.stage(), &VersionStage::Active);
    assert_eq!(document(&bench).active(), 1);
    bench.edit(edit(1, 2)).unwrap();
    assert_eq!(document(&bench).active(), 1, "until the new one is active");
    assert!(!document(&bench).newest().unwrap().forced);
    bench
        .step(ActivationStep {
            forced: true,
            ..step(2, VersionStage::Active)
        })
        .unwrap();
    assert_eq!(document(&bench).active(), 2);
    assert!(document(&bench).newest().unwrap().forced);
}

#[test]
fn a_cluster_of_one_needs_no_canaries() {
    let mut bench = Bench::new();
    bench.edit(edit(0, 1)).unwrap();
    assert!(bench.step(step(1, VersionStage::Active)).is_ok());
    assert!(!document(&bench).newest().unwrap().forced);
}

#[test]
fn steps_are_for_the_newest_version() {
    let mut bench = Bench::of(3);
    assert_eq!(
        bench.step(step(1, withdrawn())),
        Err(ClusterRejection::NoDocument(RULES))
    );
    bench.edit(edit(0, 1)).unwrap();
    bench.edit(edit(1, 2)).unwrap();
    for version in [1, 3] {
        let late = ClusterRejection::NotCurrent {
            version,
            current: 2,
        };
        assert_eq!(bench.step(step(version, canaries(&[1]))), Err(late));
    }
}

#[test]
fn canaries_are_members_each_once() {
    let mut bench = Bench::of(4);
    bench.edit(edit(0, 1)).unwrap();
    bench.leave(3).unwrap();
    let bad: [&[u32]; 5] = [&[], &[1, 1], &[2, 1], &[1, 9], &[1, 3]];
    for members in bad {
        let result = bench.step(step(1, canaries(members)));
        assert_eq!(result, Err(ClusterRejection::Canaries), "{members:?}");
    }
    let many: Vec<u32> = (0..300).collect();
    assert!(many.len() > CANARIES_MAX);
    assert_eq!(
        bench.step(step(1, canaries(&many))),
        Err(ClusterRejection::Canaries)
    );
    let long = VersionStage::Withdrawn("x".repeat(REASON_BYTES_MAX + 1));
    assert_eq!(bench.step(step(1, long)), Err(ClusterRejection::Reason));
    assert!(bench.step(step(1, canaries(&[1, 2]))).is_ok());
}

#[test]
fn history_keeps_the_last_versions_and_the_one_in_force() {
    let mut bench = Bench::of(3);
    bench.edit(edit(0, 1)).unwrap();
    bench
        .edit(DocumentEdit {
            forced: true,
            ..edit(1, 2)
        })
        .unwrap();
    for base in 2..60 {
        bench.edit(edit(base, 3)).unwrap();
    }
    let versions: Vec<u64> = document(&bench).history().map(|old| old.version).collect();
    let last = 60 - HISTORY_MAX as u64 + 1..=60;
    assert_eq!(versions, std::iter::once(2).chain(last).collect::<Vec<_>>());
    bench
        .edit(DocumentEdit {
            forced: true,
            ..edit(60, 4)
        })
        .unwrap();
    assert_eq!(document(&bench).history().count(), HISTORY_MAX);
    assert!(document(&bench).revision(2).is_none());
    assert_eq!(document(&bench).active(), 61);
}

#[test]
fn history_says_who_when_and_how() {
    let mut bench = Bench::of(3);
    bench.edit(edit(0, 1)).unwrap();
    bench.step(step(1, canaries(&[1]))).unwrap();
    bench
        .step(ActivationStep {
            at_ms: 9_000,
            ..step(1, withdrawn())
        })
        .unwrap();
    let revision = document(&bench).revision(1).unwrap();
    assert_eq!((revision.author.as_str(), revision.at_ms), ("alice", 1_000));
    let passed = revision.passed.iter();
    let passed: Vec<_> = passed
        .map(|passed| (passed.stage.clone(), passed.at_ms))
        .collect();
    let expected = [
        (VersionStage::Distribute, 1_000),
        (canaries(&[1]), 2_000),
        (withdrawn(), 9_000),
    ];
    assert_eq!(passed, expected);
    assert_eq!(document(&bench).active(), 0);
}

#[test]
fn documents_are_bounded() {
    let mut bench = Bench::new();
    let mut long = edit(0, 1);
    long.body.bytes = BODY_BYTES_MAX + 1;
    assert_eq!(
        bench.edit(long),
        Err(ClusterRejection::TooLong(BODY_BYTES_MAX + 1))
    );
    let numbered = |number: usize| {
        let id = DocumentId(u16::try_from(number).unwrap());
        DocumentEdit { id, ..edit(0, 1) }
    };
    for number in 0..DOCUMENTS_MAX {
        bench.edit(numbered(number)).unwrap();
    }
    assert_eq!(
        bench.edit(numbered(DOCUMENTS_MAX)),
        Err(ClusterRejection::TooManyDocuments)
    );
    assert_eq!(bench.state.documents().count(), DOCUMENTS_MAX);
}
