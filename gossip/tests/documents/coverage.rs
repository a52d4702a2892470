//! What nodes know of each other's documents.

use muster_gossip::frame::DocumentFrame;

use super::bodies::{ID, body, header, version};
use super::network::{Network, id};

fn everybody(count: usize) -> Vec<u8> {
    let mut bits = vec![0; count.div_ceil(8)];
    (0..count).for_each(|node| bits[node / 8] |= 1 << (node % 8));
    bits
}

fn digests(network: &Network) -> Vec<u64> {
    let mut digests: Vec<_> = network
        .nodes
        .iter()
        .map(|node| node.documents.digest())
        .collect();
    digests.dedup();
    digests
}

#[test]
fn all_know_of_all_and_then_nothing_is_sent() {
    for (count, seed) in [(2, 1), (5, 2), (60, 3), (60, 4)] {
        let mut network = Network::new(count, seed);
        network.edit(1, &body(5_000, 1));
        network.run_ms(1_000);
        for node in &network.nodes {
            let coverage = node.documents.view(ID).unwrap().coverage;
            assert_eq!(
                coverage.valid,
                everybody(count),
                "{count} nodes, seed {seed}"
            );
        }
        assert_eq!(digests(&network).len(), 1);
        assert_ne!(digests(&network), [0]);
        assert!(network.is_quiet());
    }
}

#[test]
fn what_was_lost_is_told_again_to_a_link_that_differs() {
    let mut network = Network::new(5, 1);
    network.tamper = |from, frame| match frame {
        DocumentFrame::Coverage(_) if from == id(3) => None,
        other => Some(other),
    };
    network.edit(1, &body(5_000, 1));
    network.run_ms(2_000);
    assert_ne!(digests(&network).len(), 1);
    network.tamper = |_, frame| Some(frame);
    let now = network.now;
    for link in network.nodes[3].links.clone() {
        network.call(3, |documents, _, _| documents.differs(now, link));
    }
    network.run_ms(1_000);
    assert_eq!(digests(&network).len(), 1);
}

#[test]
fn a_node_that_comes_back_learns_what_the_others_know() {
    let mut network = Network::new(9, 1);
    network.edit(1, &body(5_000, 1));
    network.run_ms(1_000);
    network.nodes[4].up = false;
    network.relink();
    network.run_ms(500);
    network.restart(4);
    network.relink();
    network.header(4, ID, &header(1, &body(5_000, 1)));
    assert!(
        network.nodes[4]
            .documents
            .view(ID)
            .unwrap()
            .coverage
            .valid
            .is_empty()
    );
    network.run_ms(300);
    let coverage = network.nodes[4].documents.view(ID).unwrap().coverage;
    assert_eq!(coverage.valid, everybody(9));
}

#[test]
fn a_quick_restart_that_nobody_noticed_learns_it_too() {
    for disk in [false, true] {
        let mut network = Network::new(9, 1);
        let body = body(5_000, 1);
        network.edit(1, &body);
        network.run_ms(1_000);
        network.restart(4);
        network.header(4, ID, &header(1, &body));
        if disk {
            network.body(4, version(1), &body);
        }
        network.run_ms(300);
        let coverage = network.nodes[4].documents.view(ID).unwrap().coverage;
        assert_eq!(coverage.valid, everybody(9), "body on disk: {disk}");
    }
}

#[test]
fn who_asks_is_told_again() {
    let mut network = Network::new(2, 1);
    network.loss_percent = 0;
    network.edit(1, &body(5_000, 1));
    network.run_ms(1_000);
    let before = network.frames;
    let ask = DocumentFrame::Have {
        document: version(1),
        chunks: Vec::new(),
    };
    assert_eq!(network.frame(0, 1, ask).len(), 1, "what is here");
    network.call(0, |_, _, _| {});
    network.run_ms(200);
    assert_eq!(network.frames, before + 1, "and the coverage");
}
