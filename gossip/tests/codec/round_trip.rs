//! What is written is what is read, and [`codec::wire_len`] tells its length.

use std::sync::Arc;

use muster_gossip::frame::codec::{self, FrameError};
use muster_gossip::frame::{
    Ack, Alert, BUCKETS, BucketDigest, BucketSummary, CHUNKS_MAX, Coverage, DocumentFrame,
    DocumentRef, MeshFrame, Probe, ProbeAnswer, Push, Want,
};
use muster_gossip::record::{
    AdmissionState, DocumentId, MemberBody, Record, RecordKey, RecordVersion, SelfHealth,
    SuspicionLevel, Vote, WatchBody,
};
use muster_gossip::{ClusterId, Incarnation, MemberId, NodeKey};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::samples::{self, CLUSTER, GENERATION, Stamp};

fn member() -> impl Strategy<Value = MemberId> {
    any::<u32>().prop_map(MemberId)
}

fn incarnation() -> impl Strategy<Value = Incarnation> {
    any::<u64>().prop_map(Incarnation)
}

fn key() -> impl Strategy<Value = RecordKey> {
    prop_oneof![
        Just(RecordKey::Cluster),
        member().prop_map(RecordKey::Member),
        member().prop_map(RecordKey::Node),
        member().prop_map(RecordKey::Watch),
        any::<u16>().prop_map(|id| RecordKey::Document(DocumentId(id))),
        Just(RecordKey::Replacement),
    ]
}

fn version() -> impl Strategy<Value = RecordVersion> {
    any::<(u64, u64)>().prop_map(|(incarnation, number)| RecordVersion {
        incarnation,
        number,
    })
}

fn admission() -> impl Strategy<Value = MemberBody> {
    any::<([u8; 32], String, String, bool)>().prop_map(|(key, name, rack, votes)| MemberBody {
        key: NodeKey(key),
        name,
        rack,
        votes,
        state: AdmissionState::Admitted,
    })
}

fn vote() -> impl Strategy<Value = Vote> {
    let level = prop_oneof![
        Just(SuspicionLevel::Sick),
        Just(SuspicionLevel::Doubt),
        Just(SuspicionLevel::Gone)
    ];
    (member(), incarnation(), level, any::<bool>()).prop_map(
        |(subject, incarnation, level, heard)| Vote {
            subject,
            incarnation,
            level,
            heard,
        },
    )
}

fn record() -> impl Strategy<Value = Arc<Record>> {
    let sign = |cluster, key, version, body: &dyn Fn() -> Vec<u8>| {
        Arc::new(Record::sign(ClusterId(cluster), key, version, &body(), &Stamp).unwrap())
    };
    let body = prop_oneof![
        admission().prop_map(|body| postcard::to_stdvec(&body).unwrap()),
        vec(vote(), 0..20).prop_map(|votes| postcard::to_stdvec(&WatchBody { votes }).unwrap()),
    ];
    (any::<[u8; 16]>(), key(), version(), body).prop_map(move |(cluster, key, version, body)| {
        sign(cluster, key, version, &|| body.clone())
    })
}

fn document_ref() -> impl Strategy<Value = DocumentRef> {
    any::<(u16, u64)>().prop_map(|(id, version)| DocumentRef {
        id: DocumentId(id),
        version,
    })
}

fn document() -> impl Strategy<Value = DocumentFrame> {
    let bytes = |max| vec(any::<u8>(), 0..max);
    let bitmap = move || bytes(2_000);
    prop_oneof![
        (document_ref(), bytes(CHUNKS_MAX / 8))
            .prop_map(|(document, chunks)| DocumentFrame::Have { document, chunks }),
        document_ref().prop_map(DocumentFrame::GetList),
        (document_ref(), vec(any::<[u8; 32]>(), 0..CHUNKS_MAX))
            .prop_map(|(document, hashes)| DocumentFrame::List { document, hashes }),
        (document_ref(), any::<u32>())
            .prop_map(|(document, chunk)| DocumentFrame::GetChunk { document, chunk }),
        (document_ref(), any::<u32>(), bytes(5_000)).prop_map(|(document, chunk, bytes)| {
            DocumentFrame::Chunk {
                document,
                chunk,
                bytes: bytes.into(),
            }
        }),
        document_ref().prop_map(|document| DocumentFrame::Lack { document }),
        (
            proptest::option::of(document_ref()),
            bitmap(),
            bitmap(),
            bitmap()
        )
            .prop_map(|(document, valid, rejected, active)| {
                DocumentFrame::Coverage(Coverage {
                    document,
                    valid,
                    rejected,
                    active,
                })
            }),
    ]
}

fn answer() -> impl Strategy<Value = ProbeAnswer> {
    let health = any::<[u32; 3]>().prop_map(|[loops, engine, device]| SelfHealth {
        loop_age_ms: loops,
        engine_age_ms: engine,
        device_age_ms: device,
    });
    (any::<(u32, u64, u16)>(), incarnation(), health).prop_map(
        |((number, root, next_ms), incarnation, health)| ProbeAnswer {
            number,
            incarnation,
            root,
            health,
            next_ms,
        },
    )
}

fn frame() -> impl Strategy<Value = MeshFrame> {
    let probe =
        (any::<(u32, u64)>(), incarnation()).prop_map(|((number, root), incarnation)| Probe {
            number,
            incarnation,
            root,
        });
    let alert = (member(), incarnation()).prop_map(|(subject, incarnation)| Alert {
        subject,
        incarnation,
    });
    let push =
        (any::<u32>(), vec(record(), 0..10)).prop_map(|(number, records)| Push { number, records });
    let summary = (
        vec(any::<u16>(), 0..BUCKETS),
        vec((key(), version()), 0..100),
    )
        .prop_map(|(buckets, versions)| BucketSummary { buckets, versions });
    prop_oneof![
        1 => probe.prop_map(MeshFrame::Probe),
        1 => answer().prop_map(MeshFrame::Answer),
        1 => alert.prop_map(MeshFrame::Alert),
        1 => push.prop_map(MeshFrame::Push),
        1 => vec(any::<u32>(), 0..100).prop_map(|numbers| MeshFrame::Ack(Ack { numbers })),
        1 => vec(any::<u64>(), BUCKETS).prop_map(|buckets| MeshFrame::Digest(BucketDigest { buckets })),
        1 => summary.prop_map(MeshFrame::Summary),
        1 => vec(key(), 0..100).prop_map(|keys| MeshFrame::Want(Want { keys })),
        8 => document().prop_map(MeshFrame::Document),
        1 => vec(any::<u8>(), 0..5_000).prop_map(|bytes| MeshFrame::Cargo(bytes.into())),
    ]
}

#[test]
fn long_frames_survive_too() {
    for frame in samples::long_frames() {
        let bytes = codec::encode(&frame, CLUSTER, GENERATION);
        assert_eq!(bytes.len(), codec::wire_len(&frame));
        assert_eq!(codec::decode(&bytes, CLUSTER, GENERATION), Ok(frame));
    }
}

proptest! {
    #[test]
    fn a_frame_survives_its_bytes(
        frame in frame(),
        cluster in any::<[u8; 16]>().prop_map(ClusterId),
        generation in any::<u32>(),
    ) {
        let bytes = codec::encode(&frame, cluster, generation);
        prop_assert_eq!(bytes.len(), codec::wire_len(&frame));
        prop_assert_eq!(codec::decode(&bytes, cluster, generation), Ok(frame));
    }

    #[test]
    fn no_changed_byte_goes_unseen(frame in frame(), at in any::<usize>(), by in 1_u8..) {
        let mut bytes = codec::encode(&frame, ClusterId::default(), 0);
        let at = at % bytes.len();
        bytes[at] ^= by;
        let error = codec::decode(&bytes, ClusterId::default(), 0).unwrap_err();
        let header = matches!(error, FrameError::Magic | FrameError::Protocol(_) | FrameError::Length(_));
        prop_assert!(error == FrameError::Checksum || header, "{}", error);
    }
}
