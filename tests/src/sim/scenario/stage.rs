//! Where scenarios play: a cluster of our mesh, and what was found wrong with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_gossip::Mesh;
use muster_gossip::frame::{Carrier, MeshFrame};
use muster_gossip::mesh::{MeshInput, Reach};
use muster_gossip::record::{Record, SuspicionLevel, Vote};
use muster_model::time::Time;

use crate::sim::engine::Sending;
use crate::sim::mesh::{MeshNodes, member};
use crate::sim::network::Weather;
use crate::sim::world::World;

/// Once faults stop, all views must be the same within this, ms.
const SAME_MS: u64 = 2_000;
/// And traffic as low as ever within this, ms.
const CALM_MS: u64 = 30_000;
/// Bytes per node and second that count as idle.
const IDLE_BYTES_S: u64 = 2_000;
/// Over so long that is measured, ms.
const IDLE_WINDOW_MS: u64 = 5_000;
/// Between two looks at all views, ms; also how long equal knowledge may take to be thought over.
const LOOK_MS: u64 = 250;
/// Of larger clusters, views are looked at less often.
const LOOK_NODES: usize = 100;

/// Where a scenario plays.
pub(crate) struct MeshStage {
    pub(crate) world: World<MeshNodes>,
    /// Loss when nothing else is wrong, percent.
    loss: f64,
    wrong: Vec<String>,
}

impl MeshStage {
    /// `nodes` machines, the first `members` of which are members.
    pub(crate) fn new(nodes: usize, members: usize, seed: u64, loss: f64) -> Self {
        let protocol = MeshNodes::new(nodes, members, seed);
        let world = World::new(protocol, nodes, seed, Weather::lossy(loss));
        Self {
            world,
            loss,
            wrong: Vec::new(),
        }
    }

    /// A cluster of members that have run for a while.
    pub(crate) fn warm(nodes: usize, seed: u64, loss: f64) -> Self {
        let mut stage = Self::new(nodes, nodes, seed, loss);
        stage.world.start_all();
        stage
            .world
            .run_for(4_000 + stage.world.random.clone().below(1_000));
        stage
    }

    pub(crate) fn nodes(&self) -> usize {
        self.world.nodes()
    }

    /// A random node.
    pub(crate) fn any(&mut self) -> usize {
        let nodes = self.nodes();
        self.world.random.index(nodes)
    }

    /// Something must hold.
    pub(crate) fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            let at = self.world.now().as_millis();
            self.wrong.push(format!("at {at} ms: {}", what()));
        }
    }

    /// Lets time pass while faults go on, and looks at all views now and then.
    pub(crate) fn run(&mut self, ms: u64) {
        let until = self.world.now().plus_millis(ms);
        let gap = if self.nodes() > LOOK_NODES {
            20 * LOOK_MS
        } else {
            4 * LOOK_MS
        };
        while self.world.now() < until {
            let roots = self.roots();
            self.world.run_for(LOOK_MS.min(ms));
            self.check_views(&roots);
            let left = until.micros_since(self.world.now()) / 1_000;
            self.world.run_for(left.min(gap));
        }
    }

    fn roots(&self) -> Vec<Option<u64>> {
        let root = |node| self.core(node).map(Mesh::root);
        (0..self.nodes()).map(root).collect()
    }

    /// Nodes that have known the same for a while, and can hear the same, think the same; but
    /// whoever holds somebody for gone goes by that, even if nobody else does, and whoever is held
    /// for gone counts its own votes, which others do not.
    fn check_views(&mut self, before: &[Option<u64>]) {
        let mut first = BTreeMap::new();
        let mut differ = None;
        for node in self.world.awake() {
            let root = self.core(node).map(Mesh::root);
            let own_word = self.world.protocol.holds_gone(node) || self.is_accused(node);
            if before[node] != root || own_word {
                continue;
            }
            let sides = self.world.engine.network.cuts.sides(node);
            let other = *first.entry((root, sides)).or_insert(node);
            differ = differ.or_else(|| self.difference(other, node));
        }
        if let Some(what) = differ {
            self.expect(false, || what);
        }
    }

    /// Whether two say of a node that it is gone.
    fn is_accused(&self, node: usize) -> bool {
        let view = self.core(node).and_then(|core| core.member(Self::id(node)));
        let gone = |(_, vote): &&(_, Vote)| vote.level == SuspicionLevel::Gone;
        view.is_some_and(|view| view.votes.iter().filter(gone).count() >= 2)
    }

    /// What two nodes think differently, but for what each thinks of itself.
    fn difference(&self, one: usize, other: usize) -> Option<String> {
        let views = &self.world.views;
        if views.digest(one) == views.digest(other) {
            return None;
        }
        let others = (0..self.nodes()).filter(|subject| *subject != one && *subject != other);
        let thoughts = others.map(|of| (of, views.reach(one, of), views.reach(other, of)));
        let (subject, this, that) = thoughts.into_iter().find(|(_, this, that)| this != that)?;
        Some(format!(
            "n{one} and n{other} know the same and think {this:?} and {that:?} of n{subject}"
        ))
    }

    /// The core that runs on a node.
    pub(crate) fn core(&self, node: usize) -> Option<&Mesh> {
        self.world.protocol.core(node)
    }

    /// Waits until something holds; says so if it does not within `limit_ms`.
    pub(crate) fn within(
        &mut self,
        limit_ms: u64,
        what: &str,
        holds: impl FnMut(&World<MeshNodes>) -> bool,
    ) {
        let step = if self.nodes() > LOOK_NODES { 50 } else { 10 };
        let done = self.world.run_while(limit_ms, step, holds);
        self.expect(done.is_some(), || format!("{what} took over {limit_ms} ms"));
    }

    /// All who are awake think this of `subject` within a time.
    pub(crate) fn all_think(&mut self, limit_ms: u64, subject: usize, reach: Reach) {
        let what = format!("{reach:?} of n{subject} on every node");
        self.within(limit_ms, &what, |world| world.all_think(subject, reach));
    }

    /// Nobody thinks that any of `subjects` is unreachable.
    pub(crate) fn none_unreachable(&mut self, subjects: impl IntoIterator<Item = usize>) {
        for subject in subjects {
            let world = &self.world;
            let against = world
                .awake()
                .find(|&node| world.views.reach(node, subject) == Reach::Unreachable);
            self.expect(against.is_none(), || {
                format!("n{against:?} holds n{subject} for unreachable")
            });
        }
    }

    /// Nobody was ever wrongly held for unreachable.
    pub(crate) fn nobody_wronged(&mut self) {
        let wrongs = std::mem::take(&mut self.world.views.wrongs);
        self.expect(wrongs.is_empty(), || {
            let first: Vec<_> = wrongs.iter().take(5).collect();
            format!("{} wrongly unreachable: {first:?}", wrongs.len())
        });
    }

    /// Gives a node's core an input.
    pub(crate) fn input(&mut self, node: usize, input: MeshInput) {
        self.world
            .act(node, |nodes, now, out| nodes.input(now, node, input, out));
    }

    /// A record comes up at a node.
    pub(crate) fn record(&mut self, node: usize, record: Arc<Record>) {
        self.input(node, MeshInput::Record(record));
    }

    /// A node sends a frame that its core did not ask for.
    pub(crate) fn send(&mut self, from: usize, to: usize, frame: MeshFrame) {
        let carrier = Carrier::Datagram;
        let bytes = self.world.protocol.wire.length(carrier, &frame);
        self.world.engine.send(
            from,
            Sending {
                to,
                carrier,
                frame,
                bytes,
            },
        );
    }

    /// UDP bytes per node and second over some time.
    pub(crate) fn traffic(&mut self, ms: u64) -> u64 {
        let before = self.world.engine.bytes;
        self.world.run_for(ms);
        let up = self.world.awake().count().max(1) as u64;
        (self.world.engine.bytes - before) * 1_000 / ms / up
    }

    /// The faults stop, all that are down start: the cluster must be as well as ever.
    pub(crate) fn recover(&mut self) {
        self.world.end_chores();
        self.world.engine.network.heal();
        self.world.engine.network.weather = Weather::lossy(self.loss);
        self.world.wake_all();
        self.world.start_all();
        self.settle();
    }

    /// All must think the same, and well of everybody who runs; then it must be quiet.
    pub(crate) fn settle(&mut self) {
        let start = self.world.now();
        self.within(SAME_MS, "views of all being the same", World::identical);
        let reachable: Vec<usize> = self.running();
        let left = SAME_MS.saturating_sub(self.world.now().micros_since(start) / 1_000);
        self.within(left, "everybody being reachable", |world| {
            reachable.iter().all(|&node| none_against(world, node))
        });
        let past = self.world.now().micros_since(start) / 1_000;
        self.world
            .run_for(CALM_MS.saturating_sub(past + IDLE_WINDOW_MS));
        let before = self.world.protocol.wire.kinds.clone();
        let bytes = self.traffic(IDLE_WINDOW_MS);
        self.expect(bytes <= IDLE_BYTES_S, || {
            format!("{bytes} bytes/s long after the faults")
        });
        self.check_frames(&before, IDLE_WINDOW_MS, self.loss);
        self.expect(self.world.identical(), || {
            "views differ long after the faults".into()
        });
        for node in reachable {
            let alive = self.world.all_think(node, Reach::Alive);
            self.expect(alive, || {
                format!("n{node} is doubted long after the faults")
            });
        }
        self.check_watchers();
        self.check_links(self.loss);
    }

    /// The members that run.
    pub(crate) fn running(&self) -> Vec<usize> {
        let founder = self.world.awake().find_map(|node| self.core(node));
        let Some(core) = founder else {
            return Vec::new();
        };
        let members = core.members().map(muster_gossip::MemberId::index);
        members.filter(|&node| self.world.engine.up(node)).collect()
    }

    /// Ends the play: everything that was wrong.
    pub(crate) fn finish(mut self) -> ScenarioResult {
        use crate::sim::protocol::Protocol as _;
        self.wrong.extend(self.world.protocol.violations());
        ScenarioResult {
            wrong: self.wrong,
            virtual_ms: self.world.now().as_millis(),
            packets: self.world.engine.packets,
            steps: self.world.steps,
        }
    }

    /// The member number of a node, to be written into records.
    pub(crate) fn id(node: usize) -> muster_gossip::MemberId {
        member(node)
    }

    /// A time from now.
    pub(crate) fn after(&self, ms: u64) -> Time {
        self.world.now().plus_millis(ms)
    }
}

fn none_against(world: &World<MeshNodes>, subject: usize) -> bool {
    let mut awake = world.awake().filter(|&node| node != subject);
    awake.all(|node| world.views.reach(node, subject) != Reach::Unreachable)
}

/// What came of a scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScenarioResult {
    pub(crate) wrong: Vec<String>,
    pub(crate) virtual_ms: u64,
    pub(crate) packets: u64,
    pub(crate) steps: u64,
}

impl ScenarioResult {
    /// Whether there was anything.
    pub(crate) const fn was_played(&self) -> bool {
        self.virtual_ms > 0 || !self.wrong.is_empty()
    }
}
