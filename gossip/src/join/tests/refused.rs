use super::world::{
    FOUNDER, Fake, FakeVerify, GENERATION, NEW, Node, ROOT, address, body, cluster, cluster_record,
    cluster_record_by, joiner, judge, key, member_record, member_record_by, newcomer, token,
    version, welcome,
};
use crate::join::{
    Challenge, Error, Joiner, Nonce, Refusal, Reply, Request, Step, TokenSecret, TrustError,
    Welcome,
};
use crate::key::ClusterId;
use crate::record::{self, MemberState, RecordKey, Version};

const ALL: [Refusal; 15] = [
    Refusal::WrongSecret,
    Refusal::UnknownToken,
    Refusal::Expired,
    Refusal::UsedUp,
    Refusal::Revoked,
    Refusal::NameTaken,
    Refusal::KeyAdmitted,
    Refusal::Expelled,
    Refusal::Busy,
    Refusal::Unavailable,
    Refusal::Unsupported,
    Refusal::Outdated,
    Refusal::Malformed,
    Refusal::Full,
    Refusal::Late,
];

#[test]
fn every_refusal_reaches_the_joiner_and_is_counted() {
    for refusal in ALL {
        let mut node = Node::new();
        let error = node.attempt(&mut joiner(), NEW, address(1), |_| Err(refusal));
        let Err(Error::Refused {
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
    assert_eq!(Refusal::from(999), Refusal::Unknown(999));
    assert_eq!(u16::from(Refusal::Unknown(999)), 999);
    assert!(Refusal::Unknown(999).to_string().contains("reason 999"));
    for refusal in ALL {
        assert_eq!(Refusal::from(u16::from(refusal)), refusal);
    }
}

#[test]
fn a_wrong_secret_does_not_hold() {
    let mut wrong = token();
    wrong.secret = TokenSecret([8; 20]);
    let mut joiner = Joiner::new(wrong, newcomer(NEW), Nonce([3; 32]));
    let error = Node::new().attempt(&mut joiner, NEW, address(1), judge);
    let expected = Error::Refused {
        refusal: Refusal::WrongSecret,
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
    let old = Version {
        incarnation: 0,
        number: 9,
    };
    let found = ClusterId::of_root(&key(55));
    let cases = [
        (
            "another cluster's root",
            cluster_record_by(&Fake(key(55)), key(55), version(1)),
            admission.clone(),
            TrustError::OtherCluster {
                expected: cluster(),
                found,
            },
        ),
        (
            "the root key's name, signed by another",
            cluster_record_by(&Fake(key(55)), ROOT, version(1)),
            admission.clone(),
            TrustError::Record(record::Error::Signature),
        ),
        (
            "a cluster record of another generation than it says",
            cluster_record_by(&Fake(ROOT), ROOT, old),
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
            member_record_by(&Fake(key(55)), 0, &body(FOUNDER, "n0")),
            TrustError::Record(record::Error::Signature),
        ),
        (
            "an admission that the root key signed",
            cluster_record(1),
            member_record_by(&Fake(ROOT), 0, &body(FOUNDER, "n0")),
            TrustError::Record(record::Error::Signature),
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
            over(MemberState::Left),
            TrustError::Over,
        ),
        (
            "one expelled",
            cluster_record(1),
            over(MemberState::Expelled),
            TrustError::Over,
        ),
    ];
    for (what, cluster, member, error) in cases {
        let challenge = Challenge {
            cluster,
            member,
            nonce: Nonce([4; 32]),
        };
        let bytes = Reply::Challenge(challenge).encode().unwrap();
        let step = joiner().reply(&FOUNDER, &bytes, &FakeVerify);
        assert_eq!(step, Err(Error::Trust(error)), "{what}");
    }
}

#[test]
fn a_welcome_that_is_not_the_joiners_is_not_taken() {
    let other = |body: &_| Welcome {
        member: member_record(9, body),
        ..welcome()
    };
    let forged = member_record_by(&Fake(key(55)), 9, &body(NEW, "n9"));
    let mut expelled = body(NEW, "n9");
    expelled.state = MemberState::Expelled;
    let mut rack = body(NEW, "n9");
    rack.rack = "r2".to_owned();
    let cases = [
        (
            "somebody else's",
            other(&body(key(4), "n9")),
            Error::Trust(TrustError::OtherKey),
        ),
        (
            "another name",
            other(&body(NEW, "n8")),
            Error::OtherName("n8".to_owned()),
        ),
        (
            "another rack",
            other(&rack),
            Error::OtherName("n9".to_owned()),
        ),
        ("expelled", other(&expelled), Error::Trust(TrustError::Over)),
        (
            "forged",
            Welcome {
                member: forged,
                ..welcome()
            },
            Error::Trust(TrustError::Record(record::Error::Signature)),
        ),
        (
            "of an older cluster record",
            Welcome {
                cluster: cluster_record(0),
                ..welcome()
            },
            Error::Unexpected,
        ),
    ];
    for (what, welcome, error) in cases {
        let step = Node::new().attempt(&mut joiner(), NEW, address(1), |_| Ok(welcome));
        assert_eq!(step, Err(error), "{what}");
    }
}

#[test]
fn answers_out_of_turn_end_the_attempt() {
    let challenge = Reply::Challenge(Challenge {
        cluster: cluster_record(1),
        member: member_record(0, &body(FOUNDER, "n0")),
        nonce: Nonce([4; 32]),
    });
    let challenge = challenge.encode().unwrap();
    let welcome = Reply::Welcome(welcome()).encode().unwrap();
    let mut early = joiner();
    assert_eq!(
        early.reply(&FOUNDER, &welcome, &FakeVerify),
        Err(Error::Unexpected)
    );
    let mut twice = joiner();
    assert!(matches!(
        twice.reply(&FOUNDER, &challenge, &FakeVerify),
        Ok(Step::Send(_))
    ));
    assert_eq!(
        twice.reply(&FOUNDER, &challenge, &FakeVerify),
        Err(Error::Unexpected)
    );
    assert_eq!(
        twice.reply(&FOUNDER, &welcome, &FakeVerify),
        Err(Error::Unexpected)
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
        (newer, Refusal::Unsupported),
        (Vec::new(), Refusal::Unsupported),
        (longer, Refusal::Malformed),
        (hello[..hello.len() - 1].to_vec(), Refusal::Malformed),
        (vec![1; 100_000], Refusal::Malformed),
    ];
    for (bytes, refusal) in cases {
        let mut node = Node::new();
        let out = node.ask(NEW, address(1), &bytes);
        assert_eq!(Node::refusal(&out), (refusal, 0));
        assert_eq!(node.admitter.sessions(), 0);
    }
}

#[test]
fn a_hello_in_anothers_name_is_refused() {
    let mut node = Node::new();
    let out = node.ask(key(66), address(1), &joiner().hello().unwrap());
    assert_eq!(Node::refusal(&out), (Refusal::Malformed, 0));
}

#[test]
fn names_that_would_harm_a_reader_are_no_message() {
    let Ok(Request::Hello(hello)) = Request::decode(&joiner().hello().unwrap()) else {
        panic!("no hello")
    };
    let bytes = Request::Hello(hello).encode().unwrap();
    let at = bytes.windows(2).position(|two| two == b"n9").unwrap();
    for byte in [0, 7, 27, b'/', b' ', 0xff] {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        assert!(Request::decode(&bytes).is_err(), "{byte}");
    }
}
