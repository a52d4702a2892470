//! What waits, and in which order it is decided.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_model::time::Time;

use crate::cells::Cells;
use crate::decide::Turns;
use crate::gang::{Gang, GangNumber};

/// A gang that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The gang.
    pub gang: Gang,
    /// Since when.
    pub since: Time,
}

/// Everything that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GangQueue {
    /// In any order.
    pub gangs: Vec<Queued>,
}

/// A gang whose turn comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GangTurn<'a> {
    pub(crate) queued: &'a Queued,
    /// Whether it has waited so long that no equal passes it.
    pub(crate) is_overdue: bool,
    /// Leaves it asks for, 0 if they don't count.
    size: u64,
    /// Leaves its user has or asked for before it, 0 if they don't count.
    share: u64,
}

impl GangQueue {
    /// The gangs whose turn comes before that of this one, in the order of their turns; none if it is not in the queue.
    pub fn ahead_of(
        &self,
        gang: GangNumber,
        cells: &Cells,
        turns: &Turns,
        now: Time,
    ) -> Option<Vec<GangNumber>> {
        let order = self.in_order(cells, turns, now);
        let all: Vec<GangNumber> = order.iter().map(|turn| turn.queued.gang.id).collect();
        let at = all.iter().position(|one| *one == gang)?;
        Some(all[..at].to_vec())
    }

    /// The most important first; among equals whoever is overdue, then as [`Turns`] says, then
    /// whoever waits longest.
    pub(crate) fn in_order(&self, cells: &Cells, turns: &Turns, now: Time) -> Vec<GangTurn<'_>> {
        let all = self.gangs.iter();
        let mut order: Vec<GangTurn<'_>> = all
            .map(|queued| GangTurn::new(queued, cells, turns, now))
            .collect();
        if turns.is_fair {
            share(&mut order, cells);
        }
        order.sort_unstable_by_key(GangTurn::key);
        order
    }
}

/// What each user has, and on top of it what each of his gangs would add if it had its turn.
fn share(order: &mut [GangTurn<'_>], cells: &Cells) {
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    order.sort_unstable_by_key(GangTurn::key);
    for turn in order {
        let gang = &turn.queued.gang;
        if gang.user.is_empty() || turn.is_overdue {
            continue;
        }
        let user = (&*gang.vc, &*gang.user);
        let sum = sums.entry(user);
        let sum = sum.or_insert_with(|| cells.gangs.held_by(user.0, user.1));
        turn.share = *sum;
        *sum += gang.leaves();
    }
}

impl<'a> GangTurn<'a> {
    fn new(queued: &'a Queued, cells: &Cells, turns: &Turns, now: Time) -> Self {
        let is_overdue = is_overdue(queued, cells, turns, now);
        let counts = turns.is_smaller_first && !is_overdue;
        Self {
            queued,
            is_overdue,
            size: if counts { queued.gang.leaves() } else { 0 },
            share: 0,
        }
    }

    fn key(&self) -> impl Ord + use<> {
        let gang = &self.queued.gang;
        (
            Reverse(gang.priority),
            Reverse(self.is_overdue),
            self.size,
            self.share,
            self.queued.since,
            gang.id,
        )
    }
}

fn is_overdue(queued: &Queued, cells: &Cells, turns: &Turns, now: Time) -> bool {
    let gang = &queued.gang;
    let (waited_ms, is_wide) = (now.micros_since(queued.since) / 1000, gang.pods() > 1);
    let is_past = |share| {
        let limit = turns.overdue_ms(is_wide, share);
        limit.is_some_and(|limit_ms| waited_ms >= limit_ms)
    };
    // Counting the quota is worth it only for who may be overdue.
    is_past((0, 1)) && is_past((gang.leaves(), cells.promised(&gang.vc)))
}
