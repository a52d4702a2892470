//! The network between the nodes: which packets arrive, when, and how often.

use std::collections::{BTreeMap, BTreeSet};

use super::random::{Chance, Delays, Random};

/// Median of the one-way delay, µs.
const DELAY_US: f64 = 150.0;
/// Sigma of its logarithm.
const DELAY_SIGMA: f64 = 0.6;

/// What the network does to packets. All of it can be changed at any time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Weather {
    /// A packet is lost.
    pub(crate) loss: Chance,
    /// A packet arrives twice.
    pub(crate) duplicate: Chance,
    /// A packet is held back for up to `spike_us`, so that later ones overtake it.
    pub(crate) reorder: Chance,
    /// How long at most, µs.
    pub(crate) spike_us: u64,
    /// Added to every delay, µs.
    pub(crate) extra_us: u64,
    /// Bits of a frame are flipped.
    pub(crate) corrupt: Chance,
    /// A frame recorded earlier is delivered again beside this one.
    pub(crate) replay: Chance,
}

impl Weather {
    /// Nothing but loss, of so many percent.
    pub(crate) fn lossy(percent: f64) -> Self {
        Self {
            loss: Chance::percent(percent),
            duplicate: Chance::NEVER,
            reorder: Chance::NEVER,
            spike_us: 0,
            extra_us: 0,
            corrupt: Chance::NEVER,
            replay: Chance::NEVER,
        }
    }
}

/// Who cannot hear whom.
#[derive(Clone, Debug)]
pub(crate) struct Cuts {
    any: bool,
    /// Two nodes hear each other when their sets of sides meet; a bridge is on several sides.
    sides: Vec<u8>,
    /// Those who receive nothing, though they send.
    deaf: BTreeSet<usize>,
    /// Those who send nothing, though they receive.
    mute: BTreeSet<usize>,
    /// Single ways, from and to.
    ways: BTreeSet<(usize, usize)>,
    /// Loss on single ways, beside the weather's.
    lossy: BTreeMap<(usize, usize), Chance>,
}

impl Cuts {
    fn new(nodes: usize) -> Self {
        Self {
            any: false,
            sides: vec![1; nodes],
            deaf: BTreeSet::new(),
            mute: BTreeSet::new(),
            ways: BTreeSet::new(),
            lossy: BTreeMap::new(),
        }
    }

    /// The sides a node is on (a bit each).
    pub(crate) fn sides(&self, node: usize) -> u8 {
        self.sides[node]
    }

    /// Puts a node onto these sides (a bit each).
    pub(crate) fn side(&mut self, node: usize, sides: u8) {
        self.any = true;
        self.sides[node] = sides;
    }

    /// A node receives nothing any more.
    pub(crate) fn deafen(&mut self, node: usize) {
        self.any = true;
        self.deaf.insert(node);
    }

    /// Nothing that a node sends arrives.
    pub(crate) fn silence(&mut self, node: usize) {
        self.any = true;
        self.mute.insert(node);
    }

    /// Nothing arrives on this way.
    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.any = true;
        self.ways.insert((from, to));
    }

    /// A way that was cut works again.
    pub(crate) fn mend(&mut self, from: usize, to: usize) {
        self.ways.remove(&(from, to));
    }

    /// All single ways work again.
    pub(crate) fn mend_all(&mut self) {
        self.ways.clear();
    }

    /// This way loses so much more.
    pub(crate) fn spoil(&mut self, from: usize, to: usize, loss: Chance) {
        self.any = true;
        self.lossy.insert((from, to), loss);
    }

    /// Whether packets pass at all.
    pub(crate) fn open(&self, from: usize, to: usize) -> bool {
        !self.any
            || (self.sides[from] & self.sides[to] != 0
                && !self.deaf.contains(&to)
                && !self.mute.contains(&from)
                && !self.ways.contains(&(from, to)))
    }

    /// Whether they pass there and back.
    pub(crate) fn both(&self, one: usize, other: usize) -> bool {
        self.open(one, other) && self.open(other, one)
    }
}

/// What becomes of a packet: its delay in µs, of each copy that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    /// The packet's delay; `None` if it is lost.
    pub(crate) first: Option<u64>,
    /// The delay of a second copy.
    pub(crate) second: Option<u64>,
}

/// The network.
#[derive(Debug)]
pub(crate) struct SimNetwork {
    /// What it does to all packets.
    pub(crate) weather: Weather,
    /// Who cannot hear whom.
    pub(crate) cuts: Cuts,
    delays: Delays,
    random: Random,
}

impl SimNetwork {
    pub(crate) fn new(nodes: usize, seed: u64, weather: Weather) -> Self {
        Self {
            weather,
            cuts: Cuts::new(nodes),
            delays: Delays::lognormal(DELAY_US, DELAY_SIGMA),
            random: Random::new(seed, 1),
        }
    }

    /// Everybody hears everybody again.
    pub(crate) fn heal(&mut self) {
        self.cuts = Cuts::new(self.cuts.sides.len());
    }

    /// What becomes of a packet.
    pub(crate) fn packet(&mut self, from: usize, to: usize) -> Fate {
        if !self.cuts.open(from, to) || self.loses(from, to) {
            return Fate {
                first: None,
                second: None,
            };
        }
        let first = Some(self.delay());
        let twice = self.random.happens(self.weather.duplicate);
        let second = twice.then(|| self.delay());
        Fate { first, second }
    }

    /// Whether a packet on an open way is lost.
    pub(crate) fn loses(&mut self, from: usize, to: usize) -> bool {
        self.random.happens(self.weather.loss)
            || (!self.cuts.lossy.is_empty() && self.loses_here(from, to))
    }

    fn loses_here(&mut self, from: usize, to: usize) -> bool {
        let chance = self.cuts.lossy.get(&(from, to)).copied();
        self.random.happens(chance.unwrap_or_default())
    }

    /// How long a packet takes, µs.
    pub(crate) fn delay(&mut self) -> u64 {
        let mut delay = self.delays.draw(&mut self.random) + self.weather.extra_us;
        if self.random.happens(self.weather.reorder) {
            delay += self.random.below(self.weather.spike_us);
        }
        delay
    }

    /// Whether this frame's bits are flipped on its way.
    pub(crate) fn corrupts(&mut self) -> bool {
        self.random.happens(self.weather.corrupt)
    }

    /// Whether an old frame is delivered again.
    pub(crate) fn replays(&mut self) -> bool {
        self.random.happens(self.weather.replay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_stop_what_they_name_and_nothing_else() {
        let mut cuts = Cuts::new(4);
        cuts.side(0, 1);
        cuts.side(1, 3);
        cuts.side(2, 2);
        assert!(cuts.both(0, 1) && cuts.both(1, 2) && !cuts.open(0, 2));
        cuts.deafen(1);
        assert!(cuts.open(1, 0) && !cuts.open(0, 1) && !cuts.both(0, 1));
        let mut cuts = Cuts::new(4);
        cuts.cut(2, 3);
        cuts.silence(0);
        assert!(!cuts.open(2, 3) && cuts.open(3, 2) && !cuts.open(0, 1) && cuts.open(1, 0));
        cuts.mend(2, 3);
        assert!(cuts.both(2, 3));
    }

    #[test]
    fn packets_are_lost_and_doubled_as_often_as_asked() {
        let mut weather = Weather::lossy(10.0);
        weather.duplicate = Chance::percent(50.0);
        let mut network = SimNetwork::new(2, 7, weather);
        let fates: Vec<_> = (0..10_000).map(|_| network.packet(0, 1)).collect();
        let lost = fates.iter().filter(|fate| fate.first.is_none()).count();
        let twice = fates.iter().filter(|fate| fate.second.is_some()).count();
        assert!((900..1_100).contains(&lost), "{lost}");
        assert!((4_300..4_700).contains(&twice), "{twice}");
    }
}
