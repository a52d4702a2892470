//! Machines that stand still, and clocks that jump.

use super::{any, any_leader, load};
use crate::sim::cluster::faults;
use crate::sim::cluster::play::ClusterPlay;

pub(super) fn old_leader(play: &mut ClusterPlay) {
    load(play, 60_000);
    play.world.run_for(1_000);
    let leader = any_leader(play);
    play.world.pause(leader, 60_000_000);
    play.world.run_for(75_000);
}

pub(super) fn jumping_clocks(play: &mut ClusterPlay) {
    load(play, 60_000);
    // What one has begun another one ends, by its own clock.
    faults::kill_leaders(play);
    for _ in 0..20 {
        let node = any(play);
        let ahead = play.world.random.below(200_000_000_000);
        let ahead = i64::try_from(ahead).unwrap_or(0) - 100_000_000_000;
        play.world.protocol.machines[node].clock.ahead_us = ahead;
        play.world.act(node, |_, _, _| ());
        play.world.run_for(4_000);
    }
}
