use muster_gossip::join::{AdmissionRequest, Claim, JoinRefusal, Nonce, Proof};
use muster_gossip::member::MemberId;

use super::world::{Bench, DAY_MS, admission, key, new_token, token, whole_token};
use crate::cluster::{ClusterEntry, Judgement};

fn claim(by: u8, number: u8) -> Claim {
    let admission = admission(by, number);
    Claim {
        cluster: whole_token(by).cluster,
        token: token(by),
        joiner: admission.key,
        node: key(0),
        joiner_nonce: Nonce([1; 32]),
        node_nonce: Nonce([2; 32]),
        name: admission.name,
        rack: admission.rack,
        agent_version: "0.1.0".parse().unwrap(),
        feature_level: 1,
    }
}

fn prove(claim: Claim, by: u8) -> AdmissionRequest {
    let proof = Proof::new(&claim, &whole_token(by).key()).unwrap();
    AdmissionRequest { claim, proof }
}

fn admission_request(by: u8, number: u8) -> AdmissionRequest {
    prove(claim(by, number), by)
}

#[test]
fn who_proves_a_good_token_is_proposed() {
    let mut bench = Bench::new();
    bench.token(new_token(1, 1)).unwrap();
    let entry = ClusterEntry::Admitted(Box::new(admission(1, 5)));
    let judgement = bench.state.judge(&admission_request(1, 5), 3).unwrap();
    assert_eq!(judgement, Judgement::Propose(entry.clone()));
    bench.apply(&entry).unwrap();
    let again = bench.state.judge(&admission_request(1, 5), 3);
    assert_eq!(
        again,
        Ok(Judgement::Admitted(MemberId(1))),
        "its answer was lost"
    );
}

#[test]
fn each_refusal_has_its_reason() {
    let mut bench = Bench::of(3);
    bench.token(new_token(1, 1)).unwrap();
    bench.admit(admission(1, 9)).unwrap();
    bench.token(new_token(2, 1)).unwrap();
    bench
        .apply(&ClusterEntry::TokenRevoked {
            id: token(2),
            at_ms: 5,
        })
        .unwrap();
    bench.expel(2).unwrap();
    bench.token(new_token(3, 9)).unwrap();
    let other = |change: fn(&mut Claim)| {
        let mut claim = claim(3, 5);
        change(&mut claim);
        prove(claim, 3)
    };
    let cases = [
        (
            "unknown",
            admission_request(7, 5),
            3,
            JoinRefusal::UnknownToken,
        ),
        (
            "wrong secret",
            prove(claim(3, 5), 4),
            3,
            JoinRefusal::WrongSecret,
        ),
        (
            "another token's secret",
            prove(claim(1, 5), 3),
            3,
            JoinRefusal::WrongSecret,
        ),
        ("used up", admission_request(1, 5), 3, JoinRefusal::UsedUp),
        ("revoked", admission_request(2, 5), 3, JoinRefusal::Revoked),
        (
            "expired",
            admission_request(3, 5),
            DAY_MS,
            JoinRefusal::Expired,
        ),
        (
            "expelled",
            admission_request(200, 2),
            3,
            JoinRefusal::Expelled,
        ),
        (
            "name",
            other(|claim| claim.name = "n1".parse().unwrap()),
            3,
            JoinRefusal::NameTaken,
        ),
        (
            "key",
            other(|claim| claim.joiner = key(1)),
            3,
            JoinRefusal::KeyAdmitted,
        ),
        (
            "old release",
            other(|claim| claim.feature_level = 0),
            3,
            JoinRefusal::Outdated,
        ),
        (
            "another cluster",
            other(|claim| claim.cluster.0[0] ^= 1),
            3,
            JoinRefusal::WrongSecret,
        ),
        (
            "asked no member",
            other(|claim| claim.node = key(77)),
            3,
            JoinRefusal::Unavailable,
        ),
        (
            "asked one expelled",
            other(|claim| claim.node = key(2)),
            3,
            JoinRefusal::Unavailable,
        ),
    ];
    for (what, admission_request, now_ms, refusal) in cases {
        assert_eq!(
            bench.state.judge(&admission_request, now_ms),
            Err(refusal),
            "{what}"
        );
    }
    assert!(bench.state.judge(&admission_request(3, 5), 3).is_ok());
}

#[test]
fn a_stranger_learns_nothing_of_a_token_that_it_cannot_prove() {
    let mut bench = Bench::new();
    for number in [1, 2, 3] {
        bench.token(new_token(number, 1)).unwrap();
    }
    bench.admit(admission(1, 9)).unwrap();
    bench
        .apply(&ClusterEntry::TokenRevoked {
            id: token(2),
            at_ms: 5,
        })
        .unwrap();
    for by in [1, 2, 3] {
        for now_ms in [3, 2 * DAY_MS] {
            let wrong = prove(claim(by, 5), 77);
            assert_eq!(
                bench.state.judge(&wrong, now_ms),
                Err(JoinRefusal::WrongSecret)
            );
        }
    }
}

#[test]
fn what_is_rejected_after_all_is_refused_with_the_same_reason() {
    let mut bench = Bench::new();
    bench.token(new_token(1, 1)).unwrap();
    let Ok(Judgement::Propose(late)) = bench.state.judge(&admission_request(1, 5), 3) else {
        panic!("not proposed")
    };
    bench.admit(admission(1, 6)).unwrap();
    let rejected = bench.apply(&late).unwrap_err();
    assert_eq!(rejected.refusal(), JoinRefusal::UsedUp);
}

#[test]
fn before_there_is_a_cluster_nobody_joins() {
    let state = crate::cluster::ClusterState::default();
    assert_eq!(
        state.judge(&admission_request(1, 5), 3),
        Err(JoinRefusal::Unavailable)
    );
}
