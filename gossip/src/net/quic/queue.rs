//! What waits to be sent to one peer: bounded, newest kept, signs of life first. Pure.

use std::collections::VecDeque;

use bytes::Bytes;
use muster_model::time::Time;

use super::event::Lane;

/// What may wait in one lane.
struct LaneBound {
    frames: usize,
    bytes: usize,
    /// Older than this, nobody needs it any more.
    age_ms: u64,
}

const LIVENESS: LaneBound = LaneBound {
    frames: 16,
    bytes: 16 << 10,
    age_ms: 500,
};
const DATAGRAMS: LaneBound = LaneBound {
    frames: 128,
    bytes: 128 << 10,
    age_ms: 2_000,
};
const STREAMS: LaneBound = LaneBound {
    frames: 128,
    bytes: 2 << 20,
    age_ms: 10_000,
};
const ORDERED: LaneBound = LaneBound {
    frames: 512,
    bytes: 8 << 20,
    age_ms: 5_000,
};

/// What waits in one lane, oldest first.
#[derive(Debug, Default)]
struct LaneQueue {
    frames: VecDeque<(Time, Bytes)>,
    bytes: usize,
}

/// How many frames were given up, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DroppedFrames {
    /// Pushed out by newer ones.
    pub(super) dropped: usize,
    /// Too old.
    pub(super) stale: usize,
}

/// What waits to be sent to one peer.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    liveness: LaneQueue,
    datagrams: LaneQueue,
    streams: LaneQueue,
    ordered: LaneQueue,
    given: DroppedFrames,
}

impl LaneQueue {
    fn push(&mut self, now: Time, bytes: Bytes, bound: &LaneBound) -> usize {
        self.bytes += bytes.len();
        self.frames.push_back((now, bytes));
        let mut dropped = 0;
        while self.frames.len() > bound.frames || self.bytes > bound.bytes {
            dropped += usize::from(self.take().is_some());
        }
        dropped
    }

    fn take(&mut self) -> Option<(Time, Bytes)> {
        let first = self.frames.pop_front()?;
        self.bytes -= first.1.len();
        Some(first)
    }

    /// The oldest that is of use still, and how many were not.
    fn pop(&mut self, now: Time, bound: &LaneBound) -> (Option<Bytes>, usize) {
        let mut stale = 0;
        while let Some((at, bytes)) = self.take() {
            if now.micros_since(at) <= bound.age_ms * 1_000 {
                return (Some(bytes), stale);
            }
            stale += 1;
        }
        (None, stale)
    }
}

impl SendQueue {
    pub(super) fn push(&mut self, now: Time, lane: Lane, bytes: Bytes) {
        let (waiting, bound) = self.lane(lane);
        let dropped = waiting.push(now, bytes, bound);
        self.given.dropped += dropped;
    }

    /// The next datagram: signs of life first.
    pub(super) fn datagram(&mut self, now: Time) -> Option<Bytes> {
        let liveness = self.pop(now, Lane::Liveness);
        liveness.or_else(|| self.pop(now, Lane::Datagram))
    }

    /// The next frame for a stream.
    pub(super) fn stream(&mut self, now: Time) -> Option<Bytes> {
        self.pop(now, Lane::Stream)
    }

    /// The next frame for the stream that keeps order.
    pub(super) fn ordered(&mut self, now: Time) -> Option<Bytes> {
        self.pop(now, Lane::Ordered)
    }

    /// Whether nothing waits.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let Self {
            liveness,
            datagrams,
            streams,
            ordered,
            ..
        } = self;
        let lanes = [liveness, datagrams, streams, ordered];
        lanes.iter().all(|lane| lane.frames.is_empty())
    }

    /// Whether no datagram waits, so that a new one may go out at once.
    pub(super) fn no_datagram(&self) -> bool {
        self.liveness.frames.is_empty() && self.datagrams.frames.is_empty()
    }

    /// What was given up since this was last asked.
    pub(super) fn given(&mut self) -> DroppedFrames {
        std::mem::take(&mut self.given)
    }

    fn pop(&mut self, now: Time, lane: Lane) -> Option<Bytes> {
        let (waiting, bound) = self.lane(lane);
        let (bytes, stale) = waiting.pop(now, bound);
        self.given.stale += stale;
        bytes
    }

    fn lane(&mut self, lane: Lane) -> (&mut LaneQueue, &'static LaneBound) {
        match lane {
            Lane::Liveness => (&mut self.liveness, &LIVENESS),
            Lane::Datagram => (&mut self.datagrams, &DATAGRAMS),
            Lane::Stream => (&mut self.streams, &STREAMS),
            Lane::Ordered => (&mut self.ordered, &ORDERED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Time = Time(0);

    fn frame(n: u8, len: usize) -> Bytes {
        vec![n; len].into()
    }

    #[test]
    fn signs_of_life_go_first() {
        let mut queue = SendQueue::default();
        queue.push(T0, Lane::Datagram, frame(1, 10));
        queue.push(T0, Lane::Stream, frame(2, 10));
        queue.push(T0, Lane::Liveness, frame(3, 10));
        assert_eq!(queue.datagram(T0), Some(frame(3, 10)));
        assert_eq!(queue.datagram(T0), Some(frame(1, 10)));
        assert_eq!(queue.datagram(T0), None);
        assert_eq!(queue.stream(T0), Some(frame(2, 10)));
        assert!(queue.is_empty());
    }

    #[test]
    fn the_newest_are_kept_within_the_bounds() {
        for (lane, bound, len) in [
            (Lane::Liveness, &LIVENESS, 60),
            (Lane::Datagram, &DATAGRAMS, 1_150),
            (Lane::Stream, &STREAMS, 65_000),
            (Lane::Ordered, &ORDERED, 65_000),
        ] {
            let mut queue = SendQueue::default();
            (0..200).for_each(|n| queue.push(T0, lane, frame(n, len)));
            let waiting = &queue.lane(lane).0;
            assert!(waiting.frames.len() <= bound.frames && waiting.bytes <= bound.bytes);
            assert_eq!(waiting.frames.back().unwrap().1, frame(199, len));
            let kept = waiting.frames.len();
            assert_eq!(queue.given().dropped, 200 - kept);
            assert_eq!(queue.given(), DroppedFrames::default());
        }
    }

    #[test]
    fn a_frame_too_long_for_its_lane_is_dropped_alone() {
        let mut queue = SendQueue::default();
        queue.push(T0, Lane::Stream, frame(1, STREAMS.bytes + 1));
        assert!(queue.is_empty());
        assert_eq!(queue.lane(Lane::Stream).0.bytes, 0);
    }

    #[test]
    fn lanes_push_nothing_out_of_each_other() {
        let mut queue = SendQueue::default();
        queue.push(T0, Lane::Ordered, frame(1, 10));
        (0..200).for_each(|n| queue.push(T0, Lane::Stream, frame(n, 65_000)));
        assert_eq!(queue.ordered(T0), Some(frame(1, 10)));
        assert_eq!(queue.ordered(T0), None);
    }

    #[test]
    fn what_is_late_is_not_sent() {
        let mut queue = SendQueue::default();
        queue.push(T0, Lane::Liveness, frame(1, 10));
        queue.push(T0, Lane::Stream, frame(2, 10));
        let later = Time::from_millis(LIVENESS.age_ms + 1);
        queue.push(later, Lane::Liveness, frame(3, 10));
        assert_eq!(queue.datagram(later), Some(frame(3, 10)));
        assert_eq!(queue.stream(later), Some(frame(2, 10)));
        assert_eq!(queue.given().stale, 1);
        queue.push(T0, Lane::Ordered, frame(4, 10));
        queue.push(later, Lane::Ordered, frame(5, 10));
        let later = Time::from_millis(ORDERED.age_ms + 1);
        assert_eq!(queue.ordered(later), Some(frame(5, 10)));
        assert_eq!(queue.given().stale, 1);
    }
}
