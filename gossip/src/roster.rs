//! Who is a member, and who watches whom: five rings.

mod absent;
mod watchers;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::key::NodeKey;
use crate::member::MemberId;
use crate::member_set::MemberSet;
use crate::record::{AdmissionState, MemberBody};

pub use absent::Absent;
pub use watchers::Watchers;

/// Rings, and so watchers of a member where there are members enough.
pub const RINGS: usize = 5;
/// Most that a watcher looks after in one ring because those before them are lost.
pub(crate) const BEYOND_MAX: usize = 32;
/// How far a ring is searched for a watcher in another rack before the nearest one is taken.
const RACK_SEARCH: usize = 8;

/// The members in the order of each ring. A ring is the admitted members sorted by a hash of ring
/// and key, so an admission changes two neighbours a ring and everybody computes the same.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    bodies: Vec<Option<Arc<MemberBody>>>,
    by_key: BTreeMap<NodeKey, MemberId>,
    racks: Racks,
    rings: [Vec<RingPosition>; RINGS],
    /// The members of each ring alone, in few bytes: rings are walked along very often.
    orders: [Vec<MemberId>; RINGS],
    /// By member: where it is in each ring.
    places: Vec<[u32; RINGS]>,
    /// By member: who watches it while nobody is lost, found when first asked for.
    usual: Vec<OnceLock<Watchers>>,
    /// By member: whom it watches then.
    usually_watched: Vec<OnceLock<Box<[MemberId]>>>,
    admitted: MemberSet,
}

/// Racks as numbers: they are compared often.
#[derive(Clone, Debug, Default)]
struct Racks {
    numbers: BTreeMap<String, u32>,
    by_member: Vec<u32>,
}

/// The rack of those that nobody said anything of: it is no rack.
const NO_RACK: u32 = 0;

impl Racks {
    fn set(&mut self, member: MemberId, name: &str) {
        if self.by_member.len() <= member.index() {
            self.by_member.resize(member.index() + 1, NO_RACK);
        }
        let next = u32::try_from(self.numbers.len() + 1).unwrap_or(NO_RACK);
        self.by_member[member.index()] = match name {
            "" => NO_RACK,
            name => *self.numbers.entry(name.to_owned()).or_insert(next),
        };
    }

    fn of(&self, member: MemberId) -> u32 {
        self.by_member
            .get(member.index())
            .copied()
            .unwrap_or(NO_RACK)
    }
}

/// A member's place in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RingPosition {
    hash: u64,
    member: MemberId,
}

impl Roster {
    /// The roster of these admissions.
    pub fn of(members: impl IntoIterator<Item = (MemberId, MemberBody)>) -> Self {
        let mut roster = Self::default();
        for (member, body) in members {
            if let Some(key) = roster.remember(member, body) {
                for (ring, places) in roster.rings.iter_mut().enumerate() {
                    places.push(RingPosition::new(ring, &key, member));
                }
            }
        }
        for places in &mut roster.rings {
            places.sort_unstable();
        }
        roster.settle();
        roster
    }

    /// Takes over an admission, or its end.
    pub fn set(&mut self, member: MemberId, body: MemberBody) {
        let before = self.body(member).map(|body| (body.key, body.state));
        if let Some((key, AdmissionState::Admitted)) = before {
            self.by_key.remove(&key);
            self.admitted.remove(member);
            for (ring, places) in self.rings.iter_mut().enumerate() {
                if let Ok(at) = places.binary_search(&RingPosition::new(ring, &key, member)) {
                    places.remove(at);
                }
            }
        }
        if let Some(key) = self.remember(member, body) {
            for (ring, places) in self.rings.iter_mut().enumerate() {
                let place = RingPosition::new(ring, &key, member);
                let at = places.partition_point(|other| *other < place);
                places.insert(at, place);
            }
        }
        self.settle();
    }

    /// Keeps a body; the key if it is of an admitted member, who then is missing in the rings.
    fn remember(&mut self, member: MemberId, body: MemberBody) -> Option<NodeKey> {
        if self.bodies.len() <= member.index() {
            self.bodies.resize(member.index() + 1, None);
        }
        let admitted = (body.state == AdmissionState::Admitted).then_some(body.key);
        if let Some(key) = admitted {
            self.by_key.insert(key, member);
            self.admitted.insert(member);
        }
        self.racks.set(member, &body.rack);
        self.bodies[member.index()] = Some(Arc::new(body));
        admitted
    }

    /// The rings have changed: whatever follows from them is found anew.
    fn settle(&mut self) {
        self.places.clear();
        self.places.resize(self.bodies.len(), [0; RINGS]);
        for (ring, places) in self.rings.iter().enumerate() {
            for (at, place) in (0..).zip(places) {
                self.places[place.member.index()][ring] = at;
            }
            self.orders[ring] = places.iter().map(|place| place.member).collect();
        }
        let members = self.bodies.len();
        self.usual.clear();
        self.usual.resize_with(members, OnceLock::new);
        self.usually_watched.clear();
        self.usually_watched.resize_with(members, OnceLock::new);
    }

    /// What is known of one ever admitted.
    pub fn body(&self, member: MemberId) -> Option<&MemberBody> {
        self.bodies.get(member.index())?.as_deref()
    }

    /// Whether it is a member now.
    pub fn is_admitted(&self, member: MemberId) -> bool {
        self.admitted.contains(member)
    }

    /// The member that has this key now.
    pub fn member_of(&self, key: &NodeKey) -> Option<MemberId> {
        self.by_key.get(key).copied()
    }

    /// The admitted, ascending.
    pub fn admitted(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.ever().filter(|member| self.is_admitted(*member))
    }

    /// All ever admitted, ascending.
    pub fn ever(&self) -> impl Iterator<Item = MemberId> + '_ {
        (0..)
            .map(MemberId)
            .zip(&self.bodies)
            .filter_map(|(member, body)| body.as_ref().map(|_| member))
    }

    /// How many are admitted.
    pub const fn len(&self) -> usize {
        self.admitted.len()
    }

    /// Whether nobody is admitted.
    pub const fn is_empty(&self) -> bool {
        self.admitted.is_empty()
    }

    /// Who watches `subject`: in each ring the nearest before it that is not chosen yet, in
    /// another rack if one is near. Where one of these is absent, the nearest before the subject
    /// that is left of this ring, chosen in the same way. At most [`RINGS`], by ring.
    pub fn watchers(&self, subject: MemberId, absent: &Absent) -> Watchers {
        let usual = self.usual_watchers(subject);
        if absent.is_empty() || usual.iter().all(|watcher| !absent.contains(*watcher)) {
            return *usual;
        }
        let mut chosen = Watchers::NOBODY;
        let there = usual.iter().filter(|watcher| !absent.contains(**watcher));
        there.for_each(|watcher| chosen.push(*watcher));
        for (ring, watcher) in usual.iter().enumerate() {
            if absent.contains(*watcher)
                && let Some(other) = self.stand_in(ring, subject, absent, &chosen)
            {
                chosen.push(other);
            }
        }
        chosen
    }

    /// Who watches `subject` while nobody is absent.
    pub(crate) fn usual_watchers(&self, subject: MemberId) -> &Watchers {
        if !self.is_admitted(subject) {
            return &Watchers::NOBODY;
        }
        let find = || {
            let mut chosen = Watchers::NOBODY;
            for ring in 0..RINGS {
                if let Some(nearest) = self.nearest(ring, subject, &chosen) {
                    chosen.push(nearest);
                }
            }
            chosen
        };
        let usual = self.usual.get(subject.index());
        usual.map_or(&Watchers::NOBODY, |usual| usual.get_or_init(find))
    }

    /// The watcher of `subject` in a ring while nobody is absent.
    fn nearest(&self, ring: usize, subject: MemberId, chosen: &[MemberId]) -> Option<MemberId> {
        self.choose(self.before(ring, subject), subject, chosen)
    }

    /// The members of a ring from the nearest before `subject` backwards, once around.
    fn before(&self, ring: usize, subject: MemberId) -> impl Iterator<Item = MemberId> + '_ {
        let (before, after) = self.orders[ring].split_at(self.place(ring, subject));
        before.iter().rev().chain(after.iter().rev()).copied()
    }

    /// Who watches `subject` in a ring instead of one that is absent.
    fn stand_in(
        &self,
        ring: usize,
        subject: MemberId,
        absent: &Absent,
        chosen: &[MemberId],
    ) -> Option<MemberId> {
        if let Some(left) = absent.left_before(ring, self.place(ring, subject)) {
            let order = &self.orders[ring];
            let members = left.filter_map(|at| order.get(at).copied());
            return self.choose(members, subject, chosen);
        }
        let before = self.before(ring, subject);
        self.choose(before.filter(|m| !absent.contains(*m)), subject, chosen)
    }

    /// The first of these that is not chosen yet, in a rack that is neither the subject's own nor
    /// that of one chosen, if one is near.
    fn choose(
        &self,
        before: impl Iterator<Item = MemberId>,
        subject: MemberId,
        chosen: &[MemberId],
    ) -> Option<MemberId> {
        let mut eligible = before.filter(|member| *member != subject && !chosen.contains(member));
        let first = eligible.next()?;
        let rack = self.racks.of(subject);
        let elsewhere = |member: &MemberId| {
            let theirs = self.racks.of(*member);
            theirs == NO_RACK
                || (theirs != rack && chosen.iter().all(|other| self.racks.of(*other) != theirs))
        };
        if elsewhere(&first) {
            return Some(first);
        }
        Some(eligible.take(RACK_SEARCH).find(elsewhere).unwrap_or(first))
    }

    fn place(&self, ring: usize, member: MemberId) -> usize {
        self.places
            .get(member.index())
            .map_or(0, |places| places[ring] as usize)
    }

    /// Whom `watcher` watches: those who have it among their watchers. Ascending.
    pub fn watched(&self, watcher: MemberId, absent: &Absent) -> Cow<'_, [MemberId]> {
        if !self.is_admitted(watcher) {
            return Cow::Borrowed(&[]);
        }
        if !absent.is_empty() {
            return Cow::Owned(self.find_watched(watcher, absent));
        }
        let find = || self.find_watched(watcher, absent).into_boxed_slice();
        let usual = self.usually_watched.get(watcher.index());
        Cow::Borrowed(usual.map_or(&[], |usual| usual.get_or_init(find)))
    }

    /// In each ring the next after `member` that `is_there`.
    pub fn next(&self, member: MemberId, is_there: impl Fn(MemberId) -> bool) -> Vec<MemberId> {
        let next = |(ring, order): (usize, &Vec<MemberId>)| {
            let at = (self.place(ring, member) + 1).min(order.len());
            let after = order[at..].iter().chain(&order[..at]).copied();
            let mut others = after.filter(|other| *other != member);
            others.find(|other| is_there(*other))
        };
        self.orders.iter().enumerate().filter_map(next).collect()
    }

    /// Whom `watcher` looks after besides, where those next to it in a ring are absent:
    /// half as many further on as it had to step over, so that an island finds out in few rounds
    /// how far the silence goes.
    pub fn beyond(&self, watcher: MemberId, absent: &Absent) -> BTreeSet<MemberId> {
        let mut beyond = BTreeSet::new();
        for (ring, order) in self.orders.iter().enumerate() {
            let at = (self.place(ring, watcher) + 1).min(order.len());
            let after = order[at..].iter().chain(&order[..at]).copied();
            let mut stepped_over = 0;
            let mut taken = 0;
            for member in after {
                if member == watcher || taken > stepped_over / 2 || taken == BEYOND_MAX {
                    break;
                }
                if absent.contains(member) {
                    stepped_over += 1;
                } else if stepped_over == 0 {
                    break;
                } else {
                    beyond.insert(member);
                    taken += 1;
                }
            }
        }
        beyond
    }

    fn find_watched(&self, watcher: MemberId, absent: &Absent) -> Vec<MemberId> {
        let mut watched = BTreeSet::new();
        for (ring, order) in self.orders.iter().enumerate() {
            let at = self.place(ring, watcher) + 1;
            let after = order[at..].iter().chain(&order[..at]).copied();
            let mut live = 0;
            for member in after {
                // Beyond this many that live, somebody nearer is always taken.
                if live > RINGS + RACK_SEARCH {
                    break;
                }
                live += usize::from(!absent.contains(member));
                if member != watcher
                    && !watched.contains(&member)
                    && self.watchers(member, absent).contains(&watcher)
                {
                    watched.insert(member);
                }
            }
        }
        watched.into_iter().collect()
    }
}

impl RingPosition {
    fn new(ring: usize, key: &NodeKey, member: MemberId) -> Self {
        Self {
            hash: xxh3_64_with_seed(&key.0, ring as u64),
            member,
        }
    }
}

#[cfg(test)]
mod tests;
