//! How long news takes to reach every node.

use std::collections::BTreeMap;

use muster_gossip::mesh::Reach;
use muster_model::time::Time;

/// A delay that stands for "never in this run", µs.
const NEVER_US: u64 = 60_000_000;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum News {
    /// A node is suspected.
    Suspect(usize),
    /// A node is held for unreachable.
    Unreachable(usize),
    /// A node's change of this number is known.
    Change(usize, u64),
    /// A document of this version is here.
    Document(u64),
}

impl News {
    /// The news that a reach is.
    pub(crate) fn of_reach(reach: Reach) -> &'static [fn(usize) -> News] {
        match reach {
            Reach::Alive => &[],
            Reach::Suspect => &[News::Suspect],
            Reach::Unreachable => &[News::Suspect, News::Unreachable],
        }
    }
}

#[derive(Debug)]
struct AwaitedMark {
    at: Time,
    seen: Vec<Option<Time>>,
}

/// Whether a node can be asked about some news: it ran, and did not stand still.
pub(crate) trait Fit {
    /// Whether `node` was up, reachable and running from `from` to `to`.
    fn fit(&self, node: usize, from: Time, to: Time) -> bool;
}

/// All news that are waited for.
#[derive(Debug)]
pub(crate) struct Marks {
    nodes: usize,
    open: BTreeMap<News, AwaitedMark>,
}

impl Marks {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            nodes,
            open: BTreeMap::new(),
        }
    }

    /// From now on, who learns this is noted.
    pub(crate) fn set(&mut self, now: Time, news: News) {
        let seen = vec![None; self.nodes];
        self.open.insert(news, AwaitedMark { at: now, seen });
    }

    /// A node knows this.
    pub(crate) fn note(&mut self, now: Time, node: usize, news: News) {
        if self.open.is_empty() {
            return;
        }
        if let Some(mark) = self.open.get_mut(&news) {
            mark.seen[node].get_or_insert(now);
        }
    }

    /// Whether all who are fit know it.
    pub(crate) fn complete(&self, now: Time, news: News, fit: &dyn Fit) -> bool {
        self.open.get(&news).is_none_or(|mark| {
            let knows = |(node, seen): (usize, &Option<Time>)| {
                seen.is_some() || !fit.fit(node, mark.at, now)
            };
            mark.seen.iter().enumerate().all(knows)
        })
    }

    /// Ends the wait: the delays of all who were fit, µs.
    pub(crate) fn close(&mut self, now: Time, news: News, fit: &dyn Fit) -> Vec<u64> {
        let Some(mark) = self.open.remove(&news) else {
            return Vec::new();
        };
        let delay = |(node, seen): (usize, Option<Time>)| {
            let until = seen.unwrap_or(now);
            let delay = seen.map_or(NEVER_US, |at| at.micros_since(mark.at));
            fit.fit(node, mark.at, until).then_some(delay)
        };
        mark.seen
            .into_iter()
            .enumerate()
            .filter_map(delay)
            .collect()
    }
}

/// The value that 99 % of these do not exceed, in ms with three digits.
pub(crate) fn p99_ms(mut delays: Vec<u64>) -> Option<f64> {
    delays.sort_unstable();
    let rank = (delays.len() * 99).div_ceil(100).checked_sub(1)?;
    Some(delays[rank] as f64 / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct All;

    impl Fit for All {
        fn fit(&self, node: usize, _: Time, _: Time) -> bool {
            node != 2
        }
    }

    #[test]
    fn delays_are_of_those_who_were_fit() {
        let mut marks = Marks::new(4);
        let news = News::Change(0, 7);
        marks.set(Time(100), news);
        marks.note(Time(150), 0, news);
        marks.note(Time(160), 1, news);
        marks.note(Time(170), 1, news);
        assert!(!marks.complete(Time(200), news, &All));
        marks.note(Time(300), 3, News::Change(0, 8));
        assert_eq!(marks.close(Time(200), news, &All), [50, 60, NEVER_US]);
        assert!(marks.complete(Time(200), news, &All));
    }

    #[test]
    fn the_99th_percentile_is_a_value_that_occurred() {
        assert_eq!(p99_ms(vec![]), None);
        assert_eq!(p99_ms(vec![5_000]), Some(5.0));
        assert_eq!(p99_ms((1..=200).map(|n| n * 1_000).collect()), Some(198.0));
    }
}
