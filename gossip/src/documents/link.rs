//! The members that bodies are fetched from, and what they were asked for.

use std::collections::BTreeMap;

use muster_model::time::Time;

use super::chunk_set::ChunkSet;
use crate::frame::DocumentRef;
use crate::member::MemberId;

/// Chunks that a link is asked for at a time.
const ASKED_MAX: usize = 4;
/// A chunk that takes longer than this, and than four times what is usual, is asked for
/// elsewhere, ms.
const LATE_MS: u64 = 250;
/// After so long a chunk comes no more, ms.
const LOST_MS: u64 = 10_000;
/// Who sent something wrong is not asked for so long, ms: it may be the only one who has it, and a
/// bit may have flipped on the way. Each time again twice as long, ...
const AVOID_MS: u64 = 1_000;
/// ... up to this, ms.
const AVOID_MS_MAX: u64 = 60_000;

/// A chunk that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestedChunk {
    pub(super) document: DocumentRef,
    pub(super) chunk: usize,
    at: Time,
    late: bool,
}

impl RequestedChunk {
    /// When the wait for it is over, or, if it is late, given up.
    fn over_at(&self, patience_us: u64) -> Time {
        match self.late {
            false => Time(self.at.0.saturating_add(patience_us)),
            true => self.at.plus_millis(LOST_MS),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct DocumentLink {
    asked: Vec<RequestedChunk>,
    /// How long it usually takes for a chunk, µs; 0 if unknown.
    pace_us: u64,
}

impl DocumentLink {
    fn busy(&self) -> usize {
        self.asked.iter().filter(|asked| !asked.late).count()
    }

    fn patience_us(&self) -> u64 {
        (LATE_MS * 1_000).max(4 * self.pace_us)
    }
}

/// The members that bodies are fetched from.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    links: BTreeMap<MemberId, DocumentLink>,
    avoided: BTreeMap<MemberId, Avoided>,
}

/// Who sent something wrong.
#[derive(Clone, Copy, Debug)]
struct Avoided {
    until: Time,
    /// How often it did.
    times: u32,
}

impl Links {
    /// These are the links from now on; those that were none before.
    pub(super) fn set(&mut self, members: &[MemberId]) -> Vec<MemberId> {
        self.links.retain(|member, _| members.contains(member));
        let new = |member: &&MemberId| !self.links.contains_key(member);
        let new: Vec<_> = members.iter().filter(new).copied().collect();
        self.links
            .extend(new.iter().map(|member| (*member, DocumentLink::default())));
        new
    }

    pub(super) fn members(&self) -> impl Iterator<Item = MemberId> {
        self.links.keys().copied()
    }

    pub(super) fn contains(&self, member: MemberId) -> bool {
        self.links.contains_key(&member)
    }

    /// Whether it may be asked for anything.
    pub(super) fn is_good(&self, member: MemberId, now: Time) -> bool {
        let avoided = self.avoided.get(&member);
        self.contains(member) && avoided.is_none_or(|avoided| avoided.until <= now)
    }

    /// It sent something wrong.
    pub(super) fn avoid(&mut self, member: MemberId, now: Time) {
        let Some(link) = self.links.get_mut(&member) else {
            return;
        };
        link.asked.clear();
        // Kept for a while after, so that it counts how often.
        let is_fresh = |avoided: &Avoided| now.micros_since(avoided.until) < AVOID_MS_MAX * 1000;
        self.avoided.retain(|_, avoided| is_fresh(avoided));
        let times = self.avoided.get(&member).map_or(0, |known| known.times);
        let pause = (AVOID_MS << times.min(10)).min(AVOID_MS_MAX);
        let avoided = Avoided {
            until: now.plus_millis(pause),
            times: times.saturating_add(1),
        };
        self.avoided.insert(member, avoided);
    }

    /// The chunks of this body that are on their way.
    pub(super) fn in_flight(&self, document: DocumentRef) -> ChunkSet {
        let mut set = ChunkSet::default();
        let asked = self.links.values().flat_map(|link| &link.asked);
        asked
            .filter(|asked| asked.document == document && !asked.late)
            .for_each(|asked| set.insert(asked.chunk));
        set
    }

    /// The one of these that has least to do, if it can do more; ties go by `salt`.
    pub(super) fn freest(
        &self,
        members: impl Iterator<Item = MemberId>,
        salt: u64,
    ) -> Option<MemberId> {
        let busy = |member: &MemberId| self.links.get(member).map(DocumentLink::busy);
        members
            .filter_map(|member| busy(&member).map(|busy| (busy, mix(salt, member.0), member)))
            .filter(|(busy, ..)| *busy < ASKED_MAX)
            .min()
            .map(|(.., member)| member)
    }

    /// It is asked for this chunk.
    pub(super) fn ask(&mut self, member: MemberId, document: DocumentRef, chunk: usize, now: Time) {
        if let Some(link) = self.links.get_mut(&member) {
            link.asked
                .retain(|asked| (asked.document, asked.chunk) != (document, chunk));
            link.asked.push(RequestedChunk {
                document,
                chunk,
                at: now,
                late: false,
            });
        }
    }

    /// It sent this chunk: whether it was asked to.
    pub(super) fn answered(
        &mut self,
        member: MemberId,
        document: DocumentRef,
        chunk: usize,
        now: Time,
    ) -> bool {
        let Some(link) = self.links.get_mut(&member) else {
            return false;
        };
        let mut asked = link.asked.iter();
        let Some(at) = asked.position(|asked| (asked.document, asked.chunk) == (document, chunk))
        else {
            return false;
        };
        let took_us = now.micros_since(link.asked.swap_remove(at).at);
        link.pace_us = match link.pace_us {
            0 => took_us,
            usual => (7 * usual + took_us) / 8,
        };
        true
    }

    /// It does not have this body.
    pub(super) fn lacks(&mut self, member: MemberId, document: DocumentRef) {
        if let Some(link) = self.links.get_mut(&member) {
            link.asked.retain(|asked| asked.document != document);
        }
    }

    /// This body is not wanted any more.
    pub(super) fn forget(&mut self, document: DocumentRef) {
        for link in self.links.values_mut() {
            link.asked.retain(|asked| asked.document != document);
        }
    }

    /// What did not come in time.
    pub(super) fn late(&mut self, now: Time) -> Vec<(MemberId, RequestedChunk)> {
        let mut late = Vec::new();
        for (member, link) in &mut self.links {
            let patience_us = link.patience_us();
            link.asked.retain_mut(|asked| {
                let over = asked.over_at(patience_us) <= now;
                if over && !asked.late {
                    asked.late = true;
                    late.push((*member, *asked));
                    return true;
                }
                !over
            });
        }
        late
    }

    /// When something will be late.
    pub(super) fn deadline(&self) -> Option<Time> {
        let over_at = |link: &DocumentLink| {
            let patience_us = link.patience_us();
            link.asked
                .iter()
                .map(|asked| asked.over_at(patience_us))
                .min()
        };
        self.links.values().filter_map(over_at).min()
    }
}

/// Spreads choices: different nodes and chunks get different numbers.
pub(super) fn mix(salt: u64, number: u32) -> u64 {
    let mut mixed = (salt ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= mixed >> 29;
    mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 32)
}
