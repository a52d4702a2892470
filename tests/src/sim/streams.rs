//! Frames that travel on a stream of their own: as many packets as they need, each lost one
//! costs a round of recovery, and a network card sends and receives so much a second.

use muster_model::time::Time;

use super::network::SimNetwork;

/// Payload bytes of a packet that carries a part of a stream.
pub(crate) const PACKET_BYTES: usize = 1_162;
/// A lost packet is noticed and sent again after this, µs: a pessimist's QUIC, which has to wait
/// for its probe timeout each time.
const RECOVERY_US: u64 = 30_000;
/// A connection over which nothing passes is tried again at first after this, then twice that,
/// µs.
const RETRY_US: u64 = 30_000;
/// And at most after this: whatever else is sent over it shows that it works again.
const RETRY_US_MAX: u64 = 200_000;
/// A connection over which nothing passes for so long is given up, and its streams with it, µs.
const GIVE_UP_US: u64 = 10_000_000;
/// What a network card moves in a µs, each way: 1 Gbit/s.
const NIC_BYTES_US: u64 = 125;

/// How many packets so many bytes take.
pub(crate) fn packets(bytes: usize) -> usize {
    bytes.div_ceil(PACKET_BYTES).max(1)
}

/// How many rounds of recovery it takes until all of `packets` have arrived.
pub(crate) fn rounds(network: &mut SimNetwork, from: usize, to: usize, packets: usize) -> u64 {
    let mut missing = packets;
    let mut rounds = 0;
    loop {
        missing = (0..missing).filter(|_| network.loses(from, to)).count();
        if missing == 0 || rounds > 100 {
            return rounds;
        }
        rounds += 1;
    }
}

/// What the recovery of lost packets costs, µs.
pub(crate) fn recovery(rounds: u64) -> u64 {
    rounds * RECOVERY_US
}

/// An attempt to get a stream through a way that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// When the stream was first sent.
    pub(crate) since: Time,
    /// How long the last attempt waited, µs; 0 before the first.
    pub(crate) waited_us: u64,
}

impl Attempt {
    pub(crate) fn first(now: Time) -> Self {
        Self {
            since: now,
            waited_us: 0,
        }
    }

    /// The attempt after this one failed at `now`; `None` if the connection is given up.
    pub(crate) fn again(self, now: Time) -> Option<Self> {
        let waited_us = (self.waited_us * 2).clamp(RETRY_US, RETRY_US_MAX);
        let alive = now.micros_since(self.since) + waited_us <= GIVE_UP_US;
        alive.then_some(Self { waited_us, ..self })
    }
}

/// The network cards of all nodes, each a queue of bytes out and one of bytes in.
#[derive(Debug)]
pub(crate) struct Cards {
    out: Vec<u64>,
    into: Vec<u64>,
}

impl Cards {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            out: vec![0; nodes],
            into: vec![0; nodes],
        }
    }

    /// `bytes` leave `from`: how long after `now` the last of them is out, µs.
    pub(crate) fn leave(&mut self, now: Time, from: usize, bytes: usize) -> u64 {
        drain(&mut self.out[from], now.0, bytes) - now.0
    }

    /// `bytes` arrive at `to` from `at` on: when the last of them is in.
    pub(crate) fn arrive(&mut self, at: Time, to: usize, bytes: usize) -> Time {
        Time(drain(&mut self.into[to], at.0, bytes))
    }
}

fn drain(free: &mut u64, now: u64, bytes: usize) -> u64 {
    *free = (*free).max(now) + bytes as u64 / NIC_BYTES_US;
    *free
}

#[cfg(test)]
mod tests {
    use super::super::network::Weather;
    use super::*;

    #[test]
    fn lost_packets_cost_rounds() {
        let mut calm = SimNetwork::new(2, 1, Weather::lossy(0.0));
        assert_eq!(rounds(&mut calm, 0, 1, 100), 0);
        let mut lossy = SimNetwork::new(2, 1, Weather::lossy(5.0));
        let all: u64 = (0..1_000).map(|_| rounds(&mut lossy, 0, 1, 55)).sum();
        // 1 - 0.95^55 = 94 % need a round, 13 % a second one.
        assert!((1_000..1_180).contains(&all), "{all}");
    }

    #[test]
    fn a_cut_connection_is_tried_for_ten_seconds() {
        let (mut attempt, mut now) = (Attempt::first(Time(0)), Time(0));
        while let Some(next) = attempt.again(now) {
            now = Time(now.0 + next.waited_us);
            attempt = next;
        }
        assert!((9_700_000..=10_000_000).contains(&now.0), "{now:?}");
    }

    #[test]
    fn a_card_sends_one_thing_after_the_other() {
        let mut cards = Cards::new(2);
        assert_eq!(cards.leave(Time(0), 0, 125_000), 1_000);
        assert_eq!(cards.leave(Time(500), 0, 125_000), 1_500);
        assert_eq!(cards.leave(Time(500), 1, 125), 1);
        assert_eq!(cards.arrive(Time(10), 1, 12_500), Time(110));
    }
}
