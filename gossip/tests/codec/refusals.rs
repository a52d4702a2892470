//! Bytes that are no frame, with the reason.

use muster_gossip::frame::codec::{self, FrameError, HEADER_BYTES};
use muster_gossip::frame::{
    Ack, CARGO_BYTES_MAX, CHUNK_BYTES, CHUNKS_MAX, Coverage, DocumentFrame, DocumentRef,
    FRAME_BYTES_MAX, MeshFrame, Push, Want,
};
use muster_gossip::record::{self, DocumentId, RecordKey};
use muster_gossip::{ClusterId, member};

use crate::samples::{self, CLUSTER, GENERATION};

const DOCUMENT: DocumentRef = DocumentRef {
    id: DocumentId(1),
    version: 2,
};

fn sample(name: &str) -> Vec<u8> {
    let mut frames = samples::frames().into_iter();
    let (_, frame) = frames.find(|(other, _)| *other == name).unwrap();
    codec::encode(&frame, CLUSTER, GENERATION)
}

fn refused(bytes: &[u8]) -> FrameError {
    codec::decode(bytes, CLUSTER, GENERATION).unwrap_err()
}

/// What becomes of a probe when `change` has been at its bytes.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> FrameError {
    let mut bytes = sample("probe");
    change(&mut bytes);
    refused(&bytes)
}

/// The same, with a header that fits the changed bytes.
fn sealed(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> FrameError {
    let mut bytes = sample(name);
    change(&mut bytes);
    codec::seal(&mut bytes);
    refused(&bytes)
}

/// A frame of kind `kind` with this body.
fn made(kind: u8, body: &[u8]) -> FrameError {
    sealed("probe", |bytes| {
        bytes[4] = kind;
        bytes.truncate(HEADER_BYTES);
        bytes.extend_from_slice(body);
    })
}

fn too_much(frame: MeshFrame) -> FrameError {
    refused(&codec::encode(&frame, CLUSTER, GENERATION))
}

fn document(frame: DocumentFrame) -> FrameError {
    too_much(MeshFrame::Document(frame))
}

#[test]
fn a_damaged_header_is_named() {
    assert_eq!(refused(&[]), FrameError::TooShort(0));
    assert_eq!(
        changed(|bytes| bytes.truncate(25)),
        FrameError::TooShort(25)
    );
    assert_eq!(changed(|bytes| bytes[0] ^= 1), FrameError::Magic);
    assert_eq!(changed(|bytes| bytes[2] = 9), FrameError::Protocol(9));
    assert_eq!(
        changed(|bytes| bytes[9] = 0x40),
        FrameError::Length(0x4000_000b)
    );
    assert_eq!(changed(|bytes| bytes.push(0)), FrameError::Length(11));
    assert_eq!(changed(|bytes| bytes.truncate(30)), FrameError::Length(11));
}

#[test]
fn damage_anywhere_is_found() {
    let bytes = sample("push");
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let expected = match bit / 8 {
            0..2 => matches!(refused(&damaged), FrameError::Magic),
            2..4 => matches!(refused(&damaged), FrameError::Protocol(_)),
            6..10 => matches!(refused(&damaged), FrameError::Length(_)),
            _ => refused(&damaged) == FrameError::Checksum,
        };
        assert!(expected, "bit {bit}: {}", refused(&damaged));
    }
}

#[test]
fn frames_of_others_are_told_apart() {
    let frame = &samples::frames()[0].1;
    let ours = |bytes: Vec<u8>| refused(&bytes);
    let other = ClusterId(*b"another cluster!");
    assert_eq!(
        ours(codec::encode(frame, other, GENERATION)),
        FrameError::OtherCluster
    );
    assert_eq!(
        ours(codec::encode(frame, CLUSTER, 2)),
        FrameError::OlderGeneration(2)
    );
    assert_eq!(
        ours(codec::encode(frame, CLUSTER, 4)),
        FrameError::NewerGeneration(4)
    );
}

#[test]
fn bodies_are_read_to_their_last_byte() {
    assert_eq!(
        sealed("probe", |bytes| bytes[4] = 99),
        FrameError::UnknownKind(99)
    );
    assert_eq!(
        sealed("probe", |bytes| bytes[5] = 1),
        FrameError::UnknownKind(257)
    );
    // Cargo is all there is, however much.
    let frames = samples::frames().into_iter();
    for (name, _) in frames.filter(|(name, _)| *name != "cargo") {
        assert_eq!(
            sealed(name, |bytes| bytes.push(0)),
            FrameError::TrailingBytes(1),
            "{name}"
        );
        let cut = sealed(name, |bytes| bytes.truncate(bytes.len() - 1));
        assert_eq!(cut, FrameError::Malformed, "{name}");
    }
}

#[test]
fn claims_are_not_believed() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let document = [1, 2];
    let (push, have, list, chunk, coverage) = (4, 16, 18, 20, 22);
    assert_eq!(
        made(push, &[&[1], &huge[..]].concat()),
        FrameError::Limit("records")
    );
    assert_eq!(made(push, &[1, 40, 0, 0]), FrameError::Malformed);
    assert_eq!(
        made(push, &[&[1, 1], &huge[..], &[0; 64]].concat()),
        FrameError::Limit("bytes of a record")
    );
    let no_record = FrameError::Record(record::RecordError::Malformed);
    assert_eq!(made(push, &[&[1, 1, 3], &[0; 64][..]].concat()), no_record);
    assert_eq!(made(5, &huge), FrameError::Limit("numbers"));
    assert_eq!(made(5, &[100, 1]), FrameError::Malformed);
    assert_eq!(made(7, &huge), FrameError::Limit("buckets"));
    assert_eq!(
        made(7, &[&[0], &huge[..]].concat()),
        FrameError::Limit("versions")
    );
    assert_eq!(made(8, &huge), FrameError::Limit("keys"));
    assert_eq!(made(8, &[1, 77]), FrameError::Malformed);
    assert_eq!(
        made(have, &[&document, &huge[..]].concat()),
        FrameError::Limit("chunks")
    );
    assert_eq!(
        made(list, &[&document, &huge[..]].concat()),
        FrameError::Limit("hashes")
    );
    assert_eq!(
        made(list, &[&document, &[200, 1][..]].concat()),
        FrameError::Malformed
    );
    assert_eq!(
        made(chunk, &[&document[..], &[0], &huge].concat()),
        FrameError::Limit("bytes of a chunk")
    );
    assert_eq!(
        made(coverage, &[&[0], &huge[..]].concat()),
        FrameError::Limit("members")
    );
}

#[test]
fn everything_has_its_bound() {
    let empty = || Coverage::default();
    let bitmap = vec![0; member::MEMBERS_MAX / 8 + 1];
    let hashes = vec![[0; 32]; CHUNKS_MAX + 1];
    let chunks = vec![0; CHUNKS_MAX / 8 + 1];
    let bytes = vec![0; CHUNK_BYTES + 1].into();
    let coverages = [
        Coverage {
            valid: bitmap.clone(),
            ..empty()
        },
        Coverage {
            rejected: bitmap.clone(),
            ..empty()
        },
        Coverage {
            active: bitmap,
            ..empty()
        },
    ];
    for coverage in coverages {
        assert_eq!(
            document(DocumentFrame::Coverage(coverage)),
            FrameError::Limit("members")
        );
    }
    let list = DocumentFrame::List {
        document: DOCUMENT,
        hashes,
    };
    assert_eq!(document(list), FrameError::Limit("hashes"));
    let have = DocumentFrame::Have {
        document: DOCUMENT,
        chunks,
    };
    assert_eq!(document(have), FrameError::Limit("chunks"));
    let chunk = DocumentFrame::Chunk {
        document: DOCUMENT,
        chunk: 0,
        bytes,
    };
    assert_eq!(document(chunk), FrameError::Limit("bytes of a chunk"));
    let numbers = vec![0; 1_025];
    assert_eq!(
        too_much(MeshFrame::Ack(Ack { numbers })),
        FrameError::Limit("numbers")
    );
    let keys = vec![RecordKey::Cluster; 32_769];
    assert_eq!(
        too_much(MeshFrame::Want(Want { keys })),
        FrameError::Limit("keys")
    );
    let cargo = vec![0; CARGO_BYTES_MAX + 1].into();
    assert_eq!(
        too_much(MeshFrame::Cargo(cargo)),
        FrameError::Limit("bytes of a frame")
    );
    let (_, record) = samples::records().remove(2);
    let records = vec![record; FRAME_BYTES_MAX / 100];
    let push = Push { number: 0, records };
    assert_eq!(
        too_much(MeshFrame::Push(push)),
        FrameError::Limit("bytes of a frame")
    );
}
