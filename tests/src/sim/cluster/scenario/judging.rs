//! Machines that others could think wrongly of, and machines that think wrongly of others.

use super::{any, down, fairly, gangs, load, steadily, up};
use crate::sim::cluster::play::ClusterPlay;
use crate::sim::mesh::broken_clock;

/// Who lies does so for so many seconds.
const LIES: u64 = 40;
/// What a machine sends per second may grow by so much while one lies, bytes.
const LIAR_BYTES_S: u64 = 10_000;

/// A hundredth of the machines, one at least, get hardly any time to run: nobody is judged for it but
/// themselves, and gangs go on, on them as well.
pub(super) fn starved(play: &mut ClusterPlay) {
    gangs(play, 90_000);
    let nodes = play.world.nodes();
    let starved = play.world.random.sample(nodes, nodes.div_ceil(100));
    for &node in &starved {
        play.world.starve(node);
    }
    load(play, 40_000);
    fairly(play, &starved, |play| {
        steadily(play, |play| play.world.run_for(80_000));
    });
}

/// One machine says of everybody else that they are away: nobody believes it, and nothing is started anew.
pub(super) fn liar(play: &mut ClusterPlay) {
    gangs(play, 120_000);
    load(play, 10_000);
    play.world.run_for(15_000);
    let before = bytes_s(play, 5_000);
    let liar = any(play);
    down(&mut play.world, liar);
    play.world.run_for(500);
    let hosts = &mut play.world.protocol.mesh.hosts;
    let honest = std::mem::replace(&mut hosts[liar].config, broken_clock());
    up(&mut play.world, liar);
    load(play, 20_000);
    fairly(play, &[liar], |play| steadily(play, |play| lie(play, liar)));
    let lying = bytes_s(play, 5_000);
    play.expect(lying <= before + LIAR_BYTES_S, || {
        format!("{lying} bytes/s while one lies, {before} before")
    });
    down(&mut play.world, liar);
    play.world.protocol.mesh.hosts[liar].config = honest;
    up(&mut play.world, liar);
}

fn lie(play: &mut ClusterPlay, liar: usize) {
    for round in 0..LIES {
        play.world.run_for(1_000);
        play.world.act(liar, |cluster, _, out| {
            cluster.in_mesh(out, |mesh, inner| mesh.slander(liar, round, inner));
        });
    }
}

/// What a machine sends per second, on average over so long.
fn bytes_s(play: &mut ClusterPlay, ms: u64) -> u64 {
    let before = play.world.engine.bytes;
    play.world.run_for(ms);
    let bytes = play.world.engine.bytes - before;
    bytes * 1_000 / ms / play.world.nodes() as u64
}
