use muster_gossip::key::{ClusterId, NodeKey, Sign, Signature};
use muster_gossip::member::MemberId;
use muster_gossip::record::{
    self, AdmissionState, ClusterBody, Header, MemberBody, RecordKey, RecordVersion,
};

use super::world::{Bench, ROOT, RULES, SIGNING, admission, body, edit, key, new_token, step};
use crate::cluster::{
    CANARIES_MAX, CERTIFICATE_BYTES_MAX, Canary, ClusterIdentity, DocumentEdit, Statement,
    StatementBody, VersionStage,
};

/// What the cluster signs goes to every node at once: it has to stay small.
const SMALL_BYTES: usize = 2 << 10;

fn record(bench: &Bench, key: RecordKey) -> Statement {
    bench.state.record(key).unwrap()
}

#[test]
fn the_cluster_says_who_is_in_and_what_holds() {
    let mut bench = Bench::of(2);
    bench.edit(edit(0, 7)).unwrap();
    let keys: Vec<_> = bench
        .state
        .records()
        .iter()
        .map(|statement| statement.key)
        .collect();
    let expected = [
        RecordKey::Member(MemberId(0)),
        RecordKey::Member(MemberId(1)),
        RecordKey::Document(RULES),
    ];
    assert_eq!(keys, expected);
    let version = |number| RecordVersion {
        incarnation: 1,
        number,
    };
    let member = record(&bench, RecordKey::Member(MemberId(1)));
    let admission = MemberBody {
        key: key(1),
        name: "n1".to_owned(),
        rack: "r1".to_owned(),
        votes: true,
        state: AdmissionState::Admitted,
    };
    assert_eq!(member.body, StatementBody::Member(admission));
    assert_eq!(member.cluster, ClusterId::of_root(&ROOT));
    assert_eq!(member.version, version(3));
    let header = Header {
        version: 1,
        hash: body(7).hash,
        bytes: 10,
        chunks: body(7).chunks,
        stage: record::HeaderStage::Distribute,
        active: 0,
        active_body: None,
        author: "alice".to_owned(),
        at_ms: 1_000,
        forced: false,
    };
    let document = record(&bench, RecordKey::Document(RULES));
    assert_eq!(
        (document.version, document.body),
        (version(4), StatementBody::Document(header))
    );
    assert!(bench.state.record(RecordKey::Cluster).is_none());
    assert!(bench.state.record(RecordKey::Node(MemberId(0))).is_none());
    assert!(bench.state.record(RecordKey::Member(MemberId(9))).is_none());
}

#[test]
fn what_is_over_is_said_with_a_higher_version() {
    let mut bench = Bench::of(3);
    let before = bench.state.records();
    bench.leave(1).unwrap();
    bench.expel(2).unwrap();
    let state = |id| match record(&bench, RecordKey::Member(MemberId(id))).body {
        StatementBody::Member(body) => body.state,
        StatementBody::Document(_) => panic!("no admission"),
    };
    assert_eq!(
        (state(1), state(2)),
        (AdmissionState::Left, AdmissionState::Expelled)
    );
    for (old, new) in before.iter().zip(bench.state.records()) {
        assert_eq!(
            new.version > old.version,
            new.body != old.body,
            "{:?}",
            old.key
        );
    }
}

#[test]
fn a_header_follows_its_document() {
    let mut bench = Bench::of(3);
    let header = |bench: &Bench| match record(bench, RecordKey::Document(RULES)).body {
        StatementBody::Document(header) => header,
        StatementBody::Member(_) => panic!("no header"),
    };
    bench
        .edit(DocumentEdit {
            forced: true,
            ..edit(0, 1)
        })
        .unwrap();
    assert_eq!(
        (header(&bench).stage, header(&bench).active),
        (record::HeaderStage::Active, 1)
    );
    assert!(header(&bench).forced);
    bench.edit(edit(1, 2)).unwrap();
    assert_eq!((header(&bench).version, header(&bench).active), (2, 1));
    let canary = Canary {
        member: MemberId(2),
        incarnation: Default::default(),
    };
    bench
        .step(step(2, VersionStage::Canary(vec![canary])))
        .unwrap();
    assert_eq!(
        header(&bench).stage,
        record::HeaderStage::Canary(vec![MemberId(2)])
    );
    bench
        .step(step(2, VersionStage::Withdrawn("bad".to_owned())))
        .unwrap();
    assert_eq!(
        (header(&bench).stage, header(&bench).active),
        (record::HeaderStage::Withdrawn, 1)
    );
}

/// A signer of this key.
#[derive(Debug)]
struct FakeSigner(NodeKey);

impl Sign for FakeSigner {
    fn key(&self) -> NodeKey {
        self.0
    }

    fn sign(&self, _: &[u8]) -> Signature {
        Signature([1; 64])
    }
}

#[test]
fn the_root_key_certifies_the_signing_key() {
    let record = ClusterIdentity::certify(SIGNING, &FakeSigner(ROOT)).unwrap();
    let body = ClusterBody {
        root: ROOT,
        generation: 1,
        signing: SIGNING,
    };
    assert_eq!(record.body::<ClusterBody>(), Ok(body));
    assert_eq!(
        (record.key, record.cluster),
        (RecordKey::Cluster, ClusterId::of_root(&ROOT))
    );
    let version = RecordVersion {
        incarnation: 1,
        number: ClusterIdentity::RECORD,
    };
    assert_eq!(record.version, version);
    assert!(record.bytes().len() <= CERTIFICATE_BYTES_MAX);
}

#[test]
fn the_longest_statements_fit_into_records() {
    let mut bench = Bench::new();
    bench.token(new_token(1, 1_000)).unwrap();
    let mut long = admission(1, 1);
    long.name = "n".repeat(255).parse().unwrap();
    long.rack = "r".repeat(64).parse().unwrap();
    bench.admit(long).unwrap();
    for number in 2..=255 {
        bench.admit(admission(1, number)).unwrap();
    }
    let author = "a".repeat(255).parse().unwrap();
    bench
        .edit(DocumentEdit {
            author,
            at_ms: u64::MAX,
            ..edit(0, 1)
        })
        .unwrap();
    let canary = |id| Canary {
        member: MemberId(id),
        incarnation: Default::default(),
    };
    let canaries: Vec<_> = (0..256).map(canary).collect();
    assert_eq!(canaries.len(), CANARIES_MAX);
    bench.step(step(1, VersionStage::Canary(canaries))).unwrap();
    for statement in bench.state.records() {
        let record = statement.sign(&FakeSigner(SIGNING)).unwrap();
        assert!(record.bytes().len() <= SMALL_BYTES, "{record:?}");
        assert_eq!(
            (record.key, record.version),
            (statement.key, statement.version)
        );
    }
}
