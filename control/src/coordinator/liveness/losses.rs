//! Many nodes lost at once. Mostly that is the network or the power, and most of them are back soon:
//! then their jobs are not all started anew at the same time.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::NodeId;
use muster_model::time::Time;

/// Lost within this, more than a third of all nodes are a mass failure; milliseconds.
const WINDOW_MS: u64 = 60_000;
/// How long after it restarts are limited, milliseconds.
const LIMITED_MS: u64 = 15 * 60_000;
/// Between two restarts then, milliseconds.
const PAUSE_MS: u64 = 10_000;

/// When nodes were lost that cannot be reached.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    since: BTreeMap<NodeId, Time>,
    /// When the next gang may be started anew, while restarts are limited.
    next: Time,
}

impl Losses {
    /// These nodes cannot be reached now.
    pub(super) fn seen(&mut self, now: Time, unreachable: &BTreeSet<NodeId>) {
        self.since.retain(|node, _| unreachable.contains(node));
        for node in unreachable {
            self.since.entry(node.clone()).or_insert(now);
        }
    }

    /// Those that cannot be reached.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &NodeId> {
        self.since.keys()
    }

    /// When it was first heard that one cannot be reached, if it cannot.
    pub(super) fn since(&self, node: &NodeId) -> Option<Time> {
        self.since.get(node).copied()
    }

    /// Until when restarts are limited, if they are. `nodes`: how many there are in all, without those that
    /// have `left`.
    pub(super) fn limited_until(
        &self,
        now: Time,
        nodes: usize,
        left: &BTreeSet<NodeId>,
    ) -> Option<Time> {
        let many = nodes / 3 + 1;
        let lost = self.since.iter().filter(|(node, _)| !left.contains(*node));
        let mut times: Vec<Time> = lost.map(|(_, at)| *at).collect();
        times.sort_unstable();
        let within = |of: &&[Time]| match of {
            [first, .., last] => last.micros_since(*first) <= WINDOW_MS * 1000,
            _ => true,
        };
        let last = times.windows(many).rfind(within)?.last()?;
        let until = last.plus_millis(LIMITED_MS);
        (now < until).then_some(until)
    }

    /// Whether a gang may be started anew now that restarts are limited.
    pub(super) fn take_turn(&mut self, now: Time) -> bool {
        let is_due = self.next <= now;
        if is_due {
            self.next = now.plus_millis(PAUSE_MS);
        }
        is_due
    }

    /// When the next gang may be.
    pub(super) const fn next_turn(&self) -> Time {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes lost at these seconds, one after the other.
    fn lost(seconds: &[u64]) -> Losses {
        let mut losses = Losses::default();
        let mut gone = BTreeSet::new();
        for (number, second) in seconds.iter().enumerate() {
            gone.insert(format!("n{number}").parse().unwrap());
            losses.seen(Time::from_millis(second * 1000), &gone);
        }
        losses
    }

    #[test]
    fn more_than_a_third_within_a_minute_limits_restarts_for_a_quarter_of_an_hour() {
        let table: [(&[u64], usize, Option<u64>); 7] = [
            (&[], 9, None),
            (&[0, 1, 2], 9, None),
            (&[0, 1, 2, 3], 9, Some(903)),
            (&[0, 20, 40, 61], 9, None),
            (&[0, 20, 40, 60], 9, Some(960)),
            (&[0, 50, 90, 100, 105, 300], 9, Some(1005)),
            (&[5], 2, Some(905)),
        ];
        let none = BTreeSet::new();
        for (seconds, nodes, expect) in table {
            let losses = lost(seconds);
            let until = losses.limited_until(Time::from_millis(310_000), nodes, &none);
            let expect = expect.map(|second| Time::from_millis(second * 1000));
            assert_eq!(until, expect, "{seconds:?} of {nodes}");
        }
        let losses = lost(&[0, 1]);
        let until = |second: u64| losses.limited_until(Time::from_millis(second * 1000), 3, &none);
        assert!(until(900).is_some() && until(901).is_none());
    }

    #[test]
    fn who_is_back_counts_no_more() {
        let mut losses = lost(&[0, 1, 2]);
        let now = Time::from_millis(3_000);
        let none = BTreeSet::new();
        assert!(losses.limited_until(now, 6, &none).is_some());
        let two = ["n0", "n1"].map(|name| name.parse().unwrap());
        losses.seen(now, &two.into());
        assert!(losses.limited_until(now, 6, &none).is_none());
    }

    #[test]
    fn who_has_left_was_not_lost() {
        let losses = lost(&[0, 1]);
        let now = Time::from_millis(3_000);
        let left = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
        assert!(losses.limited_until(now, 5, &left(&[])).is_some());
        assert!(losses.limited_until(now, 4, &left(&["n0"])).is_none());
        assert!(losses.limited_until(now, 2, &left(&["n0"])).is_some());
    }
}
