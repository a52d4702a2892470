//! Who may try to connect at all: decided before any cryptography, by address alone. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use muster_model::time::Time;

use super::config::{HANDSHAKES_MAX, HANDSHAKES_TRUSTING};

/// Addresses remembered. Beyond that all new ones share one bucket.
const ADDRESSES_MAX: usize = 1_024;
/// How many seconds' worth an address may use at once.
const BURST_SECONDS: u64 = 3;
const MICROS: u64 = 1_000_000;

/// What to do with a new handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateDecision {
    /// Let it try.
    Open,
    /// Let it prove its address first: that costs nothing here.
    Prove,
    /// Too many from this address: not a word.
    AddressLimit,
    /// Too many at once: not a word.
    Full,
}

/// An address, and whether it is proven.
type Source = (IpAddr, bool);

/// What one address has left.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Microseconds' worth of tries; `MICROS / rate` each.
    credit: u64,
    at: Time,
}

/// Remembers how often each address asked.
#[derive(Debug)]
pub(crate) struct Gate {
    rate: u64,
    buckets: BTreeMap<Source, Bucket>,
}

impl Gate {
    pub(crate) fn new(rate: u32) -> Self {
        Self {
            rate: u64::from(rate.max(1)),
            buckets: BTreeMap::new(),
        }
    }

    /// Judges a handshake while `handshakes` are being made.
    pub(crate) fn judge(
        &mut self,
        now: Time,
        from: IpAddr,
        handshakes: usize,
        proven: bool,
    ) -> GateDecision {
        if handshakes >= HANDSHAKES_MAX {
            return GateDecision::Full;
        }
        if !proven && handshakes >= HANDSHAKES_TRUSTING {
            return GateDecision::Prove;
        }
        match (self.spend(now, from, proven), proven) {
            (true, _) => GateDecision::Open,
            (false, false) => GateDecision::Prove,
            (false, true) => GateDecision::AddressLimit,
        }
    }

    /// Takes one try from an address; false if it has none left. Whoever only claims an address
    /// cannot use up the tries of who has proven it.
    pub(crate) fn spend(&mut self, now: Time, from: IpAddr, proven: bool) -> bool {
        let address = self.slot(now, (subnet(from), proven));
        let (rate, full) = (self.rate, MICROS * BURST_SECONDS);
        let bucket = self.buckets.entry(address).or_insert(Bucket {
            credit: full,
            at: now,
        });
        bucket.credit = full.min(bucket.credit.saturating_add(now.micros_since(bucket.at)));
        bucket.at = now;
        let price = MICROS / rate;
        let Some(rest) = bucket.credit.checked_sub(price) else {
            return false;
        };
        bucket.credit = rest;
        true
    }

    /// Where an address is accounted: its own bucket, or the one that all share when there are
    /// too many.
    fn slot(&mut self, now: Time, source: Source) -> Source {
        if self.buckets.len() < ADDRESSES_MAX || self.buckets.contains_key(&source) {
            return source;
        }
        let full = MICROS * BURST_SECONDS;
        self.buckets
            .retain(|_, bucket| bucket.credit.saturating_add(now.micros_since(bucket.at)) < full);
        if self.buckets.len() < ADDRESSES_MAX {
            source
        } else {
            (IpAddr::V6(Ipv6Addr::UNSPECIFIED), source.1)
        }
    }
}

/// One host of IPv6 has a whole /64 to choose from.
pub(crate) fn subnet(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn v4(n: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(n))
    }

    fn opened(gate: &mut Gate, now: Time, from: IpAddr, times: usize) -> usize {
        (0..times)
            .filter(|_| gate.judge(now, from, 0, true) == GateDecision::Open)
            .count()
    }

    #[test]
    fn an_address_has_a_burst_and_then_its_rate() {
        let mut gate = Gate::new(10);
        assert_eq!(opened(&mut gate, Time(0), v4(1), 100), 30);
        assert_eq!(opened(&mut gate, Time::from_millis(1_000), v4(1), 100), 10);
        assert_eq!(opened(&mut gate, Time::from_millis(1_000), v4(2), 100), 30);
    }

    #[test]
    fn claimed_addresses_must_be_proven_once_they_come_often() {
        let mut gate = Gate::new(10);
        let claimed = (0..100).map(|_| gate.judge(Time(0), v4(1), 0, false));
        assert_eq!(
            claimed
                .filter(|decision| *decision == GateDecision::Prove)
                .count(),
            70
        );
        assert_eq!(opened(&mut gate, Time(0), v4(1), 100), 30);
        assert_eq!(
            gate.judge(Time(0), v4(1), 0, true),
            GateDecision::AddressLimit
        );
    }

    #[test]
    fn busy_means_proof_and_full_means_silence() {
        let mut gate = Gate::new(10);
        let mut judge = |handshakes, proven| gate.judge(Time(0), v4(1), handshakes, proven);
        assert_eq!(judge(HANDSHAKES_TRUSTING, false), GateDecision::Prove);
        assert_eq!(judge(HANDSHAKES_TRUSTING, true), GateDecision::Open);
        assert_eq!(judge(HANDSHAKES_MAX, true), GateDecision::Full);
    }

    #[test]
    fn many_addresses_do_not_grow_the_table() {
        let mut gate = Gate::new(10);
        let opened: usize = (0..50_000)
            .map(|n| opened(&mut gate, Time(0), v4(n), 2))
            .sum();
        assert!(gate.buckets.len() <= ADDRESSES_MAX + 1);
        assert!(opened <= 2 * ADDRESSES_MAX + 30, "{opened}");
        let later = Time::from_millis(10_000);
        assert_eq!(self::opened(&mut gate, later, v4(70_000), 100), 30);
    }

    #[test]
    fn a_host_of_ipv6_is_its_subnet() {
        let one = "2001:db8:0:1::1".parse().unwrap();
        let two = "2001:db8:0:1:ffff::2".parse().unwrap();
        assert_eq!(subnet(one), subnet(two));
        assert_eq!(subnet("::ffff:10.0.0.1".parse().unwrap()), v4(0x0a00_0001));
    }
}
