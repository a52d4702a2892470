//! The bytes of the messages, which are frozen, and what else comes as bytes.

use super::world::{
    AskedNode, FOUNDER, FakeVerify, HashSigner, NEW, SEED, address, body, cluster_record, joiner,
    member_record, node_record, token, welcome,
};
use crate::join::{
    AdmissionRequest, Challenge, Claim, Hello, JoinRefusal, JoinRefused, JoinReply, JoinToken,
    JoinerMessage, JoinerStep, MessageError, Nonce, Proof, Prove, Welcome,
};

fn hello() -> JoinerMessage {
    JoinerMessage::Hello(Hello {
        key: NEW,
        nonce: Nonce([3; 32]),
        name: "n9".parse().unwrap(),
        rack: "r1".parse().unwrap(),
        agent_version: "0.1.0".parse().unwrap(),
        feature_level: 1,
    })
}

fn prove() -> JoinerMessage {
    JoinerMessage::Prove(Prove {
        token: token().id,
        proof: Proof([5; 32]),
    })
}

fn admission_request() -> AdmissionRequest {
    let claim = Claim {
        cluster: token().cluster,
        token: token().id,
        joiner: NEW,
        node: FOUNDER,
        joiner_nonce: Nonce([3; 32]),
        node_nonce: Nonce([4; 32]),
        name: "n9".parse().unwrap(),
        rack: "r1".parse().unwrap(),
        agent_version: "0.1.0".parse().unwrap(),
        feature_level: 1,
    };
    let proof = Proof::new(&claim, &token().key()).unwrap();
    AdmissionRequest { claim, proof }
}

fn challenge() -> JoinReply {
    JoinReply::Challenge(Challenge {
        cluster: cluster_record(1),
        member: member_record(0, &body(FOUNDER, "n0")),
        nonce: Nonce([4; 32]),
    })
}

fn refused() -> JoinReply {
    JoinReply::Refused(JoinRefused {
        refusal: JoinRefusal::Busy,
        retry_ms: 50_000,
    })
}

/// Each message by name: its bytes now, and those that were published.
fn messages() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let request = |request: JoinerMessage| request.encode().unwrap();
    let reply = |reply: JoinReply| reply.encode().unwrap();
    vec![
        ("hello", request(hello()), include_str!("golden/hello.hex")),
        ("prove", request(prove()), include_str!("golden/prove.hex")),
        (
            "admission_request",
            admission_request().encode().unwrap(),
            include_str!("golden/admission_request.hex"),
        ),
        (
            "challenge",
            reply(challenge()),
            include_str!("golden/challenge.hex"),
        ),
        (
            "welcome",
            reply(JoinReply::Welcome(welcome())),
            include_str!("golden/welcome.hex"),
        ),
        (
            "refused",
            reply(refused()),
            include_str!("golden/refused.hex"),
        ),
    ]
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(32).map(|line| {
        let digits: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        digits.concat() + "\n"
    });
    lines.collect()
}

#[test]
fn published_messages_keep_their_bytes() {
    for (name, bytes, golden) in messages() {
        assert_eq!(hex(&bytes), golden, "{name}");
    }
}

#[test]
fn messages_are_read_back() {
    for request in [hello(), prove()] {
        assert_eq!(
            JoinerMessage::decode(&request.encode().unwrap()),
            Ok(request)
        );
    }
    for reply in [challenge(), JoinReply::Welcome(welcome()), refused()] {
        assert_eq!(JoinReply::decode(&reply.encode().unwrap()), Ok(reply));
    }
    assert_eq!(
        AdmissionRequest::decode(&admission_request().encode().unwrap()),
        Ok(admission_request())
    );
}

#[test]
fn more_or_less_than_a_message_is_none() {
    for (name, bytes, _) in messages() {
        let read = |bytes: &[u8]| match name {
            "hello" | "prove" => JoinerMessage::decode(bytes).map(|_| ()),
            "admission_request" => AdmissionRequest::decode(bytes).map(|_| ()),
            _ => JoinReply::decode(bytes).map(|_| ()),
        };
        for length in 1..bytes.len() {
            assert_eq!(
                read(&bytes[..length]),
                Err(MessageError::Malformed),
                "{name} {length}"
            );
        }
        assert_eq!(
            read(&[&bytes[..], &[0]].concat()),
            Err(MessageError::Malformed),
            "{name}"
        );
        assert_eq!(read(&[]), Err(MessageError::Version(None)));
        assert_eq!(read(&[2]), Err(MessageError::Version(Some(2))));
        let long = [&bytes[..], &[0; 70_000]].concat();
        assert_eq!(
            read(&long),
            Err(MessageError::TooLong(long.len())),
            "{name}"
        );
    }
}

#[test]
fn a_list_of_records_is_not_believed_how_long_it_says_it_is() {
    let none = Welcome {
        seeds: Vec::new(),
        ..welcome()
    };
    let mut bytes = JoinReply::Welcome(none).encode().unwrap();
    assert_eq!(bytes.pop(), Some(0), "the length of the list");
    bytes.extend([0xff; 9]);
    bytes.push(0x01);
    assert_eq!(JoinReply::decode(&bytes), Err(MessageError::Malformed));
    let many = vec![node_record(1, &HashSigner(SEED)); 65];
    let bytes = JoinReply::Welcome(Welcome {
        seeds: many,
        ..welcome()
    })
    .encode()
    .unwrap();
    assert_eq!(JoinReply::decode(&bytes), Err(MessageError::Malformed));
}

/// A small generator of chance: the same seed, the same run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len().max(1));
            match self.below(4) {
                0 if !bytes.is_empty() => bytes[at] = self.byte(),
                1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                2 => bytes.truncate(at),
                _ => bytes.insert(at.min(bytes.len()), self.byte()),
            }
        }
    }
}

#[test]
fn no_bytes_make_a_decoder_panic() {
    let mut chance = Chance(1);
    let seeds = messages();
    let mut read = 0;
    for _ in 0..20_000 {
        let mut bytes = seeds[chance.below(seeds.len())].1.clone();
        chance.mutate(&mut bytes);
        read += usize::from(JoinerMessage::decode(&bytes).is_ok());
        read += usize::from(JoinReply::decode(&bytes).is_ok());
        read += usize::from(AdmissionRequest::decode(&bytes).is_ok());
        let mut text = token().text().into_bytes();
        chance.mutate(&mut text);
        read += usize::from(String::from_utf8_lossy(&text).parse::<JoinToken>().is_ok());
    }
    assert!(
        (1_000..70_000).contains(&read),
        "mutations are neither all read nor all refused"
    );
}

#[test]
fn a_flipped_bit_of_a_challenge_is_never_trusted() {
    let mut node = AskedNode::new();
    let out = node.ask(NEW, address(1), &joiner().hello().unwrap());
    let bytes = AskedNode::reply(&out);
    let nonce_at = bytes.len() - 32;
    for bit in 0..nonce_at * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let step = joiner().reply(&FOUNDER, &bytes, &FakeVerify);
        assert!(step.is_err(), "bit {bit} of the challenge: {step:?}");
    }
}

#[test]
fn a_flipped_bit_of_a_welcome_is_refused_or_drops_a_seed() {
    let clean = JoinReply::Welcome(welcome()).encode().unwrap();
    let mut node = AskedNode::new();
    let out = node.ask(NEW, address(1), &joiner().hello().unwrap());
    let challenge = AskedNode::reply(&out);
    for bit in 0..clean.len() * 8 {
        let mut bytes = clean.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let mut joiner = joiner();
        assert!(matches!(
            joiner.reply(&FOUNDER, &challenge, &FakeVerify),
            Ok(JoinerStep::Send(_))
        ));
        match joiner.reply(&FOUNDER, &bytes, &FakeVerify) {
            Err(_) => {}
            Ok(JoinerStep::Joined(joined)) => assert!(joined.dropped > 0, "bit {bit}"),
            Ok(JoinerStep::Send(_)) => panic!("bit {bit} asks for another proof"),
        }
    }
}
