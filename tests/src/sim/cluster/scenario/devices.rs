//! Devices that are not seen for a while.

use super::{are_placed, down, gangs, load, steadily, up, vcs};
use crate::sim::cluster::play::ClusterPlay;

/// How long they are not seen, ms.
const BLIND_MS: u64 = 120_000;
/// Once they are, who waited for all of them is placed within this, ms: one that runs for a minute and fails
/// three times may be in front.
const PLACED_MS: u64 = 240_000;

/// The devices of a twentieth of the machines are not seen for two minutes: what runs there goes on, nothing
/// is placed on them, not even by agents that start meanwhile, and afterwards they are as good as ever.
pub(super) fn blind(play: &mut ClusterPlay) {
    gangs(play, 60_000);
    let nodes = play.world.nodes();
    let mut blind = play.world.random.sample(nodes, nodes.div_ceil(20));
    let used = play.world.protocol.nodes_in_use(vcs(play)[0]);
    // One of them at least is where a gang runs.
    blind.extend(used.first());
    blind.sort_unstable();
    blind.dedup();
    see(play, &blind, false);
    load(play, 30_000);
    steadily(play, |play| play.world.run_for(BLIND_MS / 2));
    if play.world.random.below(2) == 0 {
        let node = blind[play.world.random.index(blind.len())];
        down(&mut play.world, node);
        play.world.run_for(1_000);
        up(&mut play.world, node);
    }
    play.world.run_for(BLIND_MS / 4);
    let vcs = vcs(play);
    let promised = (nodes / vcs.len()) as u64;
    let wide = vcs
        .into_iter()
        .map(|group| play.gang(group, (promised, 4), 2_000));
    let wide: Vec<_> = wide.collect();
    play.world.run_for(BLIND_MS / 4);
    see(play, &blind, true);
    are_placed(play, &wide, PLACED_MS);
}

/// These machines' devices are seen from now on, or not.
fn see(play: &mut ClusterPlay, nodes: &[usize], is_seen: bool) {
    for &node in nodes {
        play.world.act(node, |cluster, now, out| {
            cluster.look_at_devices(now, node, !is_seen, out);
        });
    }
}
