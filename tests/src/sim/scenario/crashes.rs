//! Processes that end, restart and starve.

use muster_gossip::mesh::Reach;

use super::stage::MeshStage;
use crate::sim::load;
use crate::sim::mesh::SimAuthority;

/// A crash must be Suspect on every node within this, ms: the table's p99, and some for the
/// slowest of all.
pub(super) const SUSPECT_MS: u64 = 2_500;
/// What a watcher held against others is void so soon after its restart, ms.
const RESTARTED_MS: u64 = 200;
/// A crash must be Unreachable on every node within this, ms.
pub(super) const UNREACHABLE_MS: u64 = 3_500;

/// S1: one node crashes, and comes back.
pub(super) fn single(stage: &mut MeshStage) {
    load::pauses(&mut stage.world);
    for _ in 0..3 {
        let node = stage.any();
        stage.world.crash(node);
        stage.within(SUSPECT_MS, "suspecting a crashed node", |world| {
            let mut awake = world.awake();
            awake.all(|other| world.views.reach(other, node) >= Reach::Suspect)
        });
        stage.all_think(UNREACHABLE_MS - SUSPECT_MS, node, Reach::Unreachable);
        let down = stage.world.random.below(5_000);
        stage.run(down);
        stage.world.start(node);
        stage.within(2_000, "seeing it back", |world| {
            let mut awake = world.awake();
            awake.all(|other| world.views.reach(other, node) != Reach::Unreachable)
        });
        stage.run(2_000);
    }
    stage.nobody_wronged();
    stage.recover();
}

/// S2: a rack loses power.
pub(super) fn rack(stage: &mut MeshStage) {
    let rack = SimAuthority::rack(stage.any(), stage.nodes());
    let inside: Vec<usize> = (0..stage.nodes())
        .filter(|&node| SimAuthority::rack(node, stage.nodes()) == rack)
        .collect();
    inside.iter().for_each(|&node| stage.world.crash(node));
    let start = stage.world.now();
    for &node in &inside {
        let past = stage.world.now().micros_since(start) / 1_000;
        stage.all_think(
            UNREACHABLE_MS.saturating_sub(past),
            node,
            Reach::Unreachable,
        );
    }
    stage.run(5_000);
    stage.nobody_wronged();
    stage.recover();
}

/// S9: a hundredth of the nodes, and one at least, get hardly any time to run.
pub(super) fn starved(stage: &mut MeshStage) {
    let (nodes, count) = (stage.nodes(), stage.nodes().div_ceil(100));
    let starved = stage.world.random.sample(nodes, count);
    for &node in &starved {
        stage.world.views.excuses[node] = true;
        stage.world.starve(node);
    }
    stage.run(60_000);
    stage.nobody_wronged();
    let others = (0..nodes).filter(|node| !starved.contains(node));
    stage.none_unreachable(others);
    stage.recover();
}

/// S11: all nodes are restarted within a minute, each for itself.
pub(super) fn restarts(stage: &mut MeshStage) {
    for node in 0..stage.nodes() {
        let at = stage.world.random.below(60_000);
        let first = stage.after(at);
        let mut down = false;
        stage.world.add_chore(
            first,
            Box::new(move |world| {
                if down {
                    world.start(node);
                    return None;
                }
                down = true;
                world.crash(node);
                Some(world.now().plus_millis(500 + world.random.below(3_000)))
            }),
        );
    }
    stage.run(65_000);
    for node in 0..stage.nodes() {
        let starts = stage.world.protocol.hosts[node].disk.incarnation;
        stage.expect(starts == 2, || format!("n{node} has incarnation {starts}"));
    }
    stage.recover();
}

/// Who doubted another dies: what it said last must not stand for ever.
pub(super) fn last_word(stage: &mut MeshStage) {
    let node = stage.any();
    let watchers = stage
        .core(node)
        .map(|core| core.watchers(MeshStage::id(node)));
    let watcher = watchers.and_then(|all| all.first().copied());
    let Some(watcher) = watcher.map(muster_gossip::MemberId::index) else {
        return;
    };
    let ways = [(node, watcher), (watcher, node)];
    let cuts = &mut stage.world.engine.network.cuts;
    ways.iter().for_each(|&(from, to)| cuts.cut(from, to));
    stage.within(UNREACHABLE_MS, "a watcher giving up", |world| {
        world.protocol.holds_gone(watcher)
    });
    stage.run(1_000);
    stage.world.crash(watcher);
    stage.world.engine.network.heal();
    stage.all_think(UNREACHABLE_MS, watcher, Reach::Unreachable);
    stage.all_think(2_000, node, Reach::Alive);
    stage.world.start(watcher);
    stage.run(5_000);
    restarted(stage, node, watcher);
    stage.recover();
}

/// A watcher that gave up on `node` restarts when it could hear it again: it remembers nothing,
/// and says so at once.
fn restarted(stage: &mut MeshStage, node: usize, watcher: usize) {
    stage.world.engine.network.cuts.cut(node, watcher);
    stage.world.engine.network.cuts.cut(watcher, node);
    stage.within(UNREACHABLE_MS, "a watcher giving up again", |world| {
        world.protocol.holds_gone(watcher)
    });
    stage.run(1_000);
    stage.world.crash(watcher);
    stage.world.engine.network.heal();
    stage.world.start(watcher);
    stage.all_think(RESTARTED_MS, node, Reach::Alive);
}
