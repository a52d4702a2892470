use super::world::{
    AskedNode, FOUNDER, FakeVerify, GENERATION, HashSigner, NEW, ROOT, address, body, cluster,
    cluster_record, cluster_record_by, joiner, judge, key, member_record, member_record_by,
    newcomer, token, version, welcome,
};
use crate::join::{
    Challenge, JoinRefusal, JoinReply, Joiner, JoinerError, JoinerMessage, JoinerStep, Nonce,
    TokenSecret, TrustError, Welcome,
};
use crate::key::ClusterId;
use crate::record::{self, AdmissionState, RecordKey, RecordVersion};

const ALL: [JoinRefusal; 15] = [
    JoinRefusal::WrongSecret,
    JoinRefusal::UnknownToken,
    JoinRefusal::Expired,
    JoinRefusal::UsedUp,
    JoinRefusal::Revoked,
    JoinRefusal::NameTaken,
    JoinRefusal::KeyAdmitted,
    JoinRefusal::Expelled,
    JoinRefusal::Busy,
    JoinRefusal::Unavailable,
    JoinRefusal::Unsupported,
    JoinRefusal::Outdated,
    JoinRefusal::Malformed,
    JoinRefusal::Full,
    JoinRefusal::Late,
];

#[test]
fn every_refusal_reaches_the_joiner_and_is_counted() {
    for refusal in ALL {
        let mut node = AskedNode::new();
        let error = node.attempt(&mut joiner(), NEW, address(1), |_| Err(refusal));
        let Err(JoinerError::Refused {
            refusal: told,
            retry_ms,
        }) = error
        else {
            panic!("{refusal:?} was not told: {error:?}")
        };
        assert_eq!(told, refusal);
        assert_eq!(retry_ms > 0, refusal.passes());
        assert_eq!(node.admitter.refused()[&refusal], 1);
        assert_eq!(node.admitter.welcomed(), 0);
    }
}

#[test]
fn a_refusal_of_a_later_release_is_told_by_its_number() {
    assert_eq!(JoinRefusal::from(999), JoinRefusal::Unknown(999));
    assert_eq!(u16::from(JoinRefusal::Unknown(999)), 999);
    assert!(JoinRefusal::Unknown(999).to_string().contains("reason 999"));
    for refusal in ALL {
        assert_eq!(JoinRefusal::from(u16::from(refusal)), refusal);
    }
}

#[test]
fn a_wrong_secret_does_not_hold() {
    let mut wrong = token();
    wrong.secret = TokenSecret([8; 20]);
    let mut joiner = Joiner::new(wrong, newcomer(NEW), Nonce([3; 32]));
    let error = AskedNode::new().attempt(&mut joiner, NEW, address(1), judge);
    let expected = JoinerError::Refused {
        refusal: JoinRefusal::WrongSecret,
        retry_ms: 0,
    };
    assert_eq!(error, Err(expected));
}

#[test]
fn nothing_is_proved_to_who_cannot_show_the_root_of_the_token() {
    let admission = member_record(0, &body(FOUNDER, "n0"));
    let over = |state| {
        member_record(
            0,
            &record::MemberBody {
                state,
                ..body(FOUNDER, "n0")
            },
        )
    };
    let old = RecordVersion {
        incarnation: 0,
        number: 9,
    };
    let found = ClusterId::of_root(&key(55));
    let cases = [
        (
            "another cluster's root",
            cluster_record_by(&HashSigner(key(55)), key(55), version(1)),
            admission.clone(),
            TrustError::OtherCluster {
                expected: cluster(),
                found,
            },
        ),
        (
            "the root key's name, signed by another",
            cluster_record_by(&HashSigner(key(55)), ROOT, version(1)),
            admission.clone(),
            TrustError::Record(record::RecordError::Signature),
        ),
        (
            "a cluster record of another generation than it says",
            cluster_record_by(&HashSigner(ROOT), ROOT, old),
            admission.clone(),
            TrustError::Generation {
                expected: GENERATION,
                found: 0,
            },
        ),
        (
            "no cluster record",
            admission.clone(),
            admission.clone(),
            TrustError::Kind(admission.key),
        ),
        (
            "an admission that the cluster did not sign",
            cluster_record(1),
            member_record_by(&HashSigner(key(55)), 0, &body(FOUNDER, "n0")),
            TrustError::Record(record::RecordError::Signature),
        ),
        (
            "an admission that the root key signed",
            cluster_record(1),
            member_record_by(&HashSigner(ROOT), 0, &body(FOUNDER, "n0")),
            TrustError::Record(record::RecordError::Signature),
        ),
        (
            "somebody else's admission",
            cluster_record(1),
            member_record(0, &body(key(4), "n0")),
            TrustError::OtherKey,
        ),
        (
            "no admission",
            cluster_record(1),
            cluster_record(1),
            TrustError::Kind(RecordKey::Cluster),
        ),
        (
            "one that left",
            cluster_record(1),
            over(AdmissionState::Left),
            TrustError::Over,
        ),
        (
            "one expelled",
            cluster_record(1),
            over(AdmissionState::Expelled),
            TrustError::Over,
        ),
    ];
    for (what, cluster, member, error) in cases {
        let challenge = Challenge {
            cluster,
            member,
            nonce: Nonce([4; 32]),
        };
        let bytes = JoinReply::Challenge(challenge).encode().unwrap();
        let step = joiner().reply(&FOUNDER, &bytes, &FakeVerify);
        assert_eq!(step, Err(JoinerError::Trust(error)), "{what}");
    }
}

#[test]
fn a_welcome_that_is_not_the_joiners_is_not_taken() {
    let other = |body: &_| Welcome {
        member: member_record(9, body),
        ..welcome()
    };
    let forged = member_record_by(&HashSigner(key(55)), 9, &body(NEW, "n9"));
    let mut expelled = body(NEW, "n9");
    expelled.state = AdmissionState::Expelled;
    let mut rack = body(NEW, "n9");
    rack.rack = "r2".to_owned();
    let cases = [
        (
            "somebody else's",
            other(&body(key(4), "n9")),
            JoinerError::Trust(TrustError::OtherKey),
        ),
        (
            "another name",
            other(&body(NEW, "n8")),
            JoinerError::OtherName("n8".to_owned()),
        ),
        (
            "another rack",
            other(&rack),
            JoinerError::OtherName("n9".to_owned()),
        ),
        (
            "expelled",
            other(&expelled),
            JoinerError::Trust(TrustError::Over),
        ),
        (
            "forged",
            Welcome {
                member: forged,
                ..welcome()
            },
            JoinerError::Trust(TrustError::Record(record::RecordError::Signature)),
        ),
        (
            "of an older cluster record",
            Welcome {
                cluster: cluster_record(0),
                ..welcome()
            },
            JoinerError::Unexpected,
        ),
    ];
    for (what, welcome, error) in cases {
        let step = AskedNode::new().attempt(&mut joiner(), NEW, address(1), |_| Ok(welcome));
        assert_eq!(step, Err(error), "{what}");
    }
}

#[test]
fn answers_out_of_turn_end_the_attempt() {
    let challenge = JoinReply::Challenge(Challenge {
        cluster: cluster_record(1),
        member: member_record(0, &body(FOUNDER, "n0")),
        nonce: Nonce([4; 32]),
    });
    let challenge = challenge.encode().unwrap();
    let welcome = JoinReply::Welcome(welcome()).encode().unwrap();
    let mut early = joiner();
    assert_eq!(
        early.reply(&FOUNDER, &welcome, &FakeVerify),
        Err(JoinerError::Unexpected)
    );
    let mut twice = joiner();
    assert!(matches!(
        twice.reply(&FOUNDER, &challenge, &FakeVerify),
        Ok(JoinerStep::Send(_))
    ));
    assert_eq!(
        twice.reply(&FOUNDER, &challenge, &FakeVerify),
        Err(JoinerError::Unexpected)
    );
    assert_eq!(
        twice.reply(&FOUNDER, &welcome, &FakeVerify),
        Err(JoinerError::Unexpected)
    );
}

#[test]
fn messages_that_cannot_be_read_are_refused_by_name() {
    let hello = joiner().hello().unwrap();
    let mut newer = hello.clone();
    newer[0] = 2;
    let mut longer = hello.clone();
    longer.push(0);
    let cases = [
        (newer, JoinRefusal::Unsupported),
        (Vec::new(), JoinRefusal::Unsupported),
        (longer, JoinRefusal::Malformed),
        (hello[..hello.len() - 1].to_vec(), JoinRefusal::Malformed),
        (vec![1; 100_000], JoinRefusal::Malformed),
    ];
    for (bytes, refusal) in cases {
        let mut node = AskedNode::new();
        let out = node.ask(NEW, address(1), &bytes);
        assert_eq!(AskedNode::refusal(&out), (refusal, 0));
        assert_eq!(node.admitter.sessions(), 0);
    }
}

#[test]
fn a_hello_in_anothers_name_is_refused() {
    let mut node = AskedNode::new();
    let out = node.ask(key(66), address(1), &joiner().hello().unwrap());
    assert_eq!(AskedNode::refusal(&out), (JoinRefusal::Malformed, 0));
}

#[test]
fn names_that_would_harm_a_reader_are_no_message() {
    let Ok(JoinerMessage::Hello(hello)) = JoinerMessage::decode(&joiner().hello().unwrap()) else {
        panic!("no hello")
    };
    let bytes = JoinerMessage::Hello(hello).encode().unwrap();
    let at = bytes.windows(2).position(|two| two == b"n9").unwrap();
    for byte in [0, 7, 27, b'/', b' ', 0xff] {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        assert!(JoinerMessage::decode(&bytes).is_err(), "{byte}");
    }
}
