//! What must hold once all is well again: who watches whom, what is sent, and that every link
//! alone brings what is new. Five of them hide the faults of one.

use std::collections::BTreeMap;

use muster_gossip::MemberId;
use muster_gossip::record::RecordKey;
use muster_gossip::roster::RINGS;

use super::stage::MeshStage;
use crate::sim::mesh::SimAuthority;

/// Links that are tried alone.
const LINKS_TRIED: usize = 3;
/// A record that one link alone has to bring is there within this, ms: all five tries.
const LINK_MS: u64 = 500;
/// With more loss than this all tries of a link can fail, percent.
const LINK_LOSS: f64 = 10.0;
/// With so many racks nearly every watcher can be in one of its own.
const RACKS_MANY: usize = 10;

/// Frames sent so far, and their bytes, by kind.
pub(super) type Kinds = BTreeMap<&'static str, (u64, u64)>;

impl MeshStage {
    /// Whoever is a member is watched by those that everybody finds in the rings, and by nobody
    /// else.
    pub(super) fn check_watchers(&mut self) {
        let running = self.running();
        let mut by: BTreeMap<MemberId, Vec<MemberId>> = BTreeMap::new();
        for &node in &running {
            let watched = self.core(node).into_iter().flat_map(|core| core.watched());
            watched.for_each(|subject| by.entry(subject).or_default().push(Self::id(node)));
        }
        let Some(&first) = running.first() else {
            return;
        };
        let mut near = 0;
        for &node in &running {
            let subject = Self::id(node);
            let mut expected = self
                .core(first)
                .map_or_else(Vec::new, |core| core.watchers(subject));
            expected.sort_unstable();
            let found = by.remove(&subject).unwrap_or_default();
            let enough = expected.len() == RINGS.min(running.len() - 1);
            self.expect(enough && found == expected, || {
                format!("n{node} is watched by {found:?}, and should be by {expected:?}")
            });
            near += usize::from(shares_rack(self.nodes(), node, &expected));
        }
        let racks = SimAuthority::rack(self.nodes() - 1, self.nodes()) + 1;
        self.expect(racks < RACKS_MANY || near * 10 <= running.len(), || {
            format!("{near} members do not have each watcher in another rack")
        });
    }

    /// What was sent over `ms` in which nothing happened; `loss` in percent.
    pub(super) fn check_frames(&mut self, before: &Kinds, ms: u64, loss: f64) {
        let nodes = self.running().len() as f64;
        let asked = nodes * RINGS as f64 * ms as f64 / 1_000.0;
        let arrives = (1.0 - loss / 100.0).powi(2);
        let missed_twice = asked * (1.0 - arrives).powi(2);
        let bounds = [
            // Each watcher asks in its turn, and again at once what was not answered.
            ("probe", asked / arrives * 1.5),
            // Two misses in a row are told to the other watchers.
            ("alert", 40.0 + 3.0 * missed_twice * (RINGS - 1) as f64),
            ("digest", nodes),
            ("push", nodes),
        ];
        for (kind, bound) in bounds {
            let count = |kinds: &Kinds| kinds.get(kind).map_or(0, |(count, _)| *count);
            let sent = count(&self.world.protocol.wire.kinds) - count(before);
            self.expect(sent as f64 <= bound, || {
                format!(
                    "{sent} frames of kind {kind} while nothing happens, {bound:.0} are the most"
                )
            });
        }
    }

    /// What is new goes along every link, whether or not another one would bring it too.
    pub(super) fn check_links(&mut self, loss: f64) {
        let running = self.running();
        if loss > LINK_LOSS || running.len() < 2 {
            return;
        }
        for _ in 0..LINKS_TRIED {
            let from = running[self.world.random.index(running.len())];
            let watched: Vec<_> = self
                .core(from)
                .into_iter()
                .flat_map(|core| core.watched())
                .collect();
            if !watched.is_empty() {
                let to = watched[self.world.random.index(watched.len())].index();
                self.check_link(from, to);
            }
        }
        self.within(1_000, "equal views after single links", |world| {
            world.identical()
        });
    }

    fn check_link(&mut self, from: usize, to: usize) {
        for other in (0..self.nodes()).filter(|other| *other != from) {
            self.world.engine.network.cuts.cut(other, to);
        }
        self.world.change(from);
        let key = RecordKey::Node(Self::id(from));
        let what = format!("what is new of n{from} at n{to}, by their link alone,");
        self.within(LINK_MS, &what, |world| {
            let hash = |node| {
                let core = world.protocol.core(node);
                core.and_then(|core| core.record(key))
                    .map(|record| record.hash)
            };
            hash(from) == hash(to)
        });
        self.world.engine.network.cuts.mend_all();
    }
}

/// Whether one of these is in the rack of `node`, or in that of another of these.
fn shares_rack(nodes: usize, node: usize, watchers: &[MemberId]) -> bool {
    let mut racks: Vec<usize> = watchers
        .iter()
        .map(|member| SimAuthority::rack(member.index(), nodes))
        .collect();
    racks.push(SimAuthority::rack(node, nodes));
    let all = racks.len();
    racks.sort_unstable();
    racks.dedup();
    racks.len() < all
}
