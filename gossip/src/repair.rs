//! Anti-entropy: finds out what push did not bring, and asks for it.
//!
//! Every probe and answer carries the digest of all records, so two links notice a difference
//! within a second, at no cost of its own. A difference that push is about to remove is left
//! alone; one that stays is looked into: sums of buckets, then versions, then records.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::time::Time;

use crate::frame::{Digest, Summary};
use crate::member::MemberId;
use crate::record::{RecordKey, Version};
use crate::store::{Store, bucket};

/// Between two looks at one link, ms.
const LOOK_MS: u64 = 500;
/// A difference that keeps changing is looked into after this, ms.
const CHANGING_MS: u64 = 3_000;
/// Versions in one summary; what does not fit is left for the next.
pub(crate) const SUMMARY_MAX: usize = 8_192;
/// Bytes of records that one exchange may bring; the next brings more.
pub(crate) const EXCHANGE_BYTES_MAX: usize = 4 << 20;

/// What is known of differences, by link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repair {
    links: BTreeMap<MemberId, Difference>,
    /// Links that were compared once: at the first meeting a difference is nobody's push.
    met: BTreeSet<MemberId>,
}

#[derive(Clone, Copy, Debug)]
struct Difference {
    mine: u64,
    theirs: u64,
    since: Time,
    looked: Option<Time>,
}

/// What a summary shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Newer here, or missing there.
    pub(crate) give: Vec<RecordKey>,
    /// Newer there.
    pub(crate) want: Vec<RecordKey>,
}

impl Repair {
    /// A link told its digest. Whether to send it ours, by bucket.
    pub(crate) fn compare(&mut self, now: Time, from: MemberId, mine: u64, theirs: u64) -> bool {
        let first = self.met.insert(from);
        if mine == theirs {
            self.links.remove(&from);
            return false;
        }
        if first {
            return self.back(now, from, mine, theirs);
        }
        let fresh = Difference {
            mine,
            theirs,
            since: now,
            looked: None,
        };
        let Some(known) = self.links.get_mut(&from) else {
            self.links.insert(from, fresh);
            return false;
        };
        let rested = known
            .looked
            .is_none_or(|at| now.micros_since(at) >= LOOK_MS * 1000);
        let stays = (known.mine, known.theirs) == (mine, theirs)
            || now.micros_since(known.since) >= CHANGING_MS * 1000;
        (known.mine, known.theirs) = (mine, theirs);
        let look = stays && rested;
        if look {
            known.looked = Some(now);
            known.since = now;
        }
        look
    }

    /// A link that was gone is back: looks at once.
    pub(crate) fn back(&mut self, now: Time, from: MemberId, mine: u64, theirs: u64) -> bool {
        if mine == theirs {
            return false;
        }
        let rested = self.links.get(&from).and_then(|known| known.looked);
        if rested.is_some_and(|at| now.micros_since(at) < LOOK_MS * 1000) {
            return false;
        }
        self.links.insert(
            from,
            Difference {
                mine,
                theirs,
                since: now,
                looked: Some(now),
            },
        );
        true
    }

    /// Forgets all but these.
    pub(crate) fn retain(&mut self, keep: impl Fn(MemberId) -> bool) {
        self.links.retain(|member, _| keep(*member));
        self.met.retain(|member| keep(*member));
    }
}

/// What there is in the buckets where another's digest differs; `None` if none does.
pub(crate) fn summary(store: &Store, theirs: &Digest) -> Option<Summary> {
    let differ = |(mine, theirs): (&u64, &u64)| mine != theirs;
    let pairs = store.buckets().iter().zip(&theirs.buckets);
    let differs: Vec<bool> = pairs.map(differ).collect();
    let buckets: Vec<u16> = (0..)
        .zip(&differs)
        .filter_map(|(at, differs)| differs.then_some(at))
        .collect();
    if buckets.is_empty() {
        return None;
    }
    let inside = |key: RecordKey| differs.get(bucket(key)) == Some(&true);
    let records = store.all().filter(|record| inside(record.key));
    let versions: Vec<_> = records.map(|record| (record.key, record.version)).collect();
    Some(shorten(Summary { buckets, versions }))
}

/// Leaves out whole buckets, so that what is missing in the others is known to be missing.
fn shorten(mut summary: Summary) -> Summary {
    while summary.versions.len() > SUMMARY_MAX && summary.buckets.len() > 1 {
        let half = summary.buckets.len() / 2;
        let out = summary.buckets.split_off(half);
        let is_out = |key: RecordKey| {
            u16::try_from(bucket(key)).is_ok_and(|at| out.binary_search(&at).is_ok())
        };
        summary.versions.retain(|(key, _)| !is_out(*key));
    }
    summary
}

/// Compares another's summary with what there is here.
pub(crate) fn compare(store: &Store, theirs: &Summary) -> Found {
    let mut found = Found::default();
    let listed: BTreeMap<_, _> = theirs.versions.iter().copied().collect();
    for (key, version) in &listed {
        if store.version(*key) < *version && store.has_room(*key) {
            found.want.push(*key);
        }
    }
    let inside =
        |key: RecordKey| u16::try_from(bucket(key)).is_ok_and(|at| theirs.buckets.contains(&at));
    for record in store.all().filter(|record| inside(record.key)) {
        if listed.get(&record.key).is_none_or(|v| *v < record.version) {
            found.give.push(record.key);
        }
    }
    if found == Found::default() {
        found.give = ties(store, theirs);
    }
    found
}

/// What differs although all versions are the same: a node that lost its disk, or a clone, used
/// a version again. Whoever gets these keeps the one that all keep.
fn ties(store: &Store, theirs: &Summary) -> Vec<RecordKey> {
    let same = |(key, version): &&(RecordKey, Version)| {
        let known = store.get(*key);
        known.is_some_and(|known| known.version == *version)
    };
    let keys = theirs.versions.iter().filter(same).map(|(key, _)| *key);
    keys.collect()
}

#[cfg(test)]
mod tests;
