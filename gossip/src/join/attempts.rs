//! Who guesses secrets is slowed down.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

use muster_model::time::Time;

use super::token::TokenId;

/// Wrong proofs within [`WINDOW_MS`] after which nothing is checked any more.
pub const WRONG_PROOFS_MAX: usize = 10;
/// How long a wrong proof counts, ms.
pub const WINDOW_MS: u64 = 60_000;
/// Addresses and tokens that are remembered.
const WHO_MAX: usize = 4_096;

/// Whom a wrong proof counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProofSource {
    /// An address; of IPv6 the network, since a machine has a whole network of addresses.
    Address(IpAddr),
    /// A token that exists.
    Token(TokenId),
}

impl ProofSource {
    /// Whoever sends from this address.
    pub fn address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

/// Wrong proofs of late.
#[derive(Debug, Default)]
pub struct WrongProofs {
    wrong: BTreeMap<ProofSource, VecDeque<Time>>,
}

impl WrongProofs {
    /// How long to wait until a proof is checked again, in ms; `None` if it is checked now.
    pub fn wait_ms(&self, now: Time, who: ProofSource) -> Option<u64> {
        let wrong = self.wrong.get(&who)?;
        let oldest = wrong.len().checked_sub(WRONG_PROOFS_MAX)?;
        let until = wrong.get(oldest)?.plus_millis(WINDOW_MS);
        let left = until.micros_since(now).div_ceil(1000);
        (left > 0).then_some(left)
    }

    /// Counts a wrong proof. A full table forgets whoever was wrong longest ago.
    pub fn wrong(&mut self, now: Time, who: ProofSource) {
        if !self.wrong.contains_key(&who) && self.wrong.len() >= WHO_MAX {
            self.forget(now);
        }
        let wrong = self.wrong.entry(who).or_default();
        wrong.push_back(now);
        if wrong.len() > WRONG_PROOFS_MAX {
            wrong.pop_front();
        }
    }

    /// Addresses and tokens that are remembered.
    pub fn len(&self) -> usize {
        self.wrong.len()
    }

    /// Whether nobody was wrong of late.
    pub fn is_empty(&self) -> bool {
        self.wrong.is_empty()
    }

    fn forget(&mut self, now: Time) {
        let last = |wrong: &VecDeque<Time>| wrong.back().copied().unwrap_or_default();
        self.wrong
            .retain(|_, wrong| last(wrong).plus_millis(WINDOW_MS) > now);
        if self.wrong.len() < WHO_MAX {
            return;
        }
        let oldest = self.wrong.iter().min_by_key(|(_, wrong)| last(wrong));
        if let Some(who) = oldest.map(|(who, _)| *who) {
            self.wrong.remove(&who);
        }
    }
}
