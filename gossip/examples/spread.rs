//! How long a body takes to every node of a simulated network with 5 % loss, by seed:
//!
//! ```text
//! cargo run --release -p muster-gossip --example spread -- NODES BYTES SEEDS
//! ```
#![allow(clippy::unwrap_used, dead_code)]

#[path = "../tests/documents/bodies.rs"]
mod bodies;
#[path = "../tests/documents/network.rs"]
mod network;

use network::Network;

fn main() {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .flat_map(|word| word.parse())
        .collect();
    let [nodes, bytes, seeds] = numbers[..] else {
        eprintln!("three numbers are needed: nodes, bytes, seeds");
        return;
    };
    for seed in 0..seeds as u64 {
        spread(nodes, bytes, seed);
    }
}

fn spread(nodes: usize, bytes: usize, seed: u64) {
    let mut network = Network::new(nodes, seed);
    let start = network.now;
    network.edit(1, &bodies::body(bytes, seed));
    network.run_ms(1_500);
    let found = network
        .nodes
        .iter()
        .filter_map(|node| node.checked.get(&bodies::version(1)));
    let mut took_ms: Vec<_> = found
        .map(|(at, _)| at.micros_since(start) / 1_000)
        .collect();
    took_ms.sort_unstable();
    let at = |percent: usize| took_ms[(took_ms.len() * percent / 100).min(took_ms.len() - 1)];
    let views = network
        .nodes
        .iter()
        .map(|node| node.documents.view(bodies::ID).unwrap());
    let valid = views.map(|view| {
        view.coverage
            .valid
            .iter()
            .map(|byte| byte.count_ones())
            .sum::<u32>()
    });
    println!(
        "seed {seed}: {} of {nodes} nodes, p50 {} ms, p99 {} ms, last {} ms; known by all after \
         1.5 s: {}; {} frames a node, {} bytes sent by the busiest",
        took_ms.len(),
        at(50),
        at(99),
        at(100),
        valid.min().unwrap_or(0),
        network.frames / nodes as u64,
        network
            .nodes
            .iter()
            .map(|node| node.sent_bytes)
            .max()
            .unwrap_or(0),
    );
}
