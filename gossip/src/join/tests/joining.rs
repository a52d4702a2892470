use super::world::{
    AskedNode, FOUNDER, FakeVerify, HashSigner, NEW, SEED, address, body, cluster_record, joiner,
    judge, key, member_record, member_record_by, node_record, welcome,
};
use crate::join::{JoinReply, JoinerStep, REPLY_BYTES_MAX, SEEDS_MAX, Welcome};
use crate::member::MemberId;
use crate::record::RecordKey;

fn joined(step: JoinerStep) -> crate::join::JoinedMember {
    match step {
        JoinerStep::Joined(joined) => *joined,
        JoinerStep::Send(_) => panic!("not joined"),
    }
}

#[test]
fn a_token_makes_a_stranger_a_member() {
    let mut node = AskedNode::new();
    let step = node.attempt(&mut joiner(), NEW, address(1), judge).unwrap();
    let joined = joined(step);
    assert_eq!(joined.member, MemberId(9));
    assert_eq!(joined.admission, body(NEW, "n9"));
    let keys: Vec<_> = joined.records.iter().map(|record| record.key).collect();
    let expected = [
        RecordKey::Cluster,
        RecordKey::Member(MemberId(9)),
        RecordKey::Member(MemberId(0)),
        RecordKey::Member(MemberId(1)),
        RecordKey::Node(MemberId(1)),
    ];
    assert_eq!(keys, expected);
    assert_eq!(joined.dropped, 0);
    assert_eq!(node.admitter.welcomed(), 1);
    assert_eq!(node.admitter.sessions(), 0);
    assert!(node.admitter.refused().is_empty());
}

#[test]
fn a_stranger_learns_the_cluster_and_the_asked_node_alone() {
    let mut node = AskedNode::new();
    let out = node.ask(NEW, address(1), &joiner().hello().unwrap());
    let JoinReply::Challenge(challenge) = JoinReply::decode(&AskedNode::reply(&out)).unwrap()
    else {
        panic!("no challenge")
    };
    assert_eq!(challenge.cluster, cluster_record(1));
    assert_eq!(challenge.member, member_record(0, &body(FOUNDER, "n0")));
}

#[test]
fn seeds_that_are_not_genuine_are_left_out() {
    let mut node = AskedNode::new();
    let seeds = [
        member_record(1, &body(SEED, "n1")),
        node_record(1, &HashSigner(key(77))),
        member_record_by(&HashSigner(key(77)), 2, &body(key(3), "n2")),
        node_record(2, &HashSigner(key(3))),
        cluster_record(7),
    ];
    let judge = |_: &_| Ok(Welcome::new(welcome().member, cluster_record(1), seeds));
    let step = node.attempt(&mut joiner(), NEW, address(1), judge).unwrap();
    let joined = joined(step);
    assert_eq!(joined.dropped, 4);
    assert_eq!(
        joined.records.last().unwrap().key,
        RecordKey::Member(MemberId(1))
    );
}

#[test]
fn a_welcome_carries_as_many_seeds_as_fit() {
    let member = welcome().member;
    let small = (0..100).map(|id| member_record(id, &body(key(1), "n")));
    let welcome = Welcome::new(member.clone(), cluster_record(1), small);
    assert_eq!(welcome.seeds.len(), 2 * SEEDS_MAX);
    let mut long = body(key(1), "n");
    long.rack = "x".repeat(15_000);
    let large = (0..100).map(|id| member_record(id, &long));
    let welcome = Welcome::new(member, cluster_record(1), large);
    assert_eq!(welcome.seeds.len(), 4);
    let bytes = JoinReply::Welcome(welcome.clone()).encode().unwrap();
    assert!(bytes.len() <= REPLY_BYTES_MAX);
    assert_eq!(JoinReply::decode(&bytes), Ok(JoinReply::Welcome(welcome)));
}

#[test]
fn newer_records_are_shown_once_known() {
    let mut node = AskedNode::new();
    let member = member_record(0, &body(FOUNDER, "n0"));
    node.admitter.show(cluster_record(5), member);
    let out = node.ask(NEW, address(1), &joiner().hello().unwrap());
    let step = joiner().reply(&FOUNDER, &AskedNode::reply(&out), &FakeVerify);
    assert!(matches!(step, Ok(JoinerStep::Send(_))));
}
