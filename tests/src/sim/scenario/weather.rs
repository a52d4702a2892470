//! Faults that can go on side by side, while nodes change and documents are edited; then all must
//! be well again.

use std::sync::Arc;

use muster_gossip::record::RecordKey;
use muster_model::time::Time;

use super::stage::MeshStage;
use crate::sim::mesh::{MeshNodes, SimAuthority};
use crate::sim::protocol::Edit;
use crate::sim::random::Chance;
use crate::sim::world::World;

/// Sets a fault going.
pub(super) type MeshFault = fn(&mut MeshStage);

/// How long faults go on, ms.
const STORM_MS: u64 = 40_000;
/// Loss while many things are new, percent.
const FIRST_TRY_LOSS: f64 = 30.0;
/// Twice so many.
const FIRST_TRIES: usize = 40;
/// What is new is everywhere within this, ms: a probe would notice what is missing later.
const FIRST_TRY_MS: u64 = 400;

/// All of `faults` at once under load; then the cluster must be as well as ever.
pub(super) fn storm(stage: &mut MeshStage, faults: &[MeshFault]) {
    stage.world.views.excused = true;
    faults.iter().for_each(|fault| fault(stage));
    let every = stage.after(500);
    stage.world.add_chore(
        every,
        Box::new(|world| {
            let node = world.random.index(world.nodes());
            if world.engine.up(node) && !world.engine.paused(node) {
                world.change(node);
            }
            later(world, 500)
        }),
    );
    stage.run(STORM_MS);
    stage.recover();
}

/// Some time within the next `ms`.
#[allow(clippy::unnecessary_wraps)]
fn later(world: &mut World<MeshNodes>, ms: u64) -> Option<Time> {
    let wait = 1_000 + world.random.below(ms * 1_000);
    Some(Time(world.now().0 + wait))
}

/// Does something to a random node now and then.
fn now_and_then(
    stage: &mut MeshStage,
    ms: u64,
    does: impl Fn(&mut World<MeshNodes>, usize) + 'static,
) {
    let first = stage.after(ms / 2);
    stage.world.add_chore(
        first,
        Box::new(move |world| {
            let node = world.random.index(world.nodes());
            does(world, node);
            later(world, ms)
        }),
    );
}

/// Many are new, two versions of each almost at once, while much is lost: push sends again what was
/// lost, and leaves next to nothing to repair.
pub(super) fn first_try(stage: &mut MeshStage) {
    stage.world.views.excused = true;
    stage.world.engine.network.weather.loss = Chance::percent(FIRST_TRY_LOSS);
    stage.run(1_000);
    let before = repairs(stage);
    let first = stage.any();
    for round in 0..FIRST_TRIES {
        let node = (first + round) % stage.nodes();
        stage.world.change(node);
        let gap = stage.world.random.below(4);
        stage.world.run_for(gap);
        stage.world.change(node);
        let key = RecordKey::Node(MeshStage::id(node));
        stage.within(
            FIRST_TRY_MS,
            "what is new on every node under loss",
            |world| {
                let hash = |node| {
                    let core = world.protocol.core(node);
                    core.and_then(|core| core.record(key))
                        .map(|record| record.hash)
                };
                let own = hash(node);
                (0..world.nodes()).all(|other| hash(other) == own)
            },
        );
        stage.world.run_for(250);
    }
    let repaired = repairs(stage) - before;
    let most = (FIRST_TRIES * stage.nodes()) as u64 / 30;
    stage.expect(repaired <= most, || {
        format!(
            "{repaired} times repair looked for what push should have brought, {most} are the most"
        )
    });
    stage.recover();
}

/// How often nodes looked into a difference.
fn repairs(stage: &MeshStage) -> u64 {
    let cores = (0..stage.nodes()).filter_map(|node| stage.core(node));
    cores.map(|core| core.counters().repairs).sum()
}

pub(super) fn loss(stage: &mut MeshStage) {
    stage.world.engine.network.weather.loss = Chance::percent(25.0);
}

pub(super) fn duplicates(stage: &mut MeshStage) {
    stage.world.engine.network.weather.duplicate = Chance::percent(20.0);
}

pub(super) fn reorder(stage: &mut MeshStage) {
    let weather = &mut stage.world.engine.network.weather;
    weather.reorder = Chance::percent(20.0);
    weather.spike_us = 50_000;
}

pub(super) fn delay(stage: &mut MeshStage) {
    stage.world.engine.network.weather.extra_us = 40_000;
}

pub(super) fn corrupt(stage: &mut MeshStage) {
    stage.world.engine.network.weather.corrupt = Chance::percent(5.0);
}

pub(super) fn replay(stage: &mut MeshStage) {
    stage.world.engine.network.weather.replay = Chance::percent(20.0);
}

pub(super) fn one_way(stage: &mut MeshStage) {
    now_and_then(stage, 2_000, |world, from| {
        let to = world.random.index(world.nodes());
        world.engine.network.cuts.cut(from, to);
    });
}

pub(super) fn bad_links(stage: &mut MeshStage) {
    now_and_then(stage, 500, |world, from| {
        let to = world.random.index(world.nodes());
        world
            .engine
            .network
            .cuts
            .spoil(from, to, Chance::percent(60.0));
    });
}

/// Nodes that hear everything, but are not heard.
pub(super) fn mute(stage: &mut MeshStage) {
    sides(stage, |world| {
        let node = world.random.index(world.nodes());
        world.engine.network.cuts.silence(node);
    });
}

/// Cuts along sides: cut for a while, whole for a while.
fn sides(stage: &mut MeshStage, choose: impl Fn(&mut World<MeshNodes>) + 'static) {
    let mut cut = false;
    let first = stage.after(1_000);
    stage.world.add_chore(
        first,
        Box::new(move |world| {
            cut = !cut;
            if cut {
                choose(world);
            } else {
                world.engine.network.heal();
            }
            Some(world.now().plus_millis(3_000 + world.random.below(6_000)))
        }),
    );
}

fn split(world: &mut World<MeshNodes>) -> Vec<usize> {
    let nodes = world.nodes();
    let order = world.random.sample(nodes, nodes);
    for &node in &order[..nodes / 2] {
        world.engine.network.cuts.side(node, 2);
    }
    order
}

pub(super) fn partition(stage: &mut MeshStage) {
    sides(stage, |world| {
        split(world);
    });
}

pub(super) fn bridge(stage: &mut MeshStage) {
    sides(stage, |world| {
        let order = split(world);
        world.engine.network.cuts.side(order[0], 3);
    });
}

pub(super) fn rack_cut(stage: &mut MeshStage) {
    sides(stage, |world| {
        let nodes = world.nodes();
        let rack = SimAuthority::rack(world.random.index(nodes), nodes);
        for node in (0..nodes).filter(|&node| SimAuthority::rack(node, nodes) == rack) {
            world.engine.network.cuts.side(node, 2);
        }
    });
}

pub(super) fn flap(stage: &mut MeshStage) {
    now_and_then(stage, 1_000, |world, one| {
        let other = world.random.index(world.nodes());
        let heal = world.random.below(2) == 0;
        let cuts = &mut world.engine.network.cuts;
        if heal {
            cuts.mend_all();
        } else {
            cuts.cut(one, other);
            cuts.cut(other, one);
        }
    });
}

pub(super) fn crash(stage: &mut MeshStage) {
    now_and_then(stage, 4_000, |world, node| {
        if world.engine.up(node) {
            world.crash(node);
        } else {
            world.start(node);
        }
    });
}

pub(super) fn restart(stage: &mut MeshStage) {
    now_and_then(stage, 3_000, |world, node| {
        if world.engine.up(node) {
            world.crash(node);
            world.start(node);
        }
    });
}

pub(super) fn pause(stage: &mut MeshStage) {
    now_and_then(stage, 2_000, |world, node| {
        let us = world.random.below(5_000_000);
        world.pause(node, us);
    });
}

/// The founder's wall clock jumps a year back and forth between edits: versions must not care.
pub(super) fn clock_jump(stage: &mut MeshStage) {
    let mut version = 0;
    let first = stage.after(1_000);
    stage.world.add_chore(
        first,
        Box::new(move |world| {
            const YEAR_MS: u64 = 31_536_000_000;
            if world.engine.up(0) {
                version += 1;
                let body: Arc<[u8]> = world.random.bytes(1_000).into();
                world.protocol.authority.wall_ms = 2 * YEAR_MS + world.random.below(2 * YEAR_MS);
                world.edit(Edit { version, body });
            }
            later(world, 8_000)
        }),
    );
}
