use muster_gossip::member::MemberId;
use muster_gossip::record::AdmissionState;

use super::world::{Bench, DAY_MS, admission, init, key, new_token, token};
use crate::cluster::{
    Admission, CERTIFICATE_BYTES_MAX, ClusterApplied, ClusterEntry, ClusterRejection, ClusterState,
    NUMBERS_MAX, Secret, TokenIssue,
};

fn member(number: u32) -> Result<ClusterApplied, ClusterRejection> {
    Ok(ClusterApplied::Member(MemberId(number)))
}

#[test]
fn nothing_is_done_before_a_cluster_is_founded() {
    let mut state = ClusterState::default();
    let entry = ClusterEntry::TokenCreated(Box::new(new_token(1, 1)));
    assert_eq!(state.apply(1, &entry), Err(ClusterRejection::NotFounded));
    assert_eq!(state.records(), []);
    assert_eq!(state.apply(2, &init()), Ok(ClusterApplied::Cluster));
    assert_eq!(state.apply(3, &init()), Err(ClusterRejection::Founded));
    assert_eq!(state.member(ClusterState::FOUNDER).unwrap().key, key(0));
    assert_eq!(state.cluster().unwrap().name.as_str(), "farm");
}

#[test]
fn a_cluster_gets_a_name_and_loses_it_and_nothing_else_changes() {
    let named = |name: &str| ClusterEntry::Named {
        name: name.parse().unwrap(),
    };
    let mut state = ClusterState::default();
    assert_eq!(
        state.apply(1, &named("lab")),
        Err(ClusterRejection::NotFounded)
    );
    state.apply(2, &init()).unwrap();
    let (records, given) = (state.records(), state.map_version());
    for (index, name) in [(3, "lab"), (4, "")] {
        assert_eq!(
            state.apply(index, &named(name)),
            Ok(ClusterApplied::Cluster)
        );
        let state = ClusterState::restore(&state.snapshot()).unwrap();
        assert_eq!(state.cluster().unwrap().name.as_str(), name);
        assert_eq!(
            (state.records(), state.map_version()),
            (records.clone(), given)
        );
    }
}

#[test]
fn numbers_are_dense_and_never_given_twice() {
    let mut bench = Bench::of(4);
    assert_eq!(bench.state.members().count(), 4);
    assert_eq!(bench.leave(2), member(2));
    assert_eq!(bench.expel(3), member(3));
    assert_eq!(bench.admit(admission(200, 4)), member(4));
    assert_eq!(
        bench.admit(admission(200, 2)),
        member(5),
        "who left comes as somebody new"
    );
    let states: Vec<_> = bench
        .state
        .members()
        .map(|(_, member)| member.state)
        .collect();
    let (on, left, out) = (
        AdmissionState::Admitted,
        AdmissionState::Left,
        AdmissionState::Expelled,
    );
    assert_eq!(states, [on, on, left, out, on, on]);
    assert_eq!(bench.state.member_by_key(&key(2)), Some(MemberId(5)));
    assert_eq!(bench.state.size(), 4);
}

#[test]
fn the_same_admission_again_is_the_same_member() {
    let mut bench = Bench::new();
    bench.token(new_token(1, 1)).unwrap();
    assert_eq!(bench.admit(admission(1, 5)), member(1));
    assert_eq!(bench.state.token(token(1)).unwrap().uses_left, 0);
    let late = Admission {
        at_ms: 2 * DAY_MS,
        ..admission(1, 5)
    };
    assert_eq!(
        bench.admit(late),
        member(1),
        "also when the token is used up and expired"
    );
    assert_eq!(bench.state.member(MemberId(1)).unwrap().admitted_ms, 3);
    let clash = ClusterRejection::KeyAdmitted {
        name: "n5".parse().unwrap(),
        member: MemberId(1),
    };
    let name = Admission {
        name: "n6".parse().unwrap(),
        ..admission(1, 5)
    };
    assert_eq!(bench.admit(name), Err(clash.clone()), "under another name");
    let rack = Admission {
        rack: "r2".parse().unwrap(),
        ..admission(1, 5)
    };
    assert_eq!(bench.admit(rack), Err(clash.clone()), "in another rack");
    bench.token(new_token(2, 1)).unwrap();
    assert_eq!(bench.admit(admission(2, 5)), Err(clash), "by another token");
    assert_eq!(bench.state.token(token(2)).unwrap().uses_left, 1);
}

#[test]
fn names_are_unique_among_members() {
    let mut bench = Bench::of(3);
    let clash = Admission {
        name: "n1".parse().unwrap(),
        ..admission(200, 9)
    };
    let taken = ClusterRejection::NameTaken {
        name: "n1".parse().unwrap(),
        member: MemberId(1),
    };
    assert!(taken.to_string().contains("n1 is taken by member 1"));
    assert_eq!(bench.admit(clash.clone()), Err(taken));
    bench.leave(1).unwrap();
    assert_eq!(
        bench.admit(clash),
        member(3),
        "a name is free when its member has left"
    );
}

#[test]
fn an_expelled_key_comes_back_only_by_a_newer_token() {
    let mut bench = Bench::of(3);
    bench.expel(1).unwrap();
    assert_eq!(
        bench.admit(admission(200, 1)),
        Err(ClusterRejection::Expelled)
    );
    let renamed = Admission {
        name: "x".parse().unwrap(),
        ..admission(200, 1)
    };
    assert_eq!(bench.admit(renamed), Err(ClusterRejection::Expelled));
    bench.token(new_token(5, 9)).unwrap();
    assert_eq!(bench.admit(admission(5, 1)), member(3));
    bench.expel(3).unwrap();
    assert_eq!(
        bench.admit(admission(5, 1)),
        Err(ClusterRejection::Expelled),
        "expelled again"
    );
}

#[test]
fn a_departure_is_final_and_can_be_told_twice() {
    let mut bench = Bench::of(3);
    assert_eq!(bench.leave(1), member(1));
    let version = bench.state.records()[1].version;
    assert_eq!(bench.leave(1), member(1));
    assert_eq!(
        bench.state.records()[1].version,
        version,
        "nothing new was said"
    );
    assert_eq!(bench.expel(1), Err(ClusterRejection::NoMember(MemberId(1))));
    assert_eq!(bench.expel(2), member(2));
    assert_eq!(bench.leave(2), Err(ClusterRejection::NoMember(MemberId(2))));
    assert_eq!(bench.leave(7), Err(ClusterRejection::NoMember(MemberId(7))));
    assert_eq!(bench.state.member(MemberId(1)).unwrap().ended_ms, Some(9));
}

#[test]
fn the_founder_may_go_but_not_the_last_that_may_vote() {
    let mut bench = Bench::new();
    bench
        .token(TokenIssue {
            votes: false,
            ..new_token(1, 9)
        })
        .unwrap();
    bench.admit(admission(1, 1)).unwrap();
    let last = |id| Err(ClusterRejection::LastVoter(MemberId(id)));
    assert_eq!(bench.leave(0), last(0));
    assert_eq!(bench.expel(0), last(0));
    assert_eq!(bench.leave(1), member(1), "who may not vote may go");
    bench.token(new_token(2, 9)).unwrap();
    bench.admit(admission(2, 2)).unwrap();
    assert_eq!(bench.leave(0), member(0));
    assert_eq!(bench.leave(0), member(0), "the same again");
    assert_eq!(bench.expel(2), last(2));
    assert!(last(2).unwrap_err().to_string().contains("first admit"));
}

#[test]
fn a_founding_keeps_what_voters_share() {
    let bench = Bench::of(2);
    assert_eq!(bench.state.secret(), Some(&Secret([102; 32])));
    let certificate: &[u8] = b"signed by the root key";
    assert_eq!(bench.state.certificate(), Some(certificate));
    assert!(!format!("{:?} {:?}", init(), bench.state).contains("102, 102"));
    let none = ClusterState::default();
    assert_eq!((none.secret(), none.certificate()), (None, None));
}

#[test]
fn a_certificate_is_bounded() {
    let long = |bytes| {
        let ClusterEntry::Init(mut init) = init() else {
            panic!("not the first entry")
        };
        init.certificate = vec![0; bytes];
        ClusterEntry::Init(init)
    };
    let mut state = ClusterState::default();
    let rejected = state.apply(1, &long(CERTIFICATE_BYTES_MAX + 1));
    assert_eq!(
        rejected,
        Err(ClusterRejection::Certificate(CERTIFICATE_BYTES_MAX + 1))
    );
    assert_eq!(state.cluster(), None);
    assert!(state.apply(2, &long(CERTIFICATE_BYTES_MAX)).is_ok());
}

#[test]
fn numbers_run_out_instead_of_being_given_twice() {
    let mut state = ClusterState::default();
    let mut apply = |index: usize, entry: &ClusterEntry| state.apply(index as u64, entry);
    apply(1, &init()).unwrap();
    apply(
        2,
        &ClusterEntry::TokenCreated(Box::new(new_token(1, 65_536))),
    )
    .unwrap();
    let admit = |number: usize| {
        let mut admission = admission(1, 0);
        admission.key.0[..8].copy_from_slice(&number.to_le_bytes());
        admission.name = format!("node-{number}").parse().unwrap();
        ClusterEntry::Admitted(Box::new(admission))
    };
    for number in 1..NUMBERS_MAX {
        apply(number + 2, &admit(number)).unwrap();
    }
    assert_eq!(
        apply(99_999, &admit(NUMBERS_MAX)),
        Err(ClusterRejection::Full)
    );
}

#[test]
fn the_feature_level_only_rises() {
    let mut bench = Bench::new();
    let level = |level| ClusterEntry::FeatureLevel { level };
    assert_eq!(bench.apply(&level(3)), Ok(ClusterApplied::Cluster));
    assert_eq!(
        bench.apply(&level(3)),
        Err(ClusterRejection::FeatureLevel(3))
    );
    assert_eq!(
        bench.apply(&level(2)),
        Err(ClusterRejection::FeatureLevel(3))
    );
    assert_eq!(bench.state.cluster().unwrap().feature_level, 3);
}

#[test]
fn snapshots_and_entries_of_other_releases_are_refused() {
    let mut snapshot = Bench::of(2).state.snapshot();
    assert!(ClusterState::restore(&snapshot[..snapshot.len() - 1]).is_err());
    snapshot[0] = 250;
    assert!(ClusterState::restore(&snapshot).is_err());
    assert!(ClusterState::restore(&[]).is_err());
    let mut entry = init().encode().unwrap();
    entry[0] = 250;
    assert!(ClusterEntry::decode(&entry).is_err());
    assert!(ClusterEntry::decode(&[]).is_err());
}
