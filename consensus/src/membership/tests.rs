use super::*;
use crate::id::StoreId;

fn home(node: u64) -> ReplicaHome {
    ReplicaHome {
        node: NodeId(node),
        store: StoreId(node * 100),
    }
}

/// Replicas 1 to 3 on nodes 1 to 3; 1 and 2 vote.
fn three() -> (GroupMembership, ConfState) {
    let homes = (1..=3).map(|number| (ReplicaId(number), home(number)));
    let conf = ConfState {
        voters: vec![1, 2],
        learners: vec![3],
        ..ConfState::default()
    };
    (GroupMembership::born(homes.collect()), conf)
}

#[test]
fn changes_are_checked_one_after_the_other() {
    use ReplicaChange::{Add, Demote, Promote, Remove};
    let (members, conf) = three();
    let id = ReplicaId;
    for (changes, expect) in [
        (vec![], Err(Unfit::Empty)),
        (vec![Add(id(4), home(4))], Ok(())),
        (vec![Add(id(3), home(4))], Err(Unfit::Used(id(3), id(4)))),
        (
            vec![Add(id(9), home(4)), Add(id(9), home(5))],
            Err(Unfit::Used(id(9), id(10))),
        ),
        (vec![Add(id(4), home(2))], Err(Unfit::Housed(NodeId(2)))),
        (vec![Remove(id(2)), Add(id(4), home(2))], Ok(())),
        (vec![Promote(id(3))], Ok(())),
        (vec![Promote(id(4))], Err(Unfit::Unknown(id(4)))),
        (
            vec![Remove(id(3)), Promote(id(3))],
            Err(Unfit::Unknown(id(3))),
        ),
        (vec![Remove(id(1)), Demote(id(2))], Err(Unfit::NoVoter)),
        (vec![Promote(id(3)), Remove(id(1)), Remove(id(2))], Ok(())),
    ] {
        assert_eq!(members.check(&changes, &conf), expect, "{changes:?}");
    }
}

#[test]
fn numbers_are_never_given_twice() {
    let (mut members, mut conf) = three();
    members.keep_only(&conf);
    assert!(!members.is_gone(ReplicaId(3)));
    conf.learners.clear();
    members.keep_only(&conf);
    assert_eq!(members.next, ReplicaId(4));
    assert!(members.is_gone(ReplicaId(3)));
    assert!(!members.is_gone(ReplicaId(4)), "it may be given yet");
}

#[test]
fn who_still_votes_in_an_old_majority_is_not_gone() {
    let (mut members, mut conf) = three();
    conf.voters = vec![1, 3];
    conf.voters_outgoing = vec![1, 2];
    conf.learners.clear();
    members.keep_only(&conf);
    assert!(!members.is_gone(ReplicaId(2)));
    conf.voters_outgoing.clear();
    members.keep_only(&conf);
    assert!(members.is_gone(ReplicaId(2)));
}

#[test]
fn changes_go_through_raft_unchanged() {
    let changes = vec![
        ReplicaChange::Add(ReplicaId(4), home(4)),
        ReplicaChange::Promote(ReplicaId(3)),
        ReplicaChange::Demote(ReplicaId(2)),
        ReplicaChange::Remove(ReplicaId(1)),
    ];
    let raft = to_raft(&changes).unwrap();
    let kinds: Vec<_> = raft
        .get_changes()
        .iter()
        .map(ConfChangeSingle::get_change_type)
        .collect();
    assert_eq!(
        kinds,
        [
            ConfChangeType::AddLearnerNode,
            ConfChangeType::AddNode,
            ConfChangeType::AddLearnerNode,
            ConfChangeType::RemoveNode
        ]
    );
    let bytes = raft.write_to_bytes().unwrap();
    assert_eq!(from_raft(&bytes).unwrap().1, changes);
    let leaves_joint = ConfChangeV2::default().write_to_bytes().unwrap();
    assert_eq!(from_raft(&leaves_joint).unwrap().1, []);
    assert!(from_raft(&[0xff; 9]).is_none());
}
