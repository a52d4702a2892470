//! Networks that are cut, one way or another.

use muster_gossip::mesh::Reach;
use muster_gossip::record::RecordKey;

use super::crashes::UNREACHABLE_MS;
use super::stage::MeshStage;
use crate::sim::figures;

/// How long a cut lasts at least, ms.
const CUT_MS: u64 = 15_000;
/// Until each of two halves has given up the other, ms: those who watched are stepped over one
/// after the other.
const PART_MS: u64 = 10_000;
/// How often a link flickers.
const FLICKERS: usize = 60;
/// For so long each time, ms: enough for a doubt, and not for more.
const FLICKER_MS: u64 = 1_700;
/// Versions of its votes that a node may write meanwhile.
const FLICKER_VOTES: u64 = 80;
/// How often a link comes and goes before it is quiet.
const FLAPS: usize = 6;
/// Each time it is cut for so long, ms.
const FLAP_MS: u64 = 2_500;
/// For so long it is quiet then, ms: a flip a minute is forgiven.
const QUIET_MS: u64 = 240_000;
/// Bytes per node and second that a lasting cut may cost.
const CUT_BYTES_S: u64 = 20_000;

/// S3: halves that cannot hear each other, and meet again.
pub(super) fn halves(stage: &mut MeshStage) {
    let nodes = stage.nodes();
    let side = stage.world.random.sample(nodes, nodes / 2);
    for &node in &side {
        stage.world.engine.network.cuts.side(node, 2);
    }
    let within = |node: &usize| side.contains(node);
    stage.within(PART_MS, "each half giving up the other", |world| {
        let mut pairs = world
            .awake()
            .flat_map(|one| (0..nodes).map(move |other| (one, other)));
        pairs.all(|(one, other)| {
            let apart = within(&one) != within(&other);
            apart == (world.views.reach(one, other) == Reach::Unreachable)
        })
    });
    let long = CUT_MS + stage.world.random.below(10_000);
    stage.run(long);
    let bytes = stage.traffic(2_000);
    stage.expect(bytes <= CUT_BYTES_S, || {
        format!("{bytes} bytes/s while parted")
    });
    stage.world.engine.network.heal();
    let bound = figures::heal_bound_ms(nodes);
    stage.within(bound, "halves becoming one", |world| world.identical());
    stage.recover();
}

/// S6: a node that sends, but receives nothing.
pub(super) fn deaf(stage: &mut MeshStage) {
    let deaf = stage.any();
    stage.world.views.excuses[deaf] = true;
    stage.world.life.cut_off[deaf] = true;
    stage.world.engine.network.cuts.deafen(deaf);
    stage.all_think(UNREACHABLE_MS, deaf, Reach::Unreachable);
    stage.run(CUT_MS);
    let others: Vec<usize> = (0..stage.nodes()).filter(|&node| node != deaf).collect();
    for &other in &others {
        let world = &stage.world;
        let against = others
            .iter()
            .find(|&&node| world.views.reach(node, other) > Reach::Suspect);
        let against = against.copied();
        stage.expect(against.is_none(), || {
            format!("n{against:?} gave up n{other}")
        });
    }
    let bytes = stage.traffic(2_000);
    stage.expect(bytes <= CUT_BYTES_S, || {
        format!("{bytes} bytes/s with a deaf node")
    });
    stage.world.life.cut_off[deaf] = false;
    stage.recover();
}

/// S7: two sides, and one node that hears both.
pub(super) fn bridge(stage: &mut MeshStage) {
    let nodes = stage.nodes();
    let mut order = stage.world.random.sample(nodes, nodes);
    let bridge = order.pop().unwrap_or(0);
    for (at, &node) in order.iter().enumerate() {
        let side = if at < nodes / 2 { 2 } else { 4 };
        stage.world.engine.network.cuts.side(node, side);
    }
    stage.world.engine.network.cuts.side(bridge, 6);
    stage.world.views.excused = true;
    stage.run(CUT_MS);
    stage.none_unreachable([bridge]);
    let bytes = stage.traffic(5_000);
    stage.expect(bytes <= CUT_BYTES_S, || {
        format!("{bytes} bytes/s over a bridge")
    });
    stage.recover();
}

/// S8: a link that comes and goes.
pub(super) fn flapping(stage: &mut MeshStage) {
    let node = stage.any();
    let watched = stage.core(node).and_then(|core| core.watched().next());
    let other = watched.map(|member| member.index());
    let other = other.unwrap_or_else(|| (node + 1) % stage.nodes());
    let mut cut = false;
    let first = stage.after(0);
    stage.world.add_chore(
        first,
        Box::new(move |world| {
            cut = !cut;
            let cuts = &mut world.engine.network.cuts;
            for (from, to) in [(node, other), (other, node)] {
                if cut {
                    cuts.cut(from, to)
                } else {
                    cuts.mend(from, to)
                }
            }
            Some(world.now().plus_millis(400 + world.random.below(4_600)))
        }),
    );
    let before = stage.world.engine.bytes;
    let ms = 120_000;
    stage.run(ms);
    let bytes = (stage.world.engine.bytes - before) * 1_000 / ms / stage.nodes() as u64;
    stage.expect(bytes <= 2_500, || {
        format!("{bytes} bytes/s for a flapping link")
    });
    stage.nobody_wronged();
    stage.none_unreachable([node, other]);
    stage.recover();
}

/// A link fails again and again, each time just long enough for a doubt: the doubt stays longer each
/// time, so that not every failure is told to all.
pub(super) fn flickering(stage: &mut MeshStage) {
    let node = stage.any();
    let watched = stage.core(node).and_then(|core| core.watched().next());
    let other = watched.map_or(node, muster_gossip::MemberId::index);
    let before = votes_written(stage, node);
    for _ in 0..FLICKERS {
        fail_once(stage, node, other, FLICKER_MS);
        stage.run(1_000);
    }
    let said = votes_written(stage, node) - before;
    stage.expect(said <= FLICKER_VOTES, || {
        format!("{said} versions of votes for a flickering link, {FLICKER_VOTES} are the most")
    });
    stage.nobody_wronged();
    stage.recover();
}

/// How many versions of its votes a node has written.
fn votes_written(stage: &MeshStage, node: usize) -> u64 {
    let core = stage.core(node);
    let record = core.and_then(|core| core.record(RecordKey::Watch(MeshStage::id(node))));
    record.map_or(0, |record| record.version.number)
}

/// A link comes and goes, is quiet for minutes, and fails once more: the doubt is taken back as
/// fast as if it had never flapped.
pub(super) fn forgiven(stage: &mut MeshStage) {
    let node = stage.any();
    let watched = stage.core(node).and_then(|core| core.watched().next());
    let other = watched.map_or(node, muster_gossip::MemberId::index);
    for _ in 0..FLAPS {
        fail_once(stage, node, other, FLAP_MS);
        stage.run(1_000);
    }
    stage.world.run_for(QUIET_MS);
    fail_once(stage, node, other, FLAP_MS);
    stage.all_think(2_500, other, Reach::Alive);
    stage.nobody_wronged();
    stage.recover();
}

fn fail_once(stage: &mut MeshStage, one: usize, other: usize, ms: u64) {
    let ways = [(one, other), (other, one)];
    let cuts = &mut stage.world.engine.network.cuts;
    ways.iter().for_each(|&(from, to)| cuts.cut(from, to));
    stage.run(ms);
    let cuts = &mut stage.world.engine.network.cuts;
    ways.iter().for_each(|&(from, to)| cuts.mend(from, to));
}

/// Half of its watchers, or of five two, do not hear a node: it is doubted, not given up.
pub(super) fn half(stage: &mut MeshStage) {
    let node = stage.any();
    let watchers = stage
        .core(node)
        .map(|core| core.watchers(MeshStage::id(node)));
    let watchers = watchers.unwrap_or_default();
    let cut: Vec<usize> = watchers
        .iter()
        .take(watchers.len() / 2)
        .map(|by| by.index())
        .collect();
    for &watcher in &cut {
        stage.world.engine.network.cuts.cut(node, watcher);
        stage.world.engine.network.cuts.cut(watcher, node);
    }
    for &watcher in &cut {
        stage.within(UNREACHABLE_MS, "a watcher giving up", |world| {
            world.protocol.holds_gone(watcher)
        });
    }
    stage.run(5_000);
    let others: Vec<usize> = (0..stage.nodes())
        .filter(|other| !cut.contains(other))
        .collect();
    stage.none_unreachable(others);
    stage.nobody_wronged();
    stage.recover();
}
