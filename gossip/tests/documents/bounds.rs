//! Nothing that others send grows without bound.

use std::sync::Arc;

use muster_gossip::documents::{DOCUMENTS_MAX, DocumentsInput, DocumentsOutput};
use muster_gossip::frame::{Coverage, DocumentFrame, DocumentRef};
use muster_gossip::record::{DocumentId, HeaderStage};

use super::bodies::{ID, body, header, staged, version};
use super::network::{Network, id};

/// Two nodes, of which the first has a body of three chunks.
fn pair() -> Network {
    let mut network = Network::new(2, 1);
    network.header(0, ID, &header(1, &body(150_000, 1)));
    network.body(0, version(1), &body(150_000, 1));
    network.run_ms(1_000);
    network
}

#[test]
fn a_flood_of_questions_is_cut_down() {
    let mut network = pair();
    let ask = DocumentFrame::GetChunk {
        document: version(1),
        chunk: 2,
    };
    let answers: usize = (0..100_000)
        .map(|_| network.frame(0, 9, ask.clone()).len())
        .sum();
    assert_eq!(answers, 2_048);
    assert_eq!(
        network.nodes[0].documents.counters().frames_over,
        100_000 - 2_048
    );
    assert_eq!(
        network.frame(0, 8, ask.clone()).len(),
        1,
        "others are served"
    );
    network.run_ms(1_000);
    assert_eq!(network.frame(0, 9, ask).len(), 1);
}

#[test]
fn merges_are_cut_down_more() {
    let mut network = pair();
    let merged = |number: u32| {
        let mut valid = vec![0; 2_000];
        valid[number as usize / 8] = 1 << (number % 8);
        DocumentFrame::Coverage(Coverage {
            document: Some(version(1)),
            valid,
            ..Coverage::default()
        })
    };
    (0..1_000).for_each(|number| drop(network.frame(0, 1, merged(number + 8))));
    let known = network.nodes[0].documents.view(ID).unwrap().coverage.valid;
    let bits: u32 = known.iter().map(|byte| byte.count_ones()).sum();
    assert_eq!(bits, 1 + 2_048 / 16);
}

#[test]
fn what_nobody_asked_for_is_dropped() {
    let mut network = pair();
    let bytes: Arc<[u8]> = body(150_000, 1)[..1 << 16].into();
    network.header(1, ID, &header(1, &body(150_000, 1)));
    let chunk = DocumentFrame::Chunk {
        document: version(1),
        chunk: 0,
        bytes,
    };
    assert!(network.frame(1, 0, chunk).is_empty());
    let list = DocumentFrame::List {
        document: version(1),
        hashes: vec![[0; 32]; 3],
    };
    assert!(network.frame(1, 0, list).is_empty());
    let counters = network.nodes[1].documents.counters();
    assert_eq!((counters.chunks_unasked, counters.lists_wrong), (1, 0));
}

#[test]
fn what_is_not_here_is_said_so() {
    let mut network = pair();
    let questions = [
        (version(2), DocumentFrame::GetList(version(2))),
        (
            version(1),
            DocumentFrame::GetChunk {
                document: version(1),
                chunk: 3,
            },
        ),
        (
            version(1),
            DocumentFrame::GetChunk {
                document: version(1),
                chunk: u32::MAX,
            },
        ),
    ];
    for (document, question) in questions {
        let out = network.frame(0, 1, question);
        let [DocumentsOutput::Send { to, frame, .. }] = out.as_slice() else {
            panic!("{out:?}");
        };
        assert_eq!((*to, frame), (id(1), &DocumentFrame::Lack { document }));
    }
}

#[test]
fn documents_are_bounded() {
    let mut network = Network::new(1, 1);
    for number in 0..100 {
        network.header(0, DocumentId(number), &header(1, &body(10, 1)));
        let document = DocumentRef {
            id: DocumentId(number),
            version: 1,
        };
        network.input(0, DocumentsInput::Active(document));
    }
    let documents = &network.nodes[0].documents;
    assert_eq!(documents.ids().count(), DOCUMENTS_MAX);
    assert_eq!(
        documents.counters().headers_refused,
        100 - DOCUMENTS_MAX as u64
    );
    assert_eq!(
        documents.counters().activations_refused,
        100 - DOCUMENTS_MAX as u64
    );
}

#[test]
fn bodies_are_bounded_together() {
    let mut network = Network::new(1, 1);
    for number in 0..20 {
        let mut large = header(1, &body(10, 1));
        large.bytes = 16 << 20;
        network.header(0, DocumentId(number), &large);
    }
    let documents = &network.nodes[0].documents;
    let views = documents.ids().filter_map(|id| documents.view(id));
    assert_eq!(views.filter(|view| view.verdict.is_some()).count(), 4);
}

#[test]
fn early_bodies_are_bounded() {
    let mut network = Network::new(1, 1);
    for number in 1..=6 {
        network.body(0, version(number), &body(1_000, number));
    }
    let last = body(1_000, 6);
    network.header(0, ID, &staged(&header(6, &last), HeaderStage::Distribute));
    assert!(network.nodes[0].checked[&version(6)].1 == last);
    let mut forgotten = Network::new(1, 1);
    for number in 1..=6 {
        forgotten.body(0, version(number), &body(1_000, number));
    }
    forgotten.header(0, ID, &header(1, &body(1_000, 1)));
    assert!(forgotten.nodes[0].checked.is_empty());
}
