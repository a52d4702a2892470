//! What somebody does who has seen a proof, or holds the wrong one.

use super::world::{FOUNDER, FakeVerify, NEW, Node, address, joiner, judge, key, newcomer, token};
use crate::join::{
    Claim, Input, Joiner, Nonce, Output, Petition, Proof, Refusal, Step, TokenId, TokenKey,
};
use crate::key::ClusterId;

/// Hello and challenge; gives what the joiner proves.
fn prove(node: &mut Node) -> Vec<u8> {
    let mut joiner = joiner();
    let out = node.ask(NEW, address(1), &joiner.hello().unwrap());
    match joiner.reply(&FOUNDER, &Node::reply(&out), &FakeVerify) {
        Ok(Step::Send(bytes)) => bytes,
        other => panic!("no proof: {other:?}"),
    }
}

type Change = fn(&mut Claim);

fn petition(out: &[Output]) -> Petition {
    match out {
        [Output::Judge { petition, .. }] => (**petition).clone(),
        other => panic!("no petition: {other:?}"),
    }
}

#[test]
fn a_proof_is_good_once() {
    let mut node = Node::new();
    let proof = prove(&mut node);
    let out = node.ask(NEW, address(1), &proof);
    let again = node.ask(NEW, address(1), &proof);
    assert_eq!(Node::refusal(&again).0, Refusal::Late);
    let [Output::Judge { ticket, petition }] = out.as_slice() else {
        panic!("no petition")
    };
    let verdict = judge(petition).map(Box::new);
    node.input(Input::Judged {
        ticket: *ticket,
        verdict,
    });
    let after = node.ask(NEW, address(1), &proof);
    assert_eq!(Node::refusal(&after).0, Refusal::Late);
}

#[test]
fn a_proof_for_an_older_challenge_does_not_hold() {
    let mut node = Node::new();
    let old = prove(&mut node);
    let _new = prove(&mut node);
    let out = node.ask(NEW, address(1), &old);
    assert_eq!(judge(&petition(&out)), Err(Refusal::WrongSecret));
}

#[test]
fn a_proof_sent_by_another_key_finds_no_challenge() {
    let mut node = Node::new();
    let proof = prove(&mut node);
    let out = node.ask(key(66), address(1), &proof);
    assert_eq!(Node::refusal(&out).0, Refusal::Late);
}

#[test]
fn a_proof_of_anothers_session_does_not_hold() {
    let mut node = Node::new();
    let proof = prove(&mut node);
    let thief = Joiner::new(token(), newcomer(key(66)), Nonce([3; 32]));
    node.ask(key(66), address(1), &thief.hello().unwrap());
    let out = node.ask(key(66), address(1), &proof);
    assert_eq!(judge(&petition(&out)), Err(Refusal::WrongSecret));
}

#[test]
fn a_proof_holds_for_exactly_what_was_claimed() {
    let mut node = Node::new();
    let proof = prove(&mut node);
    let Petition { claim, proof } = petition(&node.ask(NEW, address(1), &proof));
    let key_of = token().key();
    assert!(proof.holds(&claim, &key_of));
    let changes: [(&str, Change); 10] = [
        ("cluster", |claim| claim.cluster = ClusterId::default()),
        ("token", |claim| claim.token = TokenId([0; 5])),
        ("joiner", |claim| claim.joiner = key(66)),
        ("node", |claim| claim.node = key(66)),
        ("joiner's nonce", |claim| {
            claim.joiner_nonce = Nonce([0; 32])
        }),
        ("node's nonce", |claim| claim.node_nonce = Nonce([0; 32])),
        ("name", |claim| claim.name = "n8".parse().unwrap()),
        ("rack", |claim| claim.rack = "r2".parse().unwrap()),
        ("version", |claim| {
            claim.agent_version = "0.2.0".parse().unwrap()
        }),
        ("level", |claim| claim.feature_level = 2),
    ];
    for (what, change) in changes {
        let mut other = claim.clone();
        change(&mut other);
        assert!(!proof.holds(&other, &key_of), "another {what}");
    }
    assert!(!proof.holds(&claim, &TokenKey([0; 32])));
    for byte in 0..32 {
        let mut flipped = proof;
        flipped.0[byte] ^= 1;
        assert!(!flipped.holds(&claim, &key_of), "byte {byte}");
    }
    assert_eq!(Proof::new(&claim, &key_of), Ok(proof));
}

#[test]
fn words_cannot_be_moved_between_name_and_rack() {
    let mut node = Node::new();
    let proof = prove(&mut node);
    let Petition { mut claim, proof } = petition(&node.ask(NEW, address(1), &proof));
    claim.name = "n9r".parse().unwrap();
    claim.rack = "1".parse().unwrap();
    assert!(!proof.holds(&claim, &token().key()));
}

#[test]
fn a_node_in_the_middle_gets_no_proof_that_it_can_use() {
    // It shows the founder's records over a connection of its own key.
    let mut node = Node::new();
    let mut joiner = joiner();
    let out = node.ask(NEW, address(1), &joiner.hello().unwrap());
    let step = joiner.reply(&key(66), &Node::reply(&out), &FakeVerify);
    assert!(step.is_err(), "{step:?}");
}
