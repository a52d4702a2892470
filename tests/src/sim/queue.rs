//! What happens when: a wheel of buckets for the next second, a heap for what is later. Things
//! of one instant happen in the order in which they were put in.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use muster_model::time::Time;

/// Buckets of the wheel.
const BUCKETS: u64 = 1 << 14;
/// Width of a bucket, as a power of two of µs: 64 µs, so that the wheel holds one second.
const WIDTH: u32 = 6;
/// Emptied buckets kept.
const SPARE: usize = 1_024;

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    order: u64,
    event: E,
}

impl<E> Entry<E> {
    fn rank(&self) -> (Time, u64) {
        (self.at, self.order)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// Events in order of time.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    order: u64,
    /// Number of the bucket that is being emptied.
    bucket: u64,
    /// That bucket, the next event last.
    current: Vec<Entry<E>>,
    wheel: Vec<Vec<Entry<E>>>,
    in_wheel: usize,
    /// Emptied buckets, whose memory is used again.
    spare: Vec<Vec<Entry<E>>>,
    far: BinaryHeap<Reverse<Entry<E>>>,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self {
            order: 0,
            bucket: 0,
            current: Vec::new(),
            wheel: (0..BUCKETS).map(|_| Vec::new()).collect(),
            in_wheel: 0,
            spare: Vec::new(),
            far: BinaryHeap::new(),
        }
    }
}

impl<E> EventQueue<E> {
    /// `event` happens at `at`, or now if that is over.
    pub(crate) fn push(&mut self, at: Time, event: E) {
        self.order += 1;
        let order = self.order;
        self.place(Entry { at, order, event });
    }

    /// The next event, if it happens by `until`.
    pub(crate) fn pop(&mut self, until: Time) -> Option<(Time, E)> {
        while self.current.is_empty() {
            self.turn(until)?;
        }
        if self.current.last()?.at > until {
            return None;
        }
        self.current.pop().map(|entry| (entry.at, entry.event))
    }

    /// How many events wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.current.len() + self.in_wheel + self.far.len()
    }

    fn place(&mut self, entry: Entry<E>) {
        let bucket = entry.at.0 >> WIDTH;
        if bucket <= self.bucket {
            let at = self.current.partition_point(|other| *other > entry);
            self.current.insert(at, entry);
        } else if bucket < self.bucket + BUCKETS {
            self.in_wheel += 1;
            self.fill(bucket, entry);
        } else {
            self.far.push(Reverse(entry));
        }
    }

    fn fill(&mut self, bucket: u64, entry: Entry<E>) {
        if self.slot(bucket).capacity() == 0 {
            *self.slot(bucket) = self.spare.pop().unwrap_or_default();
        }
        self.slot(bucket).push(entry);
    }

    fn slot(&mut self, bucket: u64) -> &mut Vec<Entry<E>> {
        let index = usize::try_from(bucket % BUCKETS).unwrap_or(0);
        &mut self.wheel[index]
    }

    /// Goes on to the next bucket that has something; `None` if nothing happens by `until`.
    fn turn(&mut self, until: Time) -> Option<()> {
        let last = until.0 >> WIDTH;
        if self.in_wheel == 0 {
            let next = self.far.peek()?.0.at.0 >> WIDTH;
            self.bucket = self.bucket.max(next.min(last).saturating_sub(1));
        }
        if self.bucket >= last {
            return None;
        }
        self.bucket += 1;
        let mut ripe = std::mem::take(self.slot(self.bucket));
        self.in_wheel -= ripe.len();
        ripe.sort_unstable_by(|a, b| b.cmp(a));
        let empty = std::mem::replace(&mut self.current, ripe);
        if self.spare.len() < SPARE && empty.capacity() > 0 {
            self.spare.push(empty);
        }
        self.take_far();
        Some(())
    }

    fn take_far(&mut self) {
        let end = Time((self.bucket + BUCKETS) << WIDTH);
        while self.far.peek().is_some_and(|next| next.0.at < end) {
            if let Some(Reverse(entry)) = self.far.pop() {
                self.place(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    /// Against a sorted list: random times near and far, pushed while others are popped.
    #[test]
    fn events_come_in_order_of_time_then_of_entry() {
        for seed in 0..50 {
            check_order(&mut Random::new(seed, 0));
        }
    }

    fn check_order(random: &mut Random) {
        let mut queue = EventQueue::default();
        let mut expected = Vec::new();
        let mut now = Time(0);
        for number in 0..2_000_u64 {
            let spread = [10, 1_000, 100_000, 10_000_000][random.index(4)];
            let at = Time(now.0 + random.below(spread));
            queue.push(at, number);
            expected.push((at, number));
            if random.below(3) == 0 {
                expected.sort_unstable();
                let until = Time(now.0 + random.below(100_000));
                let popped = queue.pop(until);
                let due = expected.first().is_some_and(|next| next.0 <= until);
                assert_eq!(popped, due.then(|| expected.remove(0)));
                now = popped.map_or(until, |(at, _)| at);
            }
        }
        expected.sort_unstable();
        for next in expected {
            assert_eq!(queue.pop(Time(u64::MAX >> 1)), Some(next));
        }
        assert_eq!(queue.len(), 0);
    }
}
