//! What is on its way: orders to machines, and what those tell. Of two with one address the newer one
//! replaces the older.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};

use muster_control::gang::{GangId, GangRun};
use muster_control::order::{GangCommand, Order, Tell};

use super::part::Part;

/// An order on its way.
#[derive(Clone, Debug)]
pub(super) struct SentOrder {
    /// Whose.
    pub(super) term: u64,
    /// To which machine.
    pub(super) at: usize,
    pub(super) order: Order,
}

/// Something told, on its way.
#[derive(Clone, Debug)]
pub(super) struct SentTell {
    /// By which machine.
    pub(super) at: usize,
    /// To whose leader.
    pub(super) term: u64,
    pub(super) tell: Tell,
}

/// What can be on its way.
pub(super) trait Letter {
    /// Two with the same are not on their way at the same time, and it says which comes first in a list.
    type Slot<'a>: Ord + Debug
    where
        Self: 'a;

    fn slot(&self) -> Self::Slot<'_>;
}

impl Letter for SentOrder {
    /// About which gang, and of which run it clears something away, if it does: a machine that was given
    /// both in turn is where it would be had the older one come at once.
    type Slot<'a> = (u64, usize, &'a GangId, Option<&'a GangRun>);

    fn slot(&self) -> Self::Slot<'_> {
        let run = &self.order.run;
        let clears = matches!(self.order.command, GangCommand::Settle { .. });
        (self.term, self.at, &run.gang, clears.then_some(run))
    }
}

impl Letter for SentTell {
    /// About which gang; a report if about none.
    type Slot<'a> = (usize, u64, Option<&'a GangId>);

    fn slot(&self) -> Self::Slot<'_> {
        let gang = match &self.tell {
            Tell::Answer(answer) => Some(&answer.run.gang),
            Tell::Report(_) => None,
        };
        (self.at, self.term, gang)
    }
}

/// Letters in the order of their slots.
#[derive(Clone, Debug)]
pub(super) struct Mail<T>(Vec<Part<T>>);

impl<T> PartialEq for Mail<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Hash for Mail<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

impl<T> Default for Mail<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Letter> Mail<T> {
    pub(super) fn put(&mut self, letter: Part<T>) {
        match self.0.binary_search_by(|it| it.slot().cmp(&letter.slot())) {
            Ok(place) => self.0[place] = letter,
            Err(place) => {
                self.0.reserve_exact(1);
                self.0.insert(place, letter);
            }
        }
    }
}

impl<T> Mail<T> {
    pub(super) fn all(&self) -> &[Part<T>] {
        &self.0
    }

    pub(super) fn retain(&mut self, meant: impl Fn(&T) -> bool) {
        self.0.retain(|letter| meant(letter));
    }

    pub(super) fn take(&mut self, nth: usize) -> Part<T> {
        self.0.remove(nth)
    }
}
