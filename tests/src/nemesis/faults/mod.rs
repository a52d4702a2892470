//! What is done to the cluster, and when. Pure: one seed gives one schedule. `harm.rs` does it.

pub(super) mod harm;

use std::time::Duration;

use clap::ValueEnum;

use crate::sim::random::Random;

/// Which numbers of the seed these are.
const STREAM: u64 = 2;
/// So many faults may last at a time.
const AT_ONCE: usize = 2;
/// Faults that begin in a second, where as many may last.
const RATE: f64 = 0.25;
/// How long nothing is done at first.
const CALM: Duration = Duration::from_secs(2);

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum HarmKind {
    /// An agent is killed, and started again.
    Kill,
    /// An agent is stopped in its tracks, and goes on.
    Pause,
    /// A node is cut off.
    CutNode,
    /// What one node sends does not arrive at another one.
    CutOneWay,
    /// A node is cut off for so long that the shortest run leases end, and jobs start elsewhere.
    Silence,
    /// Who leads the jobs is cut off.
    CutLeader,
    /// No node of one half hears any of the other.
    Halves,
    /// Packets are lost.
    Loss,
    /// What is sent to a node arrives late. Not every kernel can do that.
    Delay,
    /// The disk of a node's state is full.
    FullDisk,
    /// The wall clock of an agent is wrong.
    Clock,
}

impl HarmKind {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::CutNode => "cut_node",
            Self::CutOneWay => "cut_one_way",
            Self::Silence => "silence",
            Self::CutLeader => "cut_leader",
            Self::Halves => "halves",
            Self::Loss => "loss",
            Self::Delay => "delay",
            Self::FullDisk => "full_disk",
            Self::Clock => "clock",
        }
    }

    /// The shortest and the longest that one lasts, in milliseconds. Tasks with the shortest run
    /// lease end after 17 s of silence; after 38 s they may start elsewhere.
    const fn range_ms(self) -> (u64, u64) {
        match self {
            Self::Kill => (200, 15_000),
            Self::Pause => (500, 40_000),
            Self::CutNode | Self::CutLeader | Self::Halves => (1_000, 20_000),
            Self::CutOneWay | Self::Loss | Self::Delay => (2_000, 20_000),
            Self::Silence => (42_000, 60_000),
            Self::FullDisk => (2_000, 12_000),
            Self::Clock => (3_000, 30_000),
        }
    }
}

/// What is done, with everything that it needs. Nodes are numbers from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Kill(usize),
    Pause(usize),
    CutNode(usize),
    CutOneWay {
        from: usize,
        to: usize,
    },
    /// Whoever leads when it begins.
    CutLeader,
    /// These against the others.
    Halves(Vec<usize>),
    Loss {
        node: usize,
        percent: u8,
    },
    Delay {
        node: usize,
        milliseconds: u32,
    },
    FullDisk(usize),
    Clock {
        node: usize,
        seconds: i64,
    },
}

/// A fault in a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strike {
    /// When it begins, since the start of the run.
    pub(super) at: Duration,
    pub(super) lasts: Duration,
    pub(super) kind: HarmKind,
    pub(super) fault: Fault,
}

/// What a schedule is made of.
#[derive(Clone, Debug)]
pub(super) struct ScheduleRange<'a> {
    pub(super) nodes: usize,
    pub(super) kinds: &'a [HarmKind],
    /// When the last fault ends.
    pub(super) length: Duration,
    /// How long one lasts at most.
    pub(super) longest: Duration,
}

/// The faults of a seed, in the order in which they begin.
pub(super) fn schedule(range: &ScheduleRange<'_>, seed: u64) -> Vec<Strike> {
    let mut random = Random::new(seed, STREAM);
    let mut strikes: Vec<Strike> = Vec::new();
    let mut at = CALM;
    while let Some(kind) = range.kinds.get(random.index(range.kinds.len())).copied() {
        at += Duration::from_micros(random.gap(RATE));
        if at >= range.length {
            break;
        }
        let strike = Strike {
            at,
            lasts: lasts(kind, range, &mut random).min(range.length - at),
            kind,
            fault: draw(kind, range.nodes, &mut random),
        };
        let standing: Vec<&Strike> = strikes.iter().filter(|it| it.at + it.lasts > at).collect();
        if standing.len() < AT_ONCE && !standing.iter().any(|it| clash(it, &strike)) {
            strikes.push(strike);
        }
    }
    strikes
}

/// Most are short: the square of an even draw.
fn lasts(kind: HarmKind, range: &ScheduleRange<'_>, random: &mut Random) -> Duration {
    let (from, to) = kind.range_ms();
    let longest = u64::try_from(range.longest.as_millis()).unwrap_or(u64::MAX);
    let to = to.min(longest).max(from);
    let part = random.below(1000);
    Duration::from_millis(from + (to - from) * part * part / 1_000_000)
}

fn draw(kind: HarmKind, nodes: usize, random: &mut Random) -> Fault {
    let two = random.sample(nodes, 2);
    let (node, other) = (1 + two[0], 1 + two[1]);
    match kind {
        HarmKind::Kill => Fault::Kill(node),
        HarmKind::Pause => Fault::Pause(node),
        HarmKind::CutNode | HarmKind::Silence => Fault::CutNode(node),
        HarmKind::CutOneWay => Fault::CutOneWay {
            from: node,
            to: other,
        },
        HarmKind::CutLeader => Fault::CutLeader,
        HarmKind::Halves => {
            let half = random.sample(nodes, nodes / 2);
            Fault::Halves(half.into_iter().map(|index| 1 + index).collect())
        }
        HarmKind::Loss => Fault::Loss {
            node,
            percent: [5, 15, 30, 50][random.index(4)],
        },
        HarmKind::Delay => Fault::Delay {
            node,
            milliseconds: [20, 100, 400][random.index(3)],
        },
        HarmKind::FullDisk => Fault::FullDisk(node),
        HarmKind::Clock => Fault::Clock {
            node,
            seconds: [-3600, -60, -5, 5, 60, 3600][random.index(6)],
        },
    }
}

/// Whether two faults cannot last at a time: of one kind, or both to the same process.
fn clash(one: &Strike, other: &Strike) -> bool {
    let process = |fault: &Fault| match fault {
        Fault::Kill(node) | Fault::Pause(node) => Some(*node),
        _ => None,
    };
    let same = process(&one.fault).is_some() && process(&one.fault) == process(&other.fault);
    same || one.kind == other.kind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(kinds: &[HarmKind]) -> ScheduleRange<'_> {
        ScheduleRange {
            nodes: 5,
            kinds,
            length: Duration::from_secs(600),
            longest: Duration::from_secs(60),
        }
    }

    #[test]
    fn a_seed_gives_one_schedule_of_every_kind() {
        let kinds = HarmKind::value_variants();
        let strikes = schedule(&range(kinds), 7);
        assert_eq!(strikes, schedule(&range(kinds), 7));
        assert_ne!(strikes, schedule(&range(kinds), 8));
        for kind in kinds {
            assert!(strikes.iter().any(|it| it.kind == *kind), "{kind:?}");
        }
        assert!(schedule(&range(&[]), 7).is_empty());
    }

    #[test]
    fn faults_end_in_time_and_are_few_at_a_time() {
        for seed in 0..20 {
            let strikes = schedule(&range(HarmKind::value_variants()), seed);
            assert!(strikes.len() > 20, "{}", strikes.len());
            for (at, strike) in strikes.iter().enumerate() {
                assert!(strike.at + strike.lasts <= Duration::from_secs(600));
                let earlier = strikes[..at].iter();
                let standing = earlier.filter(|it| it.at + it.lasts > strike.at);
                assert!(standing.count() < AT_ONCE);
            }
        }
    }
}
