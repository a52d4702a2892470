//! Bytes that are no frame, with the reason.

use muster_gossip::frame::codec::{self, Error, HEADER_BYTES};
use muster_gossip::frame::{
    Ack, CARGO_BYTES_MAX, CHUNK_BYTES, CHUNKS_MAX, Coverage, DocumentFrame, DocumentRef,
    FRAME_BYTES_MAX, Frame, Push, Want,
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

fn refused(bytes: &[u8]) -> Error {
    codec::decode(bytes, CLUSTER, GENERATION).unwrap_err()
}

/// What becomes of a probe when `change` has been at its bytes.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Error {
    let mut bytes = sample("probe");
    change(&mut bytes);
    refused(&bytes)
}

/// The same, with a header that fits the changed bytes.
fn sealed(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Error {
    let mut bytes = sample(name);
    change(&mut bytes);
    codec::seal(&mut bytes);
    refused(&bytes)
}

/// A frame of kind `kind` with this body.
fn made(kind: u8, body: &[u8]) -> Error {
    sealed("probe", |bytes| {
        bytes[4] = kind;
        bytes.truncate(HEADER_BYTES);
        bytes.extend_from_slice(body);
    })
}

fn too_much(frame: Frame) -> Error {
    refused(&codec::encode(&frame, CLUSTER, GENERATION))
}

fn document(frame: DocumentFrame) -> Error {
    too_much(Frame::Document(frame))
}

#[test]
fn a_damaged_header_is_named() {
    assert_eq!(refused(&[]), Error::TooShort(0));
    assert_eq!(changed(|bytes| bytes.truncate(25)), Error::TooShort(25));
    assert_eq!(changed(|bytes| bytes[0] ^= 1), Error::Magic);
    assert_eq!(changed(|bytes| bytes[2] = 9), Error::Protocol(9));
    assert_eq!(changed(|bytes| bytes[9] = 0x40), Error::Length(0x4000_000b));
    assert_eq!(changed(|bytes| bytes.push(0)), Error::Length(11));
    assert_eq!(changed(|bytes| bytes.truncate(30)), Error::Length(11));
}

#[test]
fn damage_anywhere_is_found() {
    let bytes = sample("push");
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let expected = match bit / 8 {
            0..2 => matches!(refused(&damaged), Error::Magic),
            2..4 => matches!(refused(&damaged), Error::Protocol(_)),
            6..10 => matches!(refused(&damaged), Error::Length(_)),
            _ => refused(&damaged) == Error::Checksum,
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
        Error::OtherCluster
    );
    assert_eq!(
        ours(codec::encode(frame, CLUSTER, 2)),
        Error::OlderGeneration(2)
    );
    assert_eq!(
        ours(codec::encode(frame, CLUSTER, 4)),
        Error::NewerGeneration(4)
    );
}

#[test]
fn bodies_are_read_to_their_last_byte() {
    assert_eq!(
        sealed("probe", |bytes| bytes[4] = 99),
        Error::UnknownKind(99)
    );
    assert_eq!(
        sealed("probe", |bytes| bytes[5] = 1),
        Error::UnknownKind(257)
    );
    // Cargo is all there is, however much.
    let frames = samples::frames().into_iter();
    for (name, _) in frames.filter(|(name, _)| *name != "cargo") {
        assert_eq!(
            sealed(name, |bytes| bytes.push(0)),
            Error::TrailingBytes(1),
            "{name}"
        );
        let cut = sealed(name, |bytes| bytes.truncate(bytes.len() - 1));
        assert_eq!(cut, Error::Malformed, "{name}");
    }
}

#[test]
fn claims_are_not_believed() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let document = [1, 2];
    let (push, have, list, chunk, coverage) = (4, 16, 18, 20, 22);
    assert_eq!(
        made(push, &[&[1], &huge[..]].concat()),
        Error::Limit("records")
    );
    assert_eq!(made(push, &[1, 40, 0, 0]), Error::Malformed);
    assert_eq!(
        made(push, &[&[1, 1], &huge[..], &[0; 64]].concat()),
        Error::Limit("bytes of a record")
    );
    let no_record = Error::Record(record::Error::Malformed);
    assert_eq!(made(push, &[&[1, 1, 3], &[0; 64][..]].concat()), no_record);
    assert_eq!(made(5, &huge), Error::Limit("numbers"));
    assert_eq!(made(5, &[100, 1]), Error::Malformed);
    assert_eq!(made(7, &huge), Error::Limit("buckets"));
    assert_eq!(
        made(7, &[&[0], &huge[..]].concat()),
        Error::Limit("versions")
    );
    assert_eq!(made(8, &huge), Error::Limit("keys"));
    assert_eq!(made(8, &[1, 77]), Error::Malformed);
    assert_eq!(
        made(have, &[&document, &huge[..]].concat()),
        Error::Limit("chunks")
    );
    assert_eq!(
        made(list, &[&document, &huge[..]].concat()),
        Error::Limit("hashes")
    );
    assert_eq!(
        made(list, &[&document, &[200, 1][..]].concat()),
        Error::Malformed
    );
    assert_eq!(
        made(chunk, &[&document[..], &[0], &huge].concat()),
        Error::Limit("bytes of a chunk")
    );
    assert_eq!(
        made(coverage, &[&[0], &huge[..]].concat()),
        Error::Limit("members")
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
            Error::Limit("members")
        );
    }
    let list = DocumentFrame::List {
        document: DOCUMENT,
        hashes,
    };
    assert_eq!(document(list), Error::Limit("hashes"));
    let have = DocumentFrame::Have {
        document: DOCUMENT,
        chunks,
    };
    assert_eq!(document(have), Error::Limit("chunks"));
    let chunk = DocumentFrame::Chunk {
        document: DOCUMENT,
        chunk: 0,
        bytes,
    };
    assert_eq!(document(chunk), Error::Limit("bytes of a chunk"));
    let numbers = vec![0; 1_025];
    assert_eq!(
        too_much(Frame::Ack(Ack { numbers })),
        Error::Limit("numbers")
    );
    let keys = vec![RecordKey::Cluster; 32_769];
    assert_eq!(too_much(Frame::Want(Want { keys })), Error::Limit("keys"));
    let cargo = vec![0; CARGO_BYTES_MAX + 1].into();
    assert_eq!(
        too_much(Frame::Cargo(cargo)),
        Error::Limit("bytes of a frame")
    );
    let (_, record) = samples::records().remove(2);
    let records = vec![record; FRAME_BYTES_MAX / 100];
    let push = Push { number: 0, records };
    assert_eq!(
        too_much(Frame::Push(push)),
        Error::Limit("bytes of a frame")
    );
}
