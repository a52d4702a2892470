use super::world::{AskedNode, NEW, address, joiner, judge, key, newcomer, token};
use crate::join::{
    AdmitterConfig, AdmitterInput, AdmitterOutput, JoinRefusal, JoinReply, Joiner, JoinerError,
    JoinerMessage, JoinerStep, Nonce, Proof, ProofSource, Prove, TokenId, WINDOW_MS,
    WRONG_PROOFS_MAX, WrongProofs,
};
use muster_model::time::Time;

fn refused(result: Result<JoinerStep, JoinerError>) -> (JoinRefusal, u32) {
    match result {
        Err(JoinerError::Refused { refusal, retry_ms }) => (refusal, retry_ms),
        other => panic!("not refused: {other:?}"),
    }
}

/// Ten wrong proofs, a second apart.
fn guess(node: &mut AskedNode, host: impl Fn(u8) -> u8, verdict: JoinRefusal) {
    for attempt in 0..10 {
        let from = address(host(attempt));
        let told = refused(node.attempt(&mut joiner(), NEW, from, |_| Err(verdict)));
        assert_eq!(told, (verdict, 0), "attempt {attempt}");
        node.wait_ms(1_000);
    }
}

#[test]
fn an_address_has_ten_wrong_proofs_a_minute() {
    let mut node = AskedNode::new();
    guess(&mut node, |_| 1, JoinRefusal::UnknownToken);
    let (refusal, retry_ms) = refused(node.attempt(&mut joiner(), NEW, address(1), judge));
    assert_eq!((refusal, retry_ms), (JoinRefusal::Busy, 50_000));
    assert!(
        node.attempt(&mut joiner(), NEW, address(2), judge).is_ok(),
        "another address"
    );
    node.wait_ms(49_999);
    assert_eq!(
        refused(node.attempt(&mut joiner(), NEW, address(1), judge)).0,
        JoinRefusal::Busy
    );
    node.wait_ms(1);
    assert!(
        node.attempt(&mut joiner(), NEW, address(1), judge).is_ok(),
        "a minute later"
    );
}

#[test]
fn a_token_has_ten_wrong_proofs_a_minute_from_anywhere() {
    let mut node = AskedNode::new();
    guess(&mut node, |attempt| attempt, JoinRefusal::WrongSecret);
    let told = refused(node.attempt(&mut joiner(), NEW, address(99), judge));
    assert_eq!(told, (JoinRefusal::Busy, 50_000));
    assert_eq!(node.admitter.sessions(), 0);
    let mut other = token();
    other.id = TokenId([9; 5]);
    let mut other = Joiner::new(other, newcomer(NEW), Nonce([3; 32]));
    let told = refused(node.attempt(&mut other, NEW, address(99), judge));
    assert_eq!(told.0, JoinRefusal::UnknownToken, "another token is judged");
}

#[test]
fn what_holds_does_not_count() {
    let mut node = AskedNode::new();
    for attempt in 0..50 {
        let step = node.attempt(&mut joiner(), NEW, address(1), judge);
        assert!(step.is_ok(), "attempt {attempt}");
    }
    for attempt in 0..50 {
        let told = node.attempt(&mut joiner(), NEW, address(1), |_| Err(JoinRefusal::UsedUp));
        assert_eq!(refused(told).0, JoinRefusal::UsedUp, "attempt {attempt}");
    }
}

#[test]
fn the_table_of_who_was_wrong_is_bounded() {
    let mut attempts = WrongProofs::default();
    let who = |n: u32| ProofSource::address(std::net::Ipv4Addr::from_bits(n).into());
    for n in 0..10_000 {
        attempts.wrong(Time(u64::from(n)), who(n));
        assert!(attempts.len() <= 4_096);
    }
    for _ in 0..WRONG_PROOFS_MAX {
        attempts.wrong(Time(10_000), who(9_999));
    }
    assert!(
        attempts.wait_ms(Time(10_000), who(9_999)).is_some(),
        "the newest is kept"
    );
    attempts.wrong(Time(20_000).plus_millis(WINDOW_MS), who(20_000));
    assert_eq!(attempts.len(), 1, "what is over goes first");
}

#[test]
fn one_ipv6_network_is_one_stranger() {
    let who = |text: &str| ProofSource::address(text.parse().unwrap());
    assert_eq!(who("2001:db8::1"), who("2001:db8::ffff:2"));
    assert_ne!(who("2001:db8::1"), who("2001:db8:0:1::1"));
    assert_eq!(who("::ffff:10.0.0.1"), who("10.0.0.1"));
}

/// The hello of the nth stranger.
fn hello(node: &mut AskedNode, n: u8, host: u8) -> Vec<AdmitterOutput> {
    let stranger = Joiner::new(token(), newcomer(key(n)), Nonce([n; 32]));
    node.ask(key(n), address(host), &stranger.hello().unwrap())
}

fn is_busy(out: &[AdmitterOutput]) -> bool {
    matches!(JoinReply::decode(&AskedNode::reply(out)),
        Ok(JoinReply::Refused(refused)) if refused.refusal == JoinRefusal::Busy)
}

#[test]
fn strangers_who_only_say_hello_fill_no_memory() {
    let config = AdmitterConfig {
        sessions_max: 5,
        address_sessions_max: 3,
        ..AdmitterConfig::default()
    };
    let mut node = AskedNode::with(config);
    let busy: Vec<bool> = (0..4).map(|n| is_busy(&hello(&mut node, n, 1))).collect();
    assert_eq!(busy, [false, false, false, true], "of one address");
    let busy: Vec<bool> = (10..13).map(|n| is_busy(&hello(&mut node, n, 2))).collect();
    assert_eq!(busy, [false, false, true], "of all");
    assert!(!is_busy(&hello(&mut node, 0, 1)), "the same stranger again");
    assert_eq!(node.admitter.sessions(), 5);
    let deadline = node.admitter.deadline().unwrap();
    node.now = deadline;
    assert_eq!(node.input(AdmitterInput::Tick), []);
    assert_eq!(node.admitter.sessions(), 0);
    assert!(!is_busy(&hello(&mut node, 20, 1)));
    assert_eq!(node.admitter.refused()[&JoinRefusal::Busy], 2);
}

#[test]
fn a_proof_for_a_challenge_that_is_over_comes_late() {
    let mut node = AskedNode::new();
    hello(&mut node, 9, 1);
    node.wait_ms(AdmitterConfig::default().challenge_ms);
    let prove = Prove {
        token: token().id,
        proof: Proof([0; 32]),
    };
    let out = node.ask(
        key(9),
        address(1),
        &JoinerMessage::Prove(prove).encode().unwrap(),
    );
    assert_eq!(AskedNode::refusal(&out).0, JoinRefusal::Late);
}

#[test]
fn an_authority_that_does_not_answer_is_told_of() {
    let mut node = AskedNode::new();
    hello(&mut node, 9, 1);
    let prove = Prove {
        token: token().id,
        proof: Proof([0; 32]),
    };
    let prove = JoinerMessage::Prove(prove).encode().unwrap();
    let out = node.ask(key(9), address(1), &prove);
    let [AdmitterOutput::Judge { ticket, .. }] = out.as_slice() else {
        panic!("no admission request")
    };
    assert!(is_busy(&hello(&mut node, 9, 1)), "while it is judged");
    node.wait_ms(AdmitterConfig::default().judge_ms);
    let out = node.input(AdmitterInput::Tick);
    assert_eq!(AskedNode::refusal(&out).0, JoinRefusal::Unavailable);
    let late = AdmitterInput::Judged {
        ticket: *ticket,
        verdict: Err(JoinRefusal::Full),
    };
    assert_eq!(node.input(late), [], "the verdict comes too late");
}
