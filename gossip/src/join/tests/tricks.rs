//! What somebody does who has seen a proof, or holds the wrong one.

use super::world::{
    AskedNode, FOUNDER, FakeVerify, NEW, address, joiner, judge, key, newcomer, token,
};
use crate::join::{
    AdmissionRequest, AdmitterInput, AdmitterOutput, Claim, JoinRefusal, Joiner, JoinerStep, Nonce,
    Proof, TokenId, TokenKey,
};
use crate::key::ClusterId;

/// Hello and challenge; gives what the joiner proves.
fn prove(node: &mut AskedNode) -> Vec<u8> {
    let mut joiner = joiner();
    let out = node.ask(NEW, address(1), &joiner.hello().unwrap());
    match joiner.reply(&FOUNDER, &AskedNode::reply(&out), &FakeVerify) {
        Ok(JoinerStep::Send(bytes)) => bytes,
        other => panic!("no proof: {other:?}"),
    }
}

type ClaimTrick = fn(&mut Claim);

fn admission_request(out: &[AdmitterOutput]) -> AdmissionRequest {
    match out {
        [
            AdmitterOutput::Judge {
                admission_request, ..
            },
        ] => (**admission_request).clone(),
        other => panic!("no admission request: {other:?}"),
    }
}

#[test]
fn a_proof_is_good_once() {
    let mut node = AskedNode::new();
    let proof = prove(&mut node);
    let out = node.ask(NEW, address(1), &proof);
    let again = node.ask(NEW, address(1), &proof);
    assert_eq!(AskedNode::refusal(&again).0, JoinRefusal::Late);
    let [
        AdmitterOutput::Judge {
            ticket,
            admission_request,
        },
    ] = out.as_slice()
    else {
        panic!("no admission request")
    };
    let verdict = judge(admission_request).map(Box::new);
    node.input(AdmitterInput::Judged {
        ticket: *ticket,
        verdict,
    });
    let after = node.ask(NEW, address(1), &proof);
    assert_eq!(AskedNode::refusal(&after).0, JoinRefusal::Late);
}

#[test]
fn a_proof_for_an_older_challenge_does_not_hold() {
    let mut node = AskedNode::new();
    let old = prove(&mut node);
    let _new = prove(&mut node);
    let out = node.ask(NEW, address(1), &old);
    assert_eq!(
        judge(&admission_request(&out)),
        Err(JoinRefusal::WrongSecret)
    );
}

#[test]
fn a_proof_sent_by_another_key_finds_no_challenge() {
    let mut node = AskedNode::new();
    let proof = prove(&mut node);
    let out = node.ask(key(66), address(1), &proof);
    assert_eq!(AskedNode::refusal(&out).0, JoinRefusal::Late);
}

#[test]
fn a_proof_of_anothers_session_does_not_hold() {
    let mut node = AskedNode::new();
    let proof = prove(&mut node);
    let thief = Joiner::new(token(), newcomer(key(66)), Nonce([3; 32]));
    node.ask(key(66), address(1), &thief.hello().unwrap());
    let out = node.ask(key(66), address(1), &proof);
    assert_eq!(
        judge(&admission_request(&out)),
        Err(JoinRefusal::WrongSecret)
    );
}

#[test]
fn a_proof_holds_for_exactly_what_was_claimed() {
    let mut node = AskedNode::new();
    let proof = prove(&mut node);
    let AdmissionRequest { claim, proof } = admission_request(&node.ask(NEW, address(1), &proof));
    let key_of = token().key();
    assert!(proof.holds(&claim, &key_of));
    let changes: [(&str, ClaimTrick); 10] = [
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
    let mut node = AskedNode::new();
    let proof = prove(&mut node);
    let AdmissionRequest { mut claim, proof } =
        admission_request(&node.ask(NEW, address(1), &proof));
    claim.name = "n9r".parse().unwrap();
    claim.rack = "1".parse().unwrap();
    assert!(!proof.holds(&claim, &token().key()));
}

#[test]
fn a_node_in_the_middle_gets_no_proof_that_it_can_use() {
    // It shows the founder's records over a connection of its own key.
    let mut node = AskedNode::new();
    let mut joiner = joiner();
    let out = node.ask(NEW, address(1), &joiner.hello().unwrap());
    let step = joiner.reply(&key(66), &AskedNode::reply(&out), &FakeVerify);
    assert!(step.is_err(), "{step:?}");
}
