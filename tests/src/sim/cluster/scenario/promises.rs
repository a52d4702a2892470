//! What virtual clusters were promised, and lend each other.

use muster_consensus::GroupId;

use super::{any_leader, down, load, up, vcs};
use crate::sim::cluster::play::{ClusterPlay, shares};

/// One virtual cluster uses all machines, opportunistically; all others want theirs back.
pub(super) fn flood(play: &mut ClusterPlay) {
    // What could not be launched would leave room that nobody has to make.
    play.world.protocol.habits.fails_in = 0;
    let vcs = vcs(play);
    let nodes = play.world.nodes() as u64;
    let odd = (nodes % 2 == 1).then_some(1);
    for tasks in (0..nodes / 2).map(|_| 2).chain(odd) {
        play.opportunistic(vcs[0], (tasks, 4), 200_000);
    }
    play.world.run_for(10_000);
    let since = play.world.now();
    let lent = play.world.protocol.nodes_in_use(vcs[0]).len();
    play.expect(lent == play.world.nodes(), || {
        format!("only {lent} machines are used")
    });
    let before = play.world.protocol.account.preempted;
    for group in &vcs[1..] {
        play.gang(*group, (1, 4), 5_000);
    }
    // The grace of those that give way, and a launch.
    play.placed_within(since, &vcs[1..], 40_000);
    // A launch may have to be sent again.
    play.world.run_for(3_000);
    let gave_way = play.world.protocol.account.preempted - before;
    play.expect(gave_way > 0, || "nobody had to give way".to_owned());
}

/// What one virtual cluster was promised, and uses for long, is promised to others.
pub(super) fn withdrawn(play: &mut ClusterPlay) {
    play.world.protocol.habits.fails_in = 0;
    let nodes = play.world.nodes();
    // All that there is can be promised to the first one.
    let named = play.world.protocol.account.vcs.iter();
    let (rich, poor): (Vec<_>, Vec<_>) = named.partition(|(_, vc)| vc.as_str() == "vc0");
    let rich: Vec<GroupId> = rich.into_iter().map(|(group, _)| *group).collect();
    let poor: Vec<GroupId> = poor.into_iter().map(|(group, _)| *group).collect();
    play.describe(shares(nodes, 1 + poor.len(), nodes));
    play.world.run_for(15_000);
    for _ in 0..nodes {
        play.gang(rich[0], (1, 4), 200_000);
    }
    play.world.run_for(15_000);
    let used = play.world.protocol.nodes_in_use(rich[0]).len();
    play.expect(used == nodes, || format!("only {used} machines are used"));
    let since = play.world.now();
    play.describe(shares(nodes, 1 + poor.len(), nodes / (1 + poor.len())));
    for group in &poor {
        play.gang(*group, (1, 4), 5_000);
    }
    // Its leader hears of it, those that are in the way have their grace, and the cells change hands.
    play.placed_within(since, &poor, 60_000);
}

pub(super) fn resized(play: &mut ClusterPlay) {
    load(play, 60_000);
    let (nodes, count) = (play.world.nodes(), vcs(play).len());
    for promised in [nodes / 2, 0, nodes / count] {
        play.world.run_for(15_000);
        play.describe(shares(nodes, count, promised));
    }
    play.world.run_for(15_000);
    if play.world.random.below(2) == 0 {
        return;
    }
    // Cells change hands while they are being reserved, and leaders die of it.
    load(play, 40_000);
    for _ in 0..14 {
        let promised = play.world.random.index(nodes + 1);
        play.describe(shares(nodes, count, promised));
        let pause = play.world.random.below(3_000);
        play.world.run_for(pause);
        let leader = any_leader(play);
        down(&mut play.world, leader);
        play.world.run_for(500);
        up(&mut play.world, leader);
        play.world.run_for(1_500);
    }
    play.describe(shares(nodes, count, nodes / count));
}
