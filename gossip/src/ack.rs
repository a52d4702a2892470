//! Acknowledgements of pushes: those of a few milliseconds go back together.

use std::collections::BTreeMap;

use muster_model::time::Time;

use crate::member::MemberId;

/// How long one waits for others, ms: well below the time after which a push is sent again.
const WAIT_MS: u64 = 5;
/// More than these do not wait: a datagram has room for them.
const WAITING_MAX: usize = 128;

/// Acknowledgements that wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acks {
    waiting: BTreeMap<MemberId, Vec<u32>>,
    due: Option<Time>,
}

impl Acks {
    /// A push of this number came.
    pub(crate) fn add(&mut self, now: Time, from: MemberId, number: u32) {
        let numbers = self.waiting.entry(from).or_default();
        numbers.push(number);
        if numbers.len() >= WAITING_MAX {
            self.due = Some(now);
        }
        self.due.get_or_insert_with(|| now.plus_millis(WAIT_MS));
    }

    /// What is to be sent to whom, if it is time.
    pub(crate) fn flush(&mut self, now: Time) -> BTreeMap<MemberId, Vec<u32>> {
        if self.due.is_none_or(|at| at > now) {
            return BTreeMap::new();
        }
        self.due = None;
        std::mem::take(&mut self.waiting)
    }

    /// When [`Acks::flush`] is due.
    pub(crate) const fn deadline(&self) -> Option<Time> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_within_a_few_milliseconds_is_acknowledged_together() {
        let mut acks = Acks::default();
        let at = |ms: u64| Time::from_millis(1_000 + ms);
        for (ms, from, number) in [(0, 1, 7), (3, 2, 7), (4, 1, 9)] {
            acks.add(at(ms), MemberId(from), number);
        }
        assert_eq!(acks.flush(at(4)), BTreeMap::new());
        assert_eq!(acks.deadline(), Some(at(5)));
        let expect = [(MemberId(1), vec![7, 9]), (MemberId(2), vec![7])];
        assert_eq!(acks.flush(at(5)), BTreeMap::from(expect));
        assert_eq!((acks.deadline(), acks.flush(at(50)).len()), (None, 0));
    }

    #[test]
    fn a_full_datagram_does_not_wait() {
        let mut acks = Acks::default();
        let now = Time::from_millis(1_000);
        for number in 0..WAITING_MAX {
            acks.add(now, MemberId(1), u32::try_from(number).unwrap());
        }
        assert_eq!(acks.flush(now)[&MemberId(1)].len(), WAITING_MAX);
    }
}
