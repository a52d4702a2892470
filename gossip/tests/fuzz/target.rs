//! The decoders of outside bytes.

use std::path::Path;
use std::sync::LazyLock;

use muster_gossip::MemberId;
use muster_gossip::documents::{DocumentsCore, DocumentsOutput};
use muster_gossip::frame::{DocumentFrame, DocumentRef, MeshFrame, codec};
use muster_gossip::join::{AdmissionRequest, JoinReply, JoinToken, JoinerMessage};
use muster_gossip::record::{
    ClusterBody, DocumentId, Header, MemberBody, NodeBody, Record, WatchBody,
};
use muster_model::time::Time;

use crate::samples::{self, CLUSTER, GENERATION};

/// A token of the form that admins copy.
const TOKEN: &str = "aebagbaf.a4dqobyha4dqobyha4dqobyha4dqobyh.fbbbb6de2aa74c3c9570d2d8db1de31e";

/// A decoder and what it is fed with.
pub(crate) struct FuzzTarget {
    /// Names it and its corpus.
    pub(crate) name: &'static str,
    /// Good inputs, and bad ones that once were a trouble.
    pub(crate) seeds: Vec<Vec<u8>>,
    /// Makes a damaged input pass the outer checks, so that the inner ones are tried too.
    pub(crate) mend: fn(&mut Vec<u8>),
    /// Whatever a node does with such bytes.
    pub(crate) decode: fn(&[u8]),
}

/// All of them.
pub(crate) fn targets() -> Vec<FuzzTarget> {
    let short = samples::frames().into_iter().map(|(_, frame)| frame);
    let frames = short.chain(samples::long_frames());
    let frames = frames.map(|frame| codec::encode(&frame, CLUSTER, GENERATION));
    let records = samples::records().into_iter();
    let records = records.map(|(_, record)| record.bytes().to_vec());
    vec![
        FuzzTarget {
            name: "frame",
            seeds: with_corpus("frame", frames),
            mend: |bytes| codec::seal(bytes),
            decode: |bytes| {
                let _ = codec::decode(bytes, CLUSTER, GENERATION);
            },
        },
        FuzzTarget {
            name: "record",
            seeds: with_corpus("record", records),
            mend: |_| {},
            decode: decode_record,
        },
        FuzzTarget {
            name: "document",
            seeds: with_corpus("document", document_frames()),
            mend: |bytes| codec::seal(bytes),
            decode: take_document_frame,
        },
        FuzzTarget {
            name: "join",
            seeds: with_corpus("join", join_messages()),
            mend: |_| {},
            decode: decode_join,
        },
        FuzzTarget {
            name: "token",
            seeds: with_corpus("token", std::iter::once(TOKEN.as_bytes().to_vec())),
            mend: |_| {},
            decode: |bytes| {
                let _ = String::from_utf8_lossy(bytes).parse::<JoinToken>();
            },
        },
    ]
}

/// A record, and its body as each of the kinds it may claim to be.
fn decode_record(bytes: &[u8]) {
    let Ok(record) = Record::decode(bytes) else {
        return;
    };
    let _ = record.body::<ClusterBody>();
    let _ = record.body::<MemberBody>();
    let _ = record.body::<NodeBody>();
    let _ = record.body::<WatchBody>();
    let _ = record.body::<Header>();
}

/// A body, its header, and what a member sends that has it.
static SAMPLE: LazyLock<(Header, Vec<DocumentFrame>)> = LazyLock::new(|| {
    let body = vec![7; 150_000];
    let frames = samples::document_frames(DOCUMENT, &body);
    (samples::header_of(2, &body), frames)
});

const DOCUMENT: DocumentRef = DocumentRef {
    id: DocumentId(1),
    version: 2,
};

/// Frames about the document that [`fetching`] is after, and of another body.
fn document_frames() -> impl Iterator<Item = Vec<u8>> {
    let other = samples::document_frames(DOCUMENT, &[0; 70_000]);
    let frames = SAMPLE.1.clone().into_iter().chain(other);
    frames.map(|frame| codec::encode(&MeshFrame::Document(frame), CLUSTER, GENERATION))
}

/// A node in the middle of a fetch.
fn fetching() -> (DocumentsCore, Vec<DocumentsOutput>) {
    let (now, peer) = (Time::from_millis(1), MemberId(1));
    let (header, frames) = &*SAMPLE;
    let (mut documents, mut out) = (DocumentsCore::new(MemberId(0)), Vec::new());
    documents.links(now, &[peer, MemberId(2)], &mut out);
    documents.header(now, DOCUMENT.id, header, &mut out);
    for frame in &frames[..2] {
        documents.frame(now, peer, frame.clone(), &mut out);
    }
    (documents, out)
}

/// What a document frame does to a node that waits for just such frames.
fn take_document_frame(bytes: &[u8]) {
    let Ok(MeshFrame::Document(frame)) = codec::decode(bytes, CLUSTER, GENERATION) else {
        return;
    };
    let (mut documents, mut out) = fetching();
    let mut now = Time::from_millis(2);
    for from in [1, 2, 9] {
        documents.frame(now, MemberId(from), frame.clone(), &mut out);
    }
    for _ in 0..10 {
        now = documents.deadline().map_or(now, |due| due.max(now));
        documents.tick(now, &mut out);
    }
}

/// The published messages of the join protocol.
fn join_messages() -> impl Iterator<Item = Vec<u8>> {
    let published = [
        include_str!("../../src/join/tests/golden/hello.hex"),
        include_str!("../../src/join/tests/golden/prove.hex"),
        include_str!("../../src/join/tests/golden/admission_request.hex"),
        include_str!("../../src/join/tests/golden/challenge.hex"),
        include_str!("../../src/join/tests/golden/welcome.hex"),
        include_str!("../../src/join/tests/golden/refused.hex"),
    ];
    published
        .into_iter()
        .map(|hex| bytes_of(&hex.replace('\n', "")))
}

/// A message of the join protocol, as each of those who get one reads it.
fn decode_join(bytes: &[u8]) {
    let _ = JoinerMessage::decode(bytes);
    let _ = AdmissionRequest::decode(bytes);
    match JoinReply::decode(bytes) {
        Ok(JoinReply::Challenge(challenge)) => {
            let _ = challenge.cluster.body::<ClusterBody>();
            let _ = challenge.member.body::<MemberBody>();
        }
        Ok(JoinReply::Welcome(welcome)) => {
            for record in &welcome.seeds {
                decode_record(record.bytes());
            }
        }
        Ok(JoinReply::Refused(refused)) => drop(refused.refusal.to_string()),
        Err(_) => {}
    }
}

fn with_corpus(name: &str, samples: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("corpus/{name}.hex"));
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(bytes_of).chain(samples).collect()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}
