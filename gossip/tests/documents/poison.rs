//! Headers that no body fits.

use muster_gossip::documents::{BODY_BYTES_MAX, BodyVerdict};
use muster_gossip::record::Header;

use super::bodies::{ID, body, header, version};
use super::network::Network;

type Poison = fn(&mut Header);

fn rejected(network: &Network, node: usize) -> Option<String> {
    match network.nodes[node].documents.view(ID)?.verdict? {
        BodyVerdict::Rejected(reason) => Some(reason),
        BodyVerdict::Valid => None,
    }
}

#[test]
fn a_header_that_does_not_fit_itself_is_rejected_where_the_body_is() {
    let poisons: [(&str, Poison); 4] = [
        ("hash", |header| header.hash[0] ^= 1),
        ("list", |header| header.chunks[0] ^= 1),
        ("longer", |header| header.bytes += 1),
        ("more chunks", |header| header.bytes += 1 << 16),
    ];
    for (name, poison) in poisons {
        let (body, mut network) = (body(300_000, 1), Network::new(5, 1));
        let mut header = header(1, &body);
        poison(&mut header);
        network.header(0, ID, &header);
        network.body(0, version(1), &body);
        network.publish(ID, &header);
        network.run_ms(2_000);
        let reason = rejected(&network, 0).unwrap();
        assert!(reason.contains("do not fit each other"), "{name}: {reason}");
        for node in &network.nodes {
            assert!(node.checked.is_empty(), "{name}");
            let view = node.documents.view(ID).unwrap();
            assert_eq!(
                view.coverage.rejected,
                [1],
                "{name}: all know that node 0 rejects it"
            );
        }
    }
}

#[test]
fn a_huge_header_is_rejected_by_all_and_fetched_by_none() {
    for bytes in [BODY_BYTES_MAX as u64 + 1, 1 << 30, u64::MAX] {
        let mut network = Network::new(5, 1);
        let mut header = header(1, &body(300_000, 1));
        header.bytes = bytes;
        network.publish(ID, &header);
        network.run_ms(2_000);
        for node in 0..5 {
            assert!(rejected(&network, node).unwrap().contains("16 MiB"));
            let view = network.nodes[node].documents.view(ID).unwrap();
            assert_eq!(view.coverage.rejected, [0b1_1111]);
        }
        assert_eq!(network.requests, 0);
        network.nodes[4].up = false;
        network.relink();
        network.run_ms(2_000);
        assert!(network.is_quiet(), "new links change nothing");
    }
}

#[test]
fn a_short_poison_is_rejected_from_its_header_alone() {
    let mut network = Network::new(3, 1);
    let mut header = header(1, &body(3_000, 1));
    header.chunks[0] ^= 1;
    network.publish(ID, &header);
    network.run_ms(500);
    for node in 0..3 {
        assert!(rejected(&network, node).is_some());
    }
}

#[test]
fn the_next_version_is_not_poisoned() {
    let mut network = Network::new(5, 1);
    let mut bad = header(1, &body(300_000, 1));
    bad.bytes = 1 << 30;
    network.publish(ID, &bad);
    network.run_ms(500);
    network.edit(2, &body(300_000, 2));
    network.run_ms(1_000);
    for node in &network.nodes {
        let view = node.documents.view(ID).unwrap();
        assert_eq!(view.verdict, Some(BodyVerdict::Valid));
        assert!(view.coverage.rejected.is_empty());
    }
}
