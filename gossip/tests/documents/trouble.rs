//! Members that lie, are silent or die.

use std::sync::Arc;

use muster_gossip::MemberId;
use muster_gossip::documents::Counters;
use muster_gossip::frame::DocumentFrame;

use super::bodies::{ID, body, version};
use super::network::{Network, id};

const COUNT: usize = 20;
const LIAR: usize = 3;

type Tamper = fn(MemberId, DocumentFrame) -> Option<DocumentFrame>;
type Caught = fn(&Counters) -> bool;

fn is_liar(member: MemberId) -> bool {
    member == id(LIAR)
}

fn damaged_chunks(from: MemberId, frame: DocumentFrame) -> Option<DocumentFrame> {
    Some(match frame {
        DocumentFrame::Chunk {
            document,
            chunk,
            bytes,
        } if is_liar(from) => {
            let mut bytes = bytes.to_vec();
            bytes[0] ^= 1;
            let bytes = Arc::from(bytes);
            DocumentFrame::Chunk {
                document,
                chunk,
                bytes,
            }
        }
        other => other,
    })
}

fn damaged_lists(from: MemberId, frame: DocumentFrame) -> Option<DocumentFrame> {
    Some(match frame {
        DocumentFrame::List {
            document,
            mut hashes,
        } if is_liar(from) => {
            hashes.reverse();
            DocumentFrame::List { document, hashes }
        }
        other => other,
    })
}

/// Promises all chunks from the start, and has none.
fn promises(from: MemberId, frame: DocumentFrame) -> Option<DocumentFrame> {
    Some(match frame {
        DocumentFrame::Have { document, .. } if is_liar(from) => DocumentFrame::Have {
            document,
            chunks: vec![0xff; 4],
        },
        DocumentFrame::Chunk { document, .. } | DocumentFrame::List { document, .. }
            if is_liar(from) =>
        {
            DocumentFrame::Lack { document }
        }
        other => other,
    })
}

fn silence(from: MemberId, frame: DocumentFrame) -> Option<DocumentFrame> {
    let answers = matches!(
        frame,
        DocumentFrame::Chunk { .. } | DocumentFrame::List { .. }
    );
    (!is_liar(from) || !answers).then_some(frame)
}

/// Each chunk comes as another one.
fn swapped_chunks(from: MemberId, frame: DocumentFrame) -> Option<DocumentFrame> {
    Some(match frame {
        DocumentFrame::Chunk {
            document,
            chunk,
            bytes,
        } if is_liar(from) => DocumentFrame::Chunk {
            document,
            chunk: chunk ^ 1,
            bytes,
        },
        other => other,
    })
}

#[test]
fn nobody_is_kept_from_a_body_or_given_another() {
    let cases: [(&str, Tamper, Caught); 5] = [
        ("damaged chunks", damaged_chunks, |seen| {
            seen.chunks_wrong > 0
        }),
        ("damaged lists", damaged_lists, |seen| seen.lists_wrong > 0),
        ("swapped chunks", swapped_chunks, |seen| {
            seen.chunks_wrong + seen.chunks_unasked > 0
        }),
        ("promises", promises, |_| true),
        ("silence", silence, |_| true),
    ];
    for (name, tamper, caught) in cases {
        let mut was_caught = false;
        for seed in 0..5 {
            let mut network = Network::new(COUNT, seed);
            network.tamper = tamper;
            let body = body(1 << 20, seed);
            network.edit(1, &body);
            network.run_ms(3_000);
            for (number, node) in network.nodes.iter().enumerate() {
                let found = node.checked.get(&version(1)).map(|(_, body)| body);
                let right = found == Some(&body) || (number == LIAR && found.is_none());
                assert!(right, "{name}, seed {seed}, node {number}");
            }
            let mut counters = network.nodes.iter().map(|node| node.documents.counters());
            was_caught |= counters.any(caught);
        }
        assert!(was_caught, "{name}");
    }
}

#[test]
fn a_liar_is_asked_less_and_less_often() {
    let mut network = Network::new(2, 1);
    network.loss_percent = 0;
    network.tamper = |from, frame| damaged_chunks(MemberId(from.0 + 3), frame);
    network.edit(1, &body(1 << 20, 1));
    network.run_ms(30_000);
    let wrong = network.nodes[1].documents.counters().chunks_wrong;
    assert_eq!(
        (wrong, network.requests),
        (5, 20),
        "after 0, 1, 3, 7 and 15 seconds; one found wrong, three more on their way"
    );

    // A minute later it may have come to its senses.
    network.tamper = |_, frame| Some(frame);
    network.run_ms(65_000);
    assert!(network.nodes[1].checked.contains_key(&version(1)));
}

#[test]
fn links_that_die_in_the_middle_are_replaced() {
    for seed in 0..10 {
        let mut network = Network::new(COUNT, seed);
        let body = body(1 << 20, seed);
        network.edit(1, &body);
        network.run_ms(40);
        for dead in [4, 5, 11] {
            network.nodes[dead].up = false;
        }
        network.run_ms(60);
        network.relink();
        network.run_ms(2_000);
        for node in network.nodes.iter().filter(|node| node.up) {
            assert!(node.checked[&version(1)].1 == body, "seed {seed}");
        }
        assert!(
            network
                .nodes
                .iter()
                .any(|node| !node.checked.contains_key(&version(1)))
        );
    }
}

#[test]
fn a_dead_link_that_is_still_a_link_costs_a_moment_only() {
    for seed in 0..10 {
        let mut network = Network::new(COUNT, seed);
        network.edit(1, &body(1 << 20, seed));
        network.run_ms(40);
        network.nodes[7].up = false;
        network.run_ms(1_000);
        let others = network.nodes.iter().filter(|node| node.up);
        let found = others
            .filter(|node| node.checked.contains_key(&version(1)))
            .count();
        assert_eq!(found, COUNT - 1, "seed {seed}");
    }
}

#[test]
fn heavy_loss_only_slows_it_down() {
    for seed in 0..3 {
        let mut network = Network::new(COUNT, seed);
        network.loss_percent = 30;
        network.edit(1, &body(1 << 20, seed));
        network.run_ms(5_000);
        let found = network
            .nodes
            .iter()
            .filter(|node| node.documents.view(ID).unwrap().have);
        assert_eq!(found.count(), COUNT, "seed {seed}");
    }
}
