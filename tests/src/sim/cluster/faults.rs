//! What goes wrong in a cluster: which of it, and how badly, the seed says.

use muster_model::time::Time;

use super::play::{ClusterPlay, back_after};
use super::{Cluster, echo};
use crate::sim::random::Chance;
use crate::sim::world::World;

/// Sets a fault going.
pub(super) type ClusterFault = fn(&mut ClusterPlay);

/// All there are: name, what it is, and how it is set going.
pub(super) const ALL: &[(&str, &str, ClusterFault)] = &[
    ("crash", "agents crash and come back", crash),
    ("restart", "agents restart", restart),
    (
        "power",
        "machines lose their power, and boot anew",
        lose_power,
    ),
    ("pause", "machines stand still", pause),
    ("die", "agents die between two things that they do", die),
    ("partition", "a minority is cut off now and then", partition),
    ("cutoff", "a machine is cut off for long", cut_off),
    (
        "oneway",
        "a machine hears nothing, or is not heard",
        one_way,
    ),
    ("loss", "a fifth of all packets is lost", loss),
    ("delay", "packets take long", delay),
    (
        "reorder",
        "packets come twice and overtake each other",
        reorder,
    ),
    (
        "echo",
        "all that is sent comes once more, seconds later",
        echo_all,
    ),
    ("leader", "whoever leads dies, and comes back", kill_leaders),
    ("full", "disks of the state are full", full_disks),
    ("slow", "disks take long", slow_disks),
    ("clock", "clocks jump", clock_jumps),
    (
        "diskloss",
        "a machine loses the log of all groups",
        lose_disk,
    ),
];

/// Some of all faults, by the seed.
pub(super) fn some(play: &mut ClusterPlay) -> Vec<ClusterFault> {
    let random = &mut play.world.random;
    let chosen = ALL.iter().filter(|_| random.below(3) == 0);
    chosen.map(|(.., fault)| *fault).collect()
}

/// The faults among these names.
pub(super) fn named(names: &[&str]) -> Vec<ClusterFault> {
    let chosen = ALL.iter().filter(|(name, ..)| names.contains(name));
    chosen.map(|(.., fault)| *fault).collect()
}

impl Cluster {
    /// What is wrong with machines themselves is mended.
    pub(super) fn heal(&mut self) {
        for machine in &mut self.machines {
            machine.full = false;
            machine.slow_us = 0;
            machine.clock.ahead_us = 0;
        }
    }

    /// A machine's log store is lost, and an empty one takes its place.
    pub(super) fn lose_log(&mut self, node: usize) {
        let store = muster_consensus::StoreId(self.random.next());
        self.machines[node].store = super::store::Store::new(store);
    }
}

/// Does something to a random machine now and then.
fn now_and_then(
    play: &mut ClusterPlay,
    ms: u64,
    does: impl Fn(&mut World<Cluster>, usize) + 'static,
) {
    let first = play.world.random.below(ms * 1_000);
    let first = Time(play.world.now().0 + first);
    play.world.add_chore(
        first,
        Box::new(move |world| {
            let node = world.random.index(world.nodes());
            does(world, node);
            let next = world.random.below(2 * ms * 1_000);
            Some(Time(world.now().0 + 1_000 + next))
        }),
    );
}

fn crash(play: &mut ClusterPlay) {
    now_and_then(play, 3_000, |world, node| {
        if world.engine.up(node) {
            world.crash(node);
        } else {
            world.start(node);
        }
    });
}

pub(super) fn restart(play: &mut ClusterPlay) {
    now_and_then(play, 2_000, |world, node| {
        if world.engine.up(node) {
            world.crash(node);
            world.start(node);
        }
    });
}

fn lose_power(play: &mut ClusterPlay) {
    now_and_then(play, 6_000, |world, node| {
        if !world.engine.up(node) {
            return;
        }
        world.crash(node);
        let now = world.now();
        world.protocol.power_off(now, node);
        let ms = 500 + world.random.below(10_000);
        back_after(world, node, ms);
    });
}

fn pause(play: &mut ClusterPlay) {
    now_and_then(play, 2_000, |world, node| {
        let most = [500_000, 5_000_000, 40_000_000][world.random.index(3)];
        let us = world.random.below(most);
        world.pause(node, us);
    });
}

/// Processes die between two things that they do for their ledgers.
fn die(play: &mut ClusterPlay) {
    play.world.protocol.dies_in = 300;
}

/// Cut for a while, whole for a while.
fn sides(play: &mut ClusterPlay, longest_ms: u64, cut: impl Fn(&mut World<Cluster>) + 'static) {
    let mut is_cut = false;
    let first = play.world.now().plus_millis(1_000);
    play.world.add_chore(
        first,
        Box::new(move |world| {
            is_cut = !is_cut;
            if is_cut {
                cut(world);
            } else {
                world.engine.network.heal();
            }
            let next = 1_000 + world.random.below(longest_ms);
            Some(world.now().plus_millis(next))
        }),
    );
}

fn partition(play: &mut ClusterPlay) {
    sides(play, 10_000, |world| {
        let nodes = world.nodes();
        let order = world.random.sample(nodes, nodes);
        let minority = 1 + world.random.index(nodes.div_ceil(2));
        for &node in &order[..minority] {
            world.engine.network.cuts.side(node, 2);
        }
    });
}

/// One machine is cut off, for longer than leases last.
fn cut_off(play: &mut ClusterPlay) {
    sides(play, 90_000, |world| {
        let node = world.random.index(world.nodes());
        world.engine.network.cuts.side(node, 2);
    });
}

fn one_way(play: &mut ClusterPlay) {
    sides(play, 8_000, |world| {
        let node = world.random.index(world.nodes());
        if world.random.below(2) == 0 {
            world.engine.network.cuts.silence(node);
        } else {
            world.engine.network.cuts.deafen(node);
        }
    });
}

fn loss(play: &mut ClusterPlay) {
    play.world.engine.network.weather.loss = Chance::percent(20.0);
}

fn delay(play: &mut ClusterPlay) {
    play.world.engine.network.weather.extra_us = 40_000;
}

fn reorder(play: &mut ClusterPlay) {
    play.world.engine.in_order = false;
    let weather = &mut play.world.engine.network.weather;
    weather.duplicate = Chance::percent(10.0);
    weather.reorder = Chance::percent(20.0);
    weather.spike_us = 50_000;
}

/// Everything comes once more, after a time that the seed chooses: shorter than a lease.
pub(super) fn echo_all(play: &mut ClusterPlay) {
    let ms = [500, 3_000, 12_000][play.world.random.index(3)];
    play.world.protocol.echo_ms = ms;
    let first = play.world.now();
    play.world.add_chore(
        first,
        Box::new(|world| {
            echo::deliver(world);
            Some(world.now().plus_millis(20))
        }),
    );
}

/// Whoever leads something dies, and comes back after a while.
pub(super) fn kill_leaders(play: &mut ClusterPlay) {
    now_and_then(play, 5_000, |world, _| {
        let groups = world.protocol.groups();
        let group = groups[world.random.index(groups.len())];
        let Some(node) = world
            .protocol
            .leader(group)
            .filter(|it| world.engine.up(*it))
        else {
            return;
        };
        let now = world.now();
        let led: Vec<_> = groups
            .into_iter()
            .filter(|group| world.protocol.leader(*group) == Some(node))
            .collect();
        world.crash(node);
        for group in led {
            world.protocol.figures.lost_leader(now, group);
        }
        let ms = 200 + world.random.below(5_000);
        back_after(world, node, ms);
    });
}

fn full_disks(play: &mut ClusterPlay) {
    now_and_then(play, 4_000, |world, node| {
        let machine = &mut world.protocol.machines[node];
        machine.full = !machine.full;
    });
}

fn slow_disks(play: &mut ClusterPlay) {
    now_and_then(play, 2_000, |world, node| {
        let us = world.random.below(300_000);
        world.protocol.machines[node].slow_us = us;
    });
}

/// The time of day jumps by up to a year.
fn clock_jumps(play: &mut ClusterPlay) {
    now_and_then(play, 5_000, |world, node| {
        const YEAR_US: i64 = 31_536_000_000_000;
        let most = [1_000_000, 600_000_000, YEAR_US][world.random.index(3)];
        let ahead = world.random.below(2 * most.unsigned_abs());
        let ahead = i64::try_from(ahead).unwrap_or(0) - most;
        world.protocol.machines[node].clock.ahead_us = ahead;
        world.act(node, |_, _, _| ());
    });
}

/// A machine loses the log of all its groups, and comes back without.
fn lose_disk(play: &mut ClusterPlay) {
    let at = play.world.random.below(30_000);
    let at = play.world.now().plus_millis(at);
    play.world.add_chore(
        at,
        Box::new(|world| {
            let node = world.random.index(world.nodes());
            if world.engine.up(node) {
                world.crash(node);
            }
            world.protocol.lose_log(node);
            world.start(node);
            None
        }),
    );
}
