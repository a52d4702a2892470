//! One of each frame and record, the same in every run. Their bytes are in `golden/`.

use std::sync::Arc;

use muster_gossip::frame::{
    Ack, Alert, BUCKETS, BucketDigest, BucketSummary, CARGO_BYTES_MAX, CHUNK_BYTES, Coverage,
    DocumentFrame, DocumentRef, MeshFrame, Probe, ProbeAnswer, Push, Want,
};
use muster_gossip::record::{
    AdmissionState, BodyId, ClusterBody, DocumentId, Header, HeaderStage, MemberBody, NodeBody,
    Record, RecordKey, RecordVersion, ReplacementBody, SelfHealth, SuspicionLevel, Vote, WatchBody,
};
use muster_gossip::{ClusterId, Incarnation, MemberId, NodeKey, Sign, Signature};
use serde::Serialize;

/// The samples' cluster.
pub(crate) const CLUSTER: ClusterId = ClusterId(*b"sample cluster!!");
/// The samples' generation.
pub(crate) const GENERATION: u32 = 3;

/// Signs nothing: what it returns does not depend on a key.
#[derive(Debug)]
pub(crate) struct Stamp;

impl Sign for Stamp {
    fn key(&self) -> NodeKey {
        NodeKey([7; 32])
    }

    fn sign(&self, bytes: &[u8]) -> Signature {
        let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        Signature([sum; 64])
    }
}

fn record(key: RecordKey, incarnation: u64, number: u64, body: &impl Serialize) -> Arc<Record> {
    let version = RecordVersion {
        incarnation,
        number,
    };
    Arc::new(Record::sign(CLUSTER, key, version, body, &Stamp).unwrap())
}

fn cluster_record() -> Arc<Record> {
    let body = ClusterBody {
        root: NodeKey([1; 32]),
        generation: GENERATION,
        signing: NodeKey([2; 32]),
    };
    record(RecordKey::Cluster, 3, 1, &body)
}

fn member_record() -> Arc<Record> {
    let body = MemberBody {
        key: NodeKey([4; 32]),
        name: "n-17".to_owned(),
        rack: "r2".to_owned(),
        votes: true,
        state: AdmissionState::Admitted,
    };
    record(RecordKey::Member(MemberId(17)), 3, 2, &body)
}

fn node_record() -> Arc<Record> {
    let body = NodeBody {
        run: 0x0102_0304_0506_0708,
        addresses: vec![
            "192.0.2.7:7740".parse().unwrap(),
            "[2001:db8::7]:7740".parse().unwrap(),
        ],
        agent_version: "0.1.0".to_owned(),
        problems: vec!["the disk is slow".to_owned()],
        payload: vec![0xde, 0xad, 0xbe, 0xef],
    };
    record(RecordKey::Node(MemberId(17)), 9, 300, &body)
}

fn watch_record() -> Arc<Record> {
    let vote = |subject, level, heard| Vote {
        subject: MemberId(subject),
        incarnation: Incarnation(4),
        level,
        heard,
    };
    let body = WatchBody {
        votes: vec![
            vote(3, SuspicionLevel::Sick, false),
            vote(300, SuspicionLevel::Doubt, true),
            vote(70_000, SuspicionLevel::Gone, false),
        ],
    };
    record(RecordKey::Watch(MemberId(17)), 9, 12, &body)
}

fn document_record(stage: HeaderStage, number: u64) -> Arc<Record> {
    let body = Header {
        version: 42,
        hash: [0xaa; 32],
        bytes: 1 << 20,
        chunks: [0xbb; 32],
        stage,
        active: 41,
        active_body: Some(BodyId {
            hash: [0xcc; 32],
            bytes: 70_000,
            chunks: [0xdd; 32],
        }),
        author: "admin".to_owned(),
        at_ms: 1_700_000_000_000,
        forced: false,
    };
    record(RecordKey::Document(DocumentId(1)), 3, number, &body)
}

fn replacement_record() -> Arc<Record> {
    let body = ReplacementBody {
        generation: 3,
        group: 0xeeee_0000_1111_2222,
        home: MemberId(17),
        store: 0x1234_5678_9abc_def0,
        before: vec![0xaaaa, 0xbbbb_0000],
    };
    record(RecordKey::Replacement, 3, 3, &body)
}

/// A record of each key, and a header in each stage.
pub(crate) fn records() -> Vec<(&'static str, Arc<Record>)> {
    let canary = HeaderStage::Canary(vec![MemberId(3), MemberId(500)]);
    vec![
        ("record-cluster", cluster_record()),
        ("record-member", member_record()),
        ("record-node", node_record()),
        ("record-watch", watch_record()),
        (
            "record-document",
            document_record(HeaderStage::Distribute, 80),
        ),
        ("record-document-canary", document_record(canary, 81)),
        (
            "record-document-active",
            document_record(HeaderStage::Active, 82),
        ),
        (
            "record-document-withdrawn",
            document_record(HeaderStage::Withdrawn, 83),
        ),
        ("record-replacement", replacement_record()),
    ]
}

/// A frame of each kind.
pub(crate) fn frames() -> Vec<(&'static str, MeshFrame)> {
    let mut frames = liveness();
    frames.extend(repair());
    let document = |(name, frame)| (name, MeshFrame::Document(frame));
    frames.extend(documents().into_iter().map(document));
    frames.push(("cargo", MeshFrame::Cargo(b"of its owner"[..].into())));
    frames
}

/// Frames as long as they get.
pub(crate) fn long_frames() -> Vec<MeshFrame> {
    let document = DocumentRef {
        id: DocumentId(1),
        version: 42,
    };
    let version = |number| RecordVersion {
        incarnation: 3,
        number: u64::from(number),
    };
    let versions = (0..20_000_u32).map(|id| (RecordKey::Node(MemberId(id)), version(id)));
    let summary = BucketSummary {
        buckets: (0..256).collect(),
        versions: versions.collect(),
    };
    let hashes = (0..=u8::MAX).map(|byte| [byte; 32]).collect();
    let bytes = (0..64 << 10).map(|at: u32| at.to_le_bytes()[0]).collect();
    let coverage = Coverage {
        document: Some(document),
        valid: vec![0xff; 1_250],
        rejected: vec![0; 1_250],
        active: vec![0x55; 1_250],
    };
    let chunk = DocumentFrame::Chunk {
        document,
        chunk: 3,
        bytes,
    };
    vec![
        MeshFrame::Summary(summary),
        MeshFrame::Push(Push {
            number: 1,
            records: vec![node_record(); 1_000],
        }),
        MeshFrame::Document(DocumentFrame::List { document, hashes }),
        MeshFrame::Document(chunk),
        MeshFrame::Document(DocumentFrame::Coverage(coverage)),
        MeshFrame::Cargo(vec![0x5a; CARGO_BYTES_MAX].into()),
    ]
}

fn liveness() -> Vec<(&'static str, MeshFrame)> {
    let probe = Probe {
        number: 1_000,
        incarnation: Incarnation(9),
        root: 0x1122_3344_5566_7788,
    };
    let answer = ProbeAnswer {
        number: 1_000,
        incarnation: Incarnation(8),
        root: 0x8877_6655_4433_2211,
        health: SelfHealth {
            loop_age_ms: 3,
            engine_age_ms: 200,
            device_age_ms: 0,
        },
        next_ms: 812,
    };
    let alert = Alert {
        subject: MemberId(17),
        incarnation: Incarnation(8),
    };
    vec![
        ("probe", MeshFrame::Probe(probe)),
        ("answer", MeshFrame::Answer(answer)),
        ("alert", MeshFrame::Alert(alert)),
    ]
}

fn repair() -> Vec<(&'static str, MeshFrame)> {
    let push = Push {
        number: 77,
        records: vec![member_record(), watch_record()],
    };
    let ack = Ack {
        numbers: vec![77, 78, 1 << 20],
    };
    let digest = BucketDigest {
        buckets: (0..BUCKETS as u64)
            .map(|bucket| bucket.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect(),
    };
    let version = |incarnation, number| RecordVersion {
        incarnation,
        number,
    };
    let summary = BucketSummary {
        buckets: vec![0, 17, 255],
        versions: vec![
            (RecordKey::Cluster, version(3, 1)),
            (RecordKey::Node(MemberId(17)), version(9, 300)),
            (RecordKey::Document(DocumentId(1)), version(3, 80)),
        ],
    };
    let want = Want {
        keys: vec![
            RecordKey::Member(MemberId(5)),
            RecordKey::Watch(MemberId(600)),
        ],
    };
    vec![
        ("push", MeshFrame::Push(push)),
        ("ack", MeshFrame::Ack(ack)),
        ("digest", MeshFrame::Digest(digest)),
        ("summary", MeshFrame::Summary(summary)),
        ("want", MeshFrame::Want(want)),
    ]
}

fn documents() -> Vec<(&'static str, DocumentFrame)> {
    let document = DocumentRef {
        id: DocumentId(1),
        version: 42,
    };
    let chunks = vec![0xff, 0x03];
    let hashes = vec![[0x11; 32], [0x22; 32]];
    let bytes = b"rules: []\n"[..].into();
    let chunk = 9;
    let coverage = Coverage {
        document: Some(document),
        valid: vec![0xff, 0x01],
        rejected: vec![0x00, 0x02],
        active: vec![0x05],
    };
    vec![
        ("have", DocumentFrame::Have { document, chunks }),
        ("get-list", DocumentFrame::GetList(document)),
        ("list", DocumentFrame::List { document, hashes }),
        ("get-chunk", DocumentFrame::GetChunk { document, chunk }),
        (
            "chunk",
            DocumentFrame::Chunk {
                document,
                chunk,
                bytes,
            },
        ),
        ("lack", DocumentFrame::Lack { document }),
        ("coverage", DocumentFrame::Coverage(coverage)),
    ]
}

/// The header of a version with this body, just ordered.
pub(crate) fn header_of(version: u64, body: &[u8]) -> Header {
    let BodyId {
        hash,
        bytes,
        chunks,
    } = BodyId::of(body);
    Header {
        version,
        hash,
        bytes,
        chunks,
        stage: HeaderStage::Distribute,
        active: 0,
        active_body: None,
        author: "admin".to_owned(),
        at_ms: 0,
        forced: false,
    }
}

/// What a member sends that has this body, in the order in which it is asked for.
pub(crate) fn document_frames(document: DocumentRef, body: &[u8]) -> Vec<DocumentFrame> {
    let chunks: Vec<&[u8]> = body.chunks(CHUNK_BYTES).collect();
    let hash = |chunk: &&[u8]| BodyId::of(chunk).hash;
    let have = DocumentFrame::Have {
        document,
        chunks: vec![0xff],
    };
    let hashes = chunks.iter().map(hash).collect();
    let mut frames = vec![have, DocumentFrame::List { document, hashes }];
    frames.extend((0_u32..).zip(chunks).map(|(chunk, bytes)| {
        let bytes = bytes.into();
        DocumentFrame::Chunk {
            document,
            chunk,
            bytes,
        }
    }));
    frames.push(DocumentFrame::GetList(document));
    frames.push(DocumentFrame::GetChunk { document, chunk: 0 });
    frames.push(DocumentFrame::Lack { document });
    frames
}
