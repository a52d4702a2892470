//! What a peer may ask of this node.

use std::collections::BTreeMap;

use muster_model::time::Time;

use crate::member::MemberId;

/// What a peer may use at once.
const BURST: u64 = 2_048;
/// What it gets back a second.
const REFILL: u64 = 1_024;
/// Peers that are remembered; a new one replaces who was quiet for longest.
const PEERS_MAX: usize = 256;

/// What each peer has left.
#[derive(Clone, Debug, Default)]
pub(super) struct Budgets(BTreeMap<MemberId, ByteBudget>);

#[derive(Clone, Copy, Debug)]
struct ByteBudget {
    /// Millionths.
    left: u64,
    at: Time,
}

impl Budgets {
    /// Takes `cost` from what the peer has left; `false` if that is not enough.
    pub(super) fn pay(&mut self, peer: MemberId, cost: u64, now: Time) -> bool {
        if self.0.len() >= PEERS_MAX && !self.0.contains_key(&peer) {
            self.forget_quietest();
        }
        let full = ByteBudget {
            left: BURST * 1_000_000,
            at: now,
        };
        let budget = self.0.entry(peer).or_insert(full);
        let back = now.micros_since(budget.at).saturating_mul(REFILL);
        budget.left = budget.left.saturating_add(back).min(BURST * 1_000_000);
        budget.at = now.max(budget.at);
        let rest = budget.left.checked_sub(cost * 1_000_000);
        budget.left = rest.unwrap_or(budget.left);
        rest.is_some()
    }

    fn forget_quietest(&mut self) {
        let quietest = self.0.iter().min_by_key(|(_, budget)| budget.at);
        if let Some(peer) = quietest.map(|(peer, _)| *peer) {
            self.0.remove(&peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_down_and_the_peer_recovers() {
        let (mut budgets, now) = (Budgets::default(), Time::from_millis(5));
        let flood = (0..10_000)
            .filter(|_| budgets.pay(MemberId(1), 1, now))
            .count();
        assert_eq!(flood, 2_048);
        assert!(budgets.pay(MemberId(2), 1, now), "another peer");
        let later = now.plus_millis(500);
        assert!(budgets.pay(MemberId(1), 512, later));
        assert!(!budgets.pay(MemberId(1), 1, later));
    }

    #[test]
    fn peers_are_bounded() {
        let mut budgets = Budgets::default();
        for peer in 0..1_000 {
            budgets.pay(MemberId(peer), 1, Time::from_millis(u64::from(peer)));
        }
        assert_eq!(budgets.0.len(), PEERS_MAX);
        assert!(budgets.0.contains_key(&MemberId(999)));
    }
}
