//! How far a version has come on all nodes, as far as this node knows.

use std::collections::BTreeMap;

use muster_model::time::Time;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::input::DocumentsOutput;
use super::link::Links;
use crate::frame::{Coverage, DocumentFrame, DocumentRef};
use crate::member::MemberId;

/// Changes within so long are passed on together, ms.
const PASS_ON_MS: u64 = 60;

/// Coverage that has not changed for so long is compared with others', ms.
const SETTLE_MS: u64 = 250;

/// What a node may have done with a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CoverStep {
    Valid,
    Rejected,
    Active,
}

/// How far a version has come on all nodes. Bits are only ever added, so nodes that hear of each
/// other end up with the same.
#[derive(Clone, Debug, Default)]
pub(super) struct VersionCover {
    known: Coverage,
    /// The digest of that.
    current: u64,
    /// The digest of what a link is known to know.
    links: BTreeMap<MemberId, u64>,
    due: Option<Time>,
    /// The digest of what has settled.
    digest: u64,
    settles_at: Option<Time>,
}

impl VersionCover {
    pub(super) fn new(document: DocumentRef) -> Self {
        let document = Some(document);
        Self {
            known: Coverage {
                document,
                ..Coverage::default()
            },
            ..Self::default()
        }
    }

    pub(super) fn coverage(&self) -> &Coverage {
        &self.known
    }

    /// Equal on nodes that know the same; 0 if nothing is known. What is changing is left out for
    /// a while: that neighbours differ in the middle of a wave means nothing.
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    pub(super) fn set(&mut self, step: CoverStep, member: MemberId, now: Time) {
        let bits = match step {
            CoverStep::Valid => &mut self.known.valid,
            CoverStep::Rejected => &mut self.known.rejected,
            CoverStep::Active => &mut self.known.active,
        };
        let byte = member.index() / 8;
        if bits.len() <= byte {
            bits.resize(byte + 1, 0);
        }
        bits[byte] |= 1 << (member.0 % 8);
        self.changed(now);
    }

    /// Takes over what a link knows.
    pub(super) fn merge(&mut self, from: MemberId, other: &Coverage, now: Time) {
        self.hear(other, now);
        let theirs = digest(other);
        self.links.insert(from, theirs);
        if theirs != self.current {
            self.differs(now);
        }
    }

    /// Takes over what somebody knows.
    pub(super) fn hear(&mut self, other: &Coverage, now: Time) {
        let mine = &mut self.known;
        let more = merge(&mut mine.valid, &other.valid)
            | merge(&mut mine.rejected, &other.rejected)
            | merge(&mut mine.active, &other.active);
        if more {
            self.changed(now);
        }
    }

    /// What this link knows is not known.
    pub(super) fn forget(&mut self, link: MemberId, now: Time) {
        self.links.remove(&link);
        self.differs(now);
    }

    /// Only these are links from now on.
    pub(super) fn retain(&mut self, links: &Links, now: Time) {
        self.links.retain(|member, _| links.contains(*member));
        self.differs(now);
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        [self.due, self.settles_at].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Time, links: &Links, out: &mut Vec<DocumentsOutput>) {
        if self.settles_at.is_some_and(|at| at <= now) {
            self.settles_at = None;
            self.digest = self.current;
        }
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.pass_on(links, out);
        }
    }

    /// Tells the links that do not know what is known here.
    fn pass_on(&mut self, links: &Links, out: &mut Vec<DocumentsOutput>) {
        if self.current == 0 {
            return;
        }
        for to in links.members() {
            if self.links.insert(to, self.current) != Some(self.current) {
                out.push(DocumentsOutput::stream(
                    to,
                    DocumentFrame::Coverage(self.known.clone()),
                ));
            }
        }
    }

    fn changed(&mut self, now: Time) {
        self.current = digest(&self.known);
        self.settles_at = Some(now.plus_millis(SETTLE_MS));
        self.differs(now);
    }

    fn differs(&mut self, now: Time) {
        self.due.get_or_insert_with(|| now.plus_millis(PASS_ON_MS));
    }
}

/// Adds bits; whether some are new.
fn merge(bits: &mut Vec<u8>, other: &[u8]) -> bool {
    let other = trimmed(other);
    if bits.len() < other.len() {
        bits.resize(other.len(), 0);
    }
    bits.iter_mut()
        .zip(other)
        .fold(false, |more, (mine, other)| {
            let new = other & !*mine != 0;
            *mine |= other;
            more | new
        })
}

/// Without the bytes that say nothing.
fn trimmed(bits: &[u8]) -> &[u8] {
    let end = bits
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    &bits[..end]
}

fn digest(coverage: &Coverage) -> u64 {
    let bits = [&coverage.valid, &coverage.rejected, &coverage.active];
    if bits.iter().all(|bits| trimmed(bits).is_empty()) {
        return 0;
    }
    let document = coverage.document.map_or(0, |document| {
        document.version ^ (u64::from(document.id.0) << 48)
    });
    bits.iter().fold(document, |seed, bits| {
        xxh3_64_with_seed(trimmed(bits), seed.rotate_left(7))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::DocumentId;

    const LINK: MemberId = MemberId(9);

    fn cover() -> VersionCover {
        VersionCover::new(DocumentRef {
            id: DocumentId(1),
            version: 3,
        })
    }

    fn links() -> Links {
        let mut links = Links::default();
        links.set(&[LINK]);
        links
    }

    fn sent(cover: &mut VersionCover, now: Time) -> Option<Coverage> {
        let mut out = Vec::new();
        cover.tick(now, &links(), &mut out);
        match out.pop() {
            Some(DocumentsOutput::Send {
                frame: DocumentFrame::Coverage(coverage),
                ..
            }) => Some(coverage),
            _ => None,
        }
    }

    #[test]
    fn changes_are_passed_on_together_and_once() {
        let (mut cover, start) = (cover(), Time::from_millis(0));
        cover.set(CoverStep::Valid, MemberId(0), start);
        cover.set(CoverStep::Valid, MemberId(12), Time::from_millis(30));
        assert_eq!(cover.deadline(), Some(Time::from_millis(60)));
        assert_eq!(sent(&mut cover, Time::from_millis(59)), None);
        let coverage = sent(&mut cover, Time::from_millis(60)).unwrap();
        assert_eq!(coverage.valid, [1, 16]);
        cover.set(CoverStep::Valid, MemberId(12), Time::from_millis(70));
        assert_eq!(sent(&mut cover, Time::from_millis(200)), None);
        cover.forget(LINK, Time::from_millis(200));
        assert!(sent(&mut cover, Time::from_millis(300)).is_some());
    }

    #[test]
    fn a_digest_waits_until_nothing_changes() {
        let (mut cover, links, mut out) = (cover(), links(), Vec::new());
        cover.set(CoverStep::Valid, MemberId(0), Time::from_millis(0));
        cover.set(CoverStep::Valid, MemberId(1), Time::from_millis(200));
        cover.tick(Time::from_millis(300), &links, &mut out);
        assert_eq!(cover.digest(), 0);
        assert_eq!(cover.deadline(), Some(Time::from_millis(450)));
        cover.tick(Time::from_millis(450), &links, &mut out);
        assert_ne!(cover.digest(), 0);
        assert_eq!(cover.deadline(), None);
    }

    #[test]
    fn a_link_that_knows_less_is_told_and_one_that_knows_the_same_is_not() {
        let (mut mine, mut other, now) = (cover(), cover(), Time::from_millis(0));
        mine.set(CoverStep::Active, MemberId(3), now);
        other.set(CoverStep::Rejected, MemberId(700), now);
        mine.merge(LINK, other.coverage(), now);
        assert_ne!(mine.current, other.current);
        let union = sent(&mut mine, Time::from_millis(100)).unwrap();
        other.merge(LINK, &union, now);
        assert_eq!(mine.current, other.current);
        assert_eq!(sent(&mut other, Time::from_millis(100)), None);
    }

    #[test]
    fn equal_knowledge_has_equal_digests_however_it_is_written() {
        let (mut short, mut long) = (cover(), cover());
        short.set(CoverStep::Valid, MemberId(1), Time::from_millis(0));
        let mut padded = short.coverage().clone();
        padded.valid.resize(500, 0);
        long.merge(LINK, &padded, Time::from_millis(0));
        assert_eq!(short.current, long.current);
        assert_eq!(long.coverage().valid, [2]);
        let empty = cover();
        assert_eq!(empty.current, 0);
        assert_ne!(short.current, 0);
    }
}
