//! How fast a body gets everywhere, and from where.

use std::sync::Arc;

use muster_gossip::documents::DocumentsInput;
use muster_gossip::record::HeaderStage;
use muster_model::time::Time;

use super::bodies::{ID, body, header, staged, version};
use super::network::Network;

/// Ms until all `count` nodes have a body of so many bytes.
fn spread(count: usize, bytes: usize, seed: u64) -> u64 {
    let mut network = Network::new(count, seed);
    let body = body(bytes, seed);
    let start = network.now;
    network.edit(1, &body);
    network.run_ms(3_000);
    let found = network.nodes.iter().map(|node| &node.checked[&version(1)]);
    let last = found.map(|(at, found)| {
        assert!(found == &body);
        *at
    });
    last.max().unwrap_or(Time(u64::MAX)).micros_since(start) / 1_000
}

#[test]
fn a_body_of_any_length_gets_everywhere() {
    let chunk = 64 << 10;
    for bytes in [0, 1, 5_000, chunk - 1, chunk, chunk + 1, 3 * chunk, 700_001] {
        for count in [1, 2, 5] {
            spread(count, bytes, 7);
        }
    }
}

#[test]
fn a_mebibyte_is_on_a_hundred_nodes_in_time() {
    for seed in 0..4 {
        let last_ms = spread(100, 1 << 20, seed);
        assert!(last_ms < 300, "seed {seed}: {last_ms} ms");
    }
}

#[test]
fn nobody_fetches_what_is_here() {
    let mut network = Network::new(8, 3);
    let (first, mut second) = (body(1 << 20, 1), body(1 << 20, 1).to_vec());
    network.edit(1, &first);
    network.run_ms(2_000);
    assert_eq!(network.requests, 7 * 16);

    // One chunk of the next version is new.
    second[5 << 16] ^= 1;
    let second: Arc<[u8]> = second.into();
    let mut next = header(2, &second);
    (next.active, next.active_body) = (1, Some(header(1, &first).body()));
    network.requests = 0;
    network.header(0, ID, &next);
    network.body(0, version(2), &second);
    network.publish(ID, &next);
    network.run_ms(2_000);
    assert_eq!(network.requests, 7);
    assert!(
        network
            .nodes
            .iter()
            .all(|node| node.checked[&version(2)].1 == second)
    );
}

#[test]
fn a_rollback_fetches_nothing() {
    let mut network = Network::new(8, 3);
    let (first, second) = (body(1 << 20, 1), body(1 << 20, 2));
    network.edit(1, &first);
    network.run_ms(2_000);
    let mut next = header(2, &second);
    (next.active, next.active_body) = (1, Some(header(1, &first).body()));
    network.publish(ID, &next);
    network.body(0, version(2), &second);
    network.run_ms(2_000);
    let mut back = header(3, &first);
    (back.active, back.active_body) = (1, next.active_body);
    network.requests = 0;
    network.publish(ID, &staged(&back, HeaderStage::Active));
    network.run_ms(100);
    assert_eq!(network.requests, 0);
    for node in &network.nodes {
        assert!(node.checked[&version(3)].1 == first);
        assert_eq!(node.activated.last().unwrap().1, version(3));
    }
}

#[test]
fn a_restart_reads_the_disk_and_fetches_nothing() {
    let (body, mut network) = (body(200_000, 1), Network::new(5, 1));
    let active = staged(&header(1, &body), HeaderStage::Active);
    network.header(0, ID, &active);
    network.body(0, version(1), &body);
    network.publish(ID, &active);
    network.run_ms(2_000);
    for body_first in [true, false] {
        network.restart(3);
        network.requests = 0;
        network.input(3, DocumentsInput::Active(version(1)));
        if body_first {
            network.body(3, version(1), &body);
            network.header(3, ID, &active);
        } else {
            network.header(3, ID, &active);
            network.body(3, version(1), &body);
        }
        network.run_ms(2_000);
        let view = network.nodes[3].documents.view(ID).unwrap();
        assert!(view.have && view.active == Some(1));
        assert_eq!(network.requests, 0);
        assert_eq!(
            network.nodes[3].activated.len(),
            1,
            "only before the restart"
        );
    }
}

#[test]
fn where_nobody_has_it_the_questions_become_few() {
    let mut network = Network::new(5, 1);
    network.publish(ID, &header(1, &body(200_000, 1)));
    network.run_ms(60_000);
    let before = network.frames;
    network.run_ms(60_000);
    let asked = network.frames - before;
    assert!((1..=5 * 4 * 4).contains(&asked), "{asked}");

    // And the body is fetched at once when it turns up.
    network.body(2, version(1), &body(200_000, 1));
    network.run_ms(300);
    assert!(
        network
            .nodes
            .iter()
            .all(|node| node.checked.contains_key(&version(1)))
    );
}
