//! What is put in force where, step by step.

use muster_gossip::MemberId;
use muster_gossip::documents::BodyVerdict;
use muster_gossip::record::{Header, HeaderStage};

use super::bodies::{ID, body, header, staged, version};
use super::network::{Network, id};

const COUNT: usize = 6;

fn canary() -> HeaderStage {
    HeaderStage::Canary(vec![id(2), id(5)])
}

/// The header of version 2 while version 1 is in force.
fn second() -> Header {
    Header {
        active: 1,
        active_body: Some(header(1, &body(70_000, 1)).body()),
        ..header(2, &body(150_000, 2))
    }
}

/// A cluster in which version 1 is in force and version 2 is everywhere.
fn two_versions(seed: u64) -> Network {
    let mut network = Network::new(COUNT, seed);
    network.edit(1, &body(70_000, 1));
    step(
        &mut network,
        &staged(&header(1, &body(70_000, 1)), HeaderStage::Active),
    );
    network.header(0, ID, &second());
    network.body(0, version(2), &body(150_000, 2));
    step(&mut network, &second());
    network
}

fn step(network: &mut Network, header: &Header) {
    network.publish(ID, header);
    network.run_ms(1_000);
}

fn in_force(network: &Network) -> Vec<u64> {
    let active = |document: muster_gossip::documents::KnownDocument| document.active.unwrap_or(0);
    let views = network.nodes.iter().map(|node| node.documents.view(ID));
    views.map(|view| view.map_or(0, active)).collect()
}

#[test]
fn a_version_goes_step_by_step() {
    for seed in 0..10 {
        let mut network = two_versions(seed);
        assert_eq!(in_force(&network), [1; COUNT], "seed {seed}");
        for node in &network.nodes {
            let view = node.documents.view(ID).unwrap();
            assert_eq!(view.verdict, Some(BodyVerdict::Valid));
            assert_eq!(view.coverage.valid, [0b11_1111]);
            assert!(view.coverage.active.is_empty());
        }
        step(&mut network, &staged(&second(), canary()));
        assert_eq!(in_force(&network), [1, 1, 2, 1, 1, 2]);
        step(&mut network, &staged(&second(), HeaderStage::Active));
        assert_eq!(in_force(&network), [2; COUNT]);
        for node in &network.nodes {
            let view = node.documents.view(ID).unwrap();
            assert_eq!(view.coverage.active, [0b11_1111]);
            let order: Vec<_> = node
                .activated
                .iter()
                .map(|(_, document)| document.version)
                .collect();
            assert_eq!(order, [1, 2]);
            assert_eq!(node.retained[&ID], [version(1), version(2)]);
        }
    }
}

#[test]
fn what_is_withdrawn_goes_no_further() {
    let mut network = two_versions(1);
    step(&mut network, &staged(&second(), canary()));
    step(&mut network, &staged(&second(), HeaderStage::Withdrawn));
    // No version goes back: canaries wait for the next one.
    assert_eq!(in_force(&network), [1, 1, 2, 1, 1, 2]);
    let mut third = header(3, &body(70_000, 1));
    (third.active, third.active_body) = (1, second().active_body);
    step(&mut network, &staged(&third, HeaderStage::Active));
    assert_eq!(in_force(&network), [3; COUNT]);
    for node in &network.nodes {
        let told = node.activated.iter().map(|(_, document)| document.version);
        assert!(told.is_sorted(), "nobody is told to go back");
    }
}

#[test]
fn an_older_header_changes_nothing() {
    let mut network = two_versions(1);
    let before = network.nodes[3].documents.view(ID);
    network.header(
        3,
        ID,
        &staged(&header(1, &body(70_000, 1)), HeaderStage::Active),
    );
    assert_eq!(network.nodes[3].documents.view(ID), before);
    assert_eq!(network.nodes[3].documents.counters().headers_refused, 1);
}

#[test]
fn who_missed_a_version_fetches_what_is_in_force_and_what_comes() {
    let mut network = two_versions(1);
    network.restart(4);
    network.nodes[4].activated.clear();
    network.header(4, ID, &second());
    network.run_ms(1_000);
    let node = &network.nodes[4];
    assert!(node.checked[&version(1)].1 == body(70_000, 1));
    assert!(node.checked[&version(2)].1 == body(150_000, 2));
    assert_eq!(in_force(&network), [1; COUNT]);
}

#[test]
fn what_a_node_rejects_is_not_put_in_force_there() {
    let mut network = Network::new(COUNT, 1);
    network.judge = |node, _| match node {
        MemberId(4) => BodyVerdict::Rejected("line 3: no such field".to_owned()),
        _ => BodyVerdict::Valid,
    };
    network.edit(1, &body(70_000, 1));
    network.run_ms(1_000);
    step(
        &mut network,
        &staged(&header(1, &body(70_000, 1)), HeaderStage::Active),
    );
    assert_eq!(in_force(&network), [1, 1, 1, 1, 0, 1]);
    for (number, node) in network.nodes.iter().enumerate() {
        let view = node.documents.view(ID).unwrap();
        let own = BodyVerdict::Rejected("line 3: no such field".to_owned());
        assert_eq!(view.verdict == Some(own), number == 4);
        assert_eq!(view.coverage.valid, [0b10_1111]);
        assert_eq!(view.coverage.rejected, [0b01_0000]);
    }
}

#[test]
fn withdrawal_stops_the_fetching() {
    let mut network = Network::new(COUNT, 1);
    let body = body(2 << 20, 1);
    network.edit(1, &body);
    network.run_ms(40);
    network.publish(ID, &staged(&header(1, &body), HeaderStage::Withdrawn));
    network.run_ms(15);
    network.requests = 0;
    network.run_ms(5_000);
    assert_eq!(network.requests, 0);
    assert!(network.is_quiet());
    assert!(
        network
            .nodes
            .iter()
            .skip(1)
            .all(|node| node.checked.is_empty())
    );
}
