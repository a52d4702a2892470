//! Anti-entropy: finds out what push did not bring, and asks for it.
//!
//! Every probe and answer carries the digest of all records, so two links notice a difference
//! within a second, at no cost of its own. A difference that push is about to remove is left
//! alone; one that is still there when nothing was new for a moment is looked into: sums of
//! buckets, then versions, then records.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::time::Time;

use crate::frame::{BucketDigest, BucketSummary};
use crate::member::MemberId;
use crate::record::{RecordKey, RecordVersion};
use crate::store::{NewestRecords, bucket};

/// Between two looks at one link, ms.
const LOOK_MS: u64 = 500;
/// A difference stays if nothing was new here for so long: push would have removed it, ms.
const STAYS_MS: u64 = 100;
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
    /// The earliest look, if one is due.
    due: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Difference {
    /// What there was here when it was noticed.
    mine: u64,
    since: Time,
    look: Option<PlannedLook>,
    looked: Option<Time>,
}

/// A look that is to be taken.
#[derive(Clone, Copy, Debug)]
struct PlannedLook {
    at: Time,
    /// Also if something is new here by then.
    anyway: bool,
}

/// What a summary shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SummaryDiff {
    /// Newer here, or missing there.
    pub(crate) give: Vec<RecordKey>,
    /// Newer there.
    pub(crate) want: Vec<RecordKey>,
}

impl Repair {
    /// A link told its digest. `pause`: how long a first meeting is left alone, ms.
    pub(crate) fn compare(
        &mut self,
        now: Time,
        from: MemberId,
        (mine, theirs): (u64, u64),
        pause: u64,
    ) {
        let first = self.met.insert(from);
        if mine == theirs {
            self.links.remove(&from);
            return;
        }
        if first {
            return self.back(now, from, (mine, theirs), pause);
        }
        let known = self.links.entry(from).or_insert(Difference {
            mine,
            since: now,
            look: None,
            looked: None,
        });
        if known.look.is_some() || !known.is_rested(now) {
            return;
        }
        let long = now.micros_since(known.since) >= CHANGING_MS * 1000;
        let wait = if long { 0 } else { STAYS_MS };
        known.mine = mine;
        known.look = Some(PlannedLook {
            at: now.plus_millis(wait),
            anyway: long,
        });
        self.due = earlier(self.due, now.plus_millis(wait));
    }

    /// A link that was gone is back: looks after `pause` ms, whatever is new here by then.
    pub(crate) fn back(
        &mut self,
        now: Time,
        from: MemberId,
        (mine, theirs): (u64, u64),
        pause: u64,
    ) {
        self.met.insert(from);
        if mine == theirs {
            self.links.remove(&from);
            return;
        }
        let known = self.links.get(&from);
        if known.is_some_and(|known| !known.is_rested(now)) {
            return;
        }
        let at = now.plus_millis(pause);
        let difference = Difference {
            mine,
            since: now,
            look: Some(PlannedLook { at, anyway: true }),
            looked: known.and_then(|known| known.looked),
        };
        self.links.insert(from, difference);
        self.due = earlier(self.due, at);
    }

    /// Whom to send the digest by bucket now, the longest difference first; `mine` is the digest of
    /// all that is here.
    pub(crate) fn looks(&mut self, now: Time, mine: u64) -> Vec<MemberId> {
        if self.due.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let mut looks = Vec::new();
        for (member, known) in &mut self.links {
            let Some(look) = known.look.filter(|look| look.at <= now) else {
                continue;
            };
            known.look = None;
            if look.anyway || known.mine == mine {
                looks.push((known.since, *member));
            }
        }
        self.settle();
        looks.sort_unstable();
        looks.into_iter().map(|(_, member)| member).collect()
    }

    /// The look was taken.
    pub(crate) fn looked(&mut self, now: Time, member: MemberId) {
        if let Some(known) = self.links.get_mut(&member) {
            known.looked = Some(now);
            known.since = now;
        }
    }

    /// There were too many looks: this one is taken `at` then, before those of later differences.
    pub(crate) fn postpone(&mut self, member: MemberId, at: Time) {
        if let Some(known) = self.links.get_mut(&member) {
            known.look = Some(PlannedLook { at, anyway: true });
            self.due = earlier(self.due, at);
        }
    }

    /// When [`Repair::looks`] is due.
    pub(crate) const fn deadline(&self) -> Option<Time> {
        self.due
    }

    /// Forgets all but these.
    pub(crate) fn retain(&mut self, keep: impl Fn(MemberId) -> bool) {
        self.links.retain(|member, _| keep(*member));
        self.met.retain(|member| keep(*member));
        self.settle();
    }

    fn settle(&mut self) {
        let looks = self.links.values().filter_map(|known| known.look);
        self.due = looks.map(|look| look.at).min();
    }
}

impl Difference {
    fn is_rested(&self, now: Time) -> bool {
        let rested = |at| now.micros_since(at) >= LOOK_MS * 1000;
        self.looked.is_none_or(rested)
    }
}

fn earlier(known: Option<Time>, other: Time) -> Option<Time> {
    Some(known.map_or(other, |at| at.min(other)))
}

/// What there is in the buckets where another's digest differs; `None` if none does.
pub(crate) fn summary(store: &NewestRecords, theirs: &BucketDigest) -> Option<BucketSummary> {
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
    Some(shorten(BucketSummary { buckets, versions }))
}

/// Leaves out whole buckets, so that what is missing in the others is known to be missing.
fn shorten(mut summary: BucketSummary) -> BucketSummary {
    while summary.versions.len() > SUMMARY_MAX && summary.buckets.len() > 1 {
        let half = summary.buckets.len() / 2;
        let out = summary.buckets.split_off(half);
        let is_out = |key: RecordKey| {
            u16::try_from(bucket(key)).is_ok_and(|at| out.binary_search(&at).is_ok())
        };
        summary.versions.retain(|(key, _)| !is_out(*key));
    }
    // It may wait for long until it is sent.
    summary.versions.shrink_to_fit();
    summary
}

/// Compares another's summary with what there is here.
pub(crate) fn compare(store: &NewestRecords, theirs: &BucketSummary) -> SummaryDiff {
    let mut found = SummaryDiff::default();
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
    if found == SummaryDiff::default() {
        found.give = ties(store, theirs);
    }
    found
}

/// What differs although all versions are the same: a node that lost its disk, or a clone, used
/// a version again. Whoever gets these keeps the one that all keep.
fn ties(store: &NewestRecords, theirs: &BucketSummary) -> Vec<RecordKey> {
    let same = |(key, version): &&(RecordKey, RecordVersion)| {
        let known = store.get(*key);
        known.is_some_and(|known| known.version == *version)
    };
    let keys = theirs.versions.iter().filter(same).map(|(key, _)| *key);
    keys.collect()
}

#[cfg(test)]
mod tests;
