//! The load of the table: pauses throughout; crashes one by one; changes and documents while some
//! are dead; halves that part and meet again.

use std::sync::Arc;

use muster_model::time::Time;

use super::figures::Figures;
use super::marks::{News, p99_ms};
use super::protocol::{Edit, Protocol};
use super::world::World;

const WARM_UP_MS: u64 = 10_000;
const IDLE_MS: u64 = 35_000;
const CRASHES: usize = 20;
/// How long one crash is waited for at most: a SWIM takes its time.
const CRASH_WAIT_MS: u64 = 30_000;
const CHANGES: usize = 50;
/// Between two changes of one node, ms.
const REST_MS: u64 = 2_000;
const DOCUMENTS: u64 = 5;
const DOCUMENT_BYTES: usize = 1 << 20;
const PARTED_MS: u64 = 20_000;
const HEAL_WAIT_MS: u64 = 200_000;
/// A run lasts at least this long.
const WHOLE_MS: u64 = 300_000;

/// Pauses in a minute, of each node.
const PAUSES_A_MINUTE: f64 = 0.01;
/// How long one is at most, µs.
const PAUSE_US: u64 = 1_000_000;

/// Runs the load on a cluster whose nodes are all down.
pub(crate) fn run<P: Protocol + 'static>(world: &mut World<P>) -> Figures {
    let mut figures = Figures::default();
    world.start_all();
    pauses(world);
    world.run_until(Time::from_millis(WARM_UP_MS));
    figures.idle_bytes_s = Some(idle(world));
    crashes(world, &mut figures);
    let dead = kill_some(world);
    figures.record_p99_ms = changes(world);
    figures.document_p99_ms = documents(world);
    dead.into_iter().for_each(|node| world.start(node));
    world.run_for(10_000);
    figures.heal_ms = Some(halves(world));
    world.run_until(world.now().max(Time::from_millis(WHOLE_MS)));
    wrongs(world, &mut figures);
    figures
}

/// Nodes stand still now and then, from now on.
pub(crate) fn pauses<P: Protocol>(world: &mut World<P>) {
    let per_second = world.nodes() as f64 * PAUSES_A_MINUTE / 60.0;
    let first = Time(world.now().0 + world.random.gap(per_second));
    world.add_chore(
        first,
        Box::new(move |world| {
            let node = world.random.index(world.nodes());
            let us = world.random.below(PAUSE_US);
            world.pause(node, us);
            Some(Time(world.now().0 + world.random.gap(per_second)))
        }),
    );
}

/// Bytes per node and second while nothing happens.
pub(crate) fn idle<P: Protocol>(world: &mut World<P>) -> f64 {
    let (before, up) = (world.engine.bytes, world.awake().count().max(1));
    world.run_for(IDLE_MS);
    let bytes = (world.engine.bytes - before) as f64;
    (bytes / up as f64 / (IDLE_MS as f64 / 1_000.0) * 10.0).round() / 10.0
}

fn crashes<P: Protocol>(world: &mut World<P>, figures: &mut Figures) {
    let (mut suspect, mut unreachable) = (Vec::new(), Vec::new());
    let count = CRASHES.min(world.nodes() - 1);
    for node in world.random.sample(world.nodes(), count) {
        let (first, second) = crash(world, node);
        suspect.extend(first);
        unreachable.extend(second);
        world.start(node);
        let gap = 1_500 + world.random.below(1_000);
        world.run_for(gap);
    }
    figures.suspect_p99_ms = p99_ms(suspect);
    figures.unreachable_p99_ms = p99_ms(unreachable);
}

/// One crash: the delays until Suspect, and until Unreachable, on every other node, µs.
fn crash<P: Protocol>(world: &mut World<P>, node: usize) -> (Vec<u64>, Vec<u64>) {
    let (suspect, unreachable) = (News::Suspect(node), News::Unreachable(node));
    world.crash(node);
    world.marks.set(world.now(), suspect);
    world.marks.set(world.now(), unreachable);
    world.run_while(CRASH_WAIT_MS, 100, |world| {
        world.marks.complete(world.now(), unreachable, &world.life)
    });
    let now = world.now();
    let first = world.marks.close(now, suspect, &world.life);
    (first, world.marks.close(now, unreachable, &world.life))
}

/// Kills 5 % of the nodes, but not the first, where documents are edited.
fn kill_some<P: Protocol>(world: &mut World<P>) -> Vec<usize> {
    let others = world.nodes() - 1;
    let count = world.nodes().div_ceil(20).min(others);
    let dead = world.random.sample(others, count);
    let dead: Vec<usize> = dead.into_iter().map(|node| node + 1).collect();
    dead.iter().for_each(|&node| world.crash(node));
    world.run_for(6_000);
    dead
}

/// Changes at random nodes; each rests for over a second between two of its own.
fn changes<P: Protocol>(world: &mut World<P>) -> Option<f64> {
    let (mut delays, mut turn) = (Vec::new(), Vec::new());
    for _ in 0..CHANGES {
        if turn.is_empty() {
            let awake: Vec<usize> = world.awake().collect();
            let order = world.random.sample(awake.len(), awake.len());
            turn = order.into_iter().map(|at| awake[at]).collect();
        }
        let node = turn.pop().unwrap_or(0);
        if world.engine.up(node) && !world.engine.paused(node) {
            delays.extend(change(world, node));
        }
        world.run_for(REST_MS / world.nodes() as u64);
    }
    p99_ms(delays)
}

/// One change: the delays until it is known on every other node, µs.
pub(crate) fn change<P: Protocol>(world: &mut World<P>, node: usize) -> Vec<u64> {
    let news = News::Change(node, world.next_change());
    world.marks.set(world.now(), news);
    world.change(node);
    world.marks.note(world.now(), node, news);
    let gap = world.random.below(100);
    world.run_for(200 + gap);
    world.run_while(10_000, 50, |world| {
        world.marks.complete(world.now(), news, &world.life)
    });
    world.marks.close(world.now(), news, &world.life)
}

fn documents<P: Protocol>(world: &mut World<P>) -> Option<f64> {
    let mut delays = Vec::new();
    for version in 1..=DOCUMENTS {
        let body: Arc<[u8]> = world.random.bytes(DOCUMENT_BYTES).into();
        delays.extend(document(world, Edit { version, body })?);
        world.run_for(1_000);
    }
    p99_ms(delays)
}

/// One edit: the delays until its body is on every node, µs; `None` without documents.
pub(crate) fn document<P: Protocol>(world: &mut World<P>, edit: Edit) -> Option<Vec<u64>> {
    let news = News::Document(edit.version);
    world.marks.set(world.now(), news);
    if !world.edit(edit) {
        return None;
    }
    world.run_while(20_000, 50, |world| {
        world.marks.complete(world.now(), news, &world.life)
    });
    Some(world.marks.close(world.now(), news, &world.life))
}

/// Halves part for a while; how long after they meet until all views are identical, ms.
fn halves<P: Protocol>(world: &mut World<P>) -> f64 {
    world.views.excused = true;
    let nodes = world.nodes();
    for node in world.random.sample(nodes, nodes / 2) {
        world.engine.network.cuts.side(node, 2);
    }
    world.run_for(PARTED_MS);
    world.engine.network.heal();
    let healed = world.run_while(HEAL_WAIT_MS, 10, World::identical);
    world.run_for(2_000);
    world.views.excused = false;
    healed.unwrap_or(HEAL_WAIT_MS) as f64
}

/// How often somebody was held for unreachable and was not.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn wrongs<P: Protocol>(world: &World<P>, figures: &mut Figures) {
    let seconds = world.now().as_millis() as f64 / 1_000.0 - PARTED_MS as f64 / 1_000.0;
    let hours = world.nodes() as f64 * seconds / 3_600.0;
    let scaled = world.views.wrongs.len() as f64 * 10_000.0 / hours;
    figures.node_hours = (hours * 100.0).round() / 100.0;
    figures.false_unreachable = Some(scaled.ceil() as u64);
}
