//! How one body is fetched: who offers what, whom to ask, whom to tell.

use std::collections::BTreeMap;

use muster_model::time::Time;

use super::chunk_set::ChunkSet;
use super::holding::BodyHolding;
use super::input::DocumentsOutput;
use super::link::{Links, mix};
use crate::frame::{CHUNKS_MAX, DocumentFrame, DocumentRef};
use crate::member::MemberId;

/// What arrives within so long is announced together, ms.
const ANNOUNCE_MS: u64 = 3;
/// Links that are asked for the list of chunks at a time.
const LIST_ASKED_MAX: usize = 2;
/// A list that takes longer is asked for elsewhere, ms.
const LIST_LATE_MS: u64 = 150;
/// Links are asked again what they have after this, then after twice that, ms.
const ASK_AGAIN_MS: u64 = 300;
/// And so on up to this, ms.
const ASK_AGAIN_MS_MAX: u64 = 30_000;

/// What a link has, as far as is known, and what it knows of this node.
#[derive(Clone, Copy, Debug, Default)]
struct Offer {
    /// It has the list.
    lists: bool,
    /// It has these chunks.
    have: ChunkSet,
    /// It was told that these are here; `None` if it was told nothing.
    told: Option<ChunkSet>,
}

/// How one body is fetched and passed on.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    document: DocumentRef,
    /// Of this node: no two choose the same order.
    salt: u64,
    offers: BTreeMap<MemberId, Offer>,
    list_asked: BTreeMap<MemberId, Time>,
    list_late_at: Option<Time>,
    ask_at: Option<Time>,
    ask_wait_ms: u64,
    announce_at: Option<Time>,
}

impl Fetch {
    pub(super) fn new(me: MemberId, document: DocumentRef) -> Self {
        Self {
            document,
            salt: mix(document.version, me.0),
            offers: BTreeMap::new(),
            list_asked: BTreeMap::new(),
            list_late_at: None,
            ask_at: None,
            ask_wait_ms: ASK_AGAIN_MS,
            announce_at: None,
        }
    }

    /// Asks these links what they have, and again later.
    pub(super) fn ask(
        &mut self,
        now: Time,
        members: impl Iterator<Item = MemberId>,
        out: &mut Vec<DocumentsOutput>,
    ) {
        let (document, chunks) = (self.document, Vec::new());
        let ask = DocumentFrame::Have { document, chunks };
        out.extend(members.map(|to| DocumentsOutput::stream(to, ask.clone())));
        self.ask_at = Some(now.plus_millis(self.ask_wait_ms));
    }

    /// Nothing is wanted any more.
    pub(super) fn stop(&mut self) {
        self.ask_at = None;
        self.list_late_at = None;
        self.list_asked.clear();
    }

    /// Only these are links from now on.
    pub(super) fn retain(&mut self, links: &Links) {
        self.offers.retain(|member, _| links.contains(*member));
        self.list_asked.retain(|member, _| links.contains(*member));
    }

    /// It has the list and these chunks.
    pub(super) fn offered(&mut self, member: MemberId, have: ChunkSet) {
        let offer = self.offers.entry(member).or_default();
        offer.lists = true;
        offer.have = have;
        self.ask_wait_ms = ASK_AGAIN_MS;
    }

    /// It has nothing, or is not to be asked.
    pub(super) fn withdrawn(&mut self, member: MemberId) {
        if let Some(offer) = self.offers.get_mut(&member) {
            offer.lists = false;
            offer.have = ChunkSet::default();
        }
        self.list_asked.remove(&member);
    }

    /// This chunk did not come from it in time.
    pub(super) fn late(&mut self, member: MemberId, chunk: usize) {
        if let Some(offer) = self.offers.get_mut(&member) {
            offer.have.remove(chunk);
        }
    }

    /// Whether it was asked for the list.
    pub(super) fn waits_for_list(&self, member: MemberId) -> bool {
        self.list_asked.contains_key(&member)
    }

    /// It asked what is here: it is told at once, and, if it is a link, of all that comes.
    pub(super) fn answer(
        &mut self,
        member: MemberId,
        holding: &BodyHolding,
        links: &Links,
        out: &mut Vec<DocumentsOutput>,
    ) {
        if !is_news(holding) {
            return;
        }
        if links.contains(member) {
            self.offers.entry(member).or_default().told = Some(holding.have());
        }
        out.push(self.have(member, holding));
    }

    /// More is here than before.
    pub(super) fn grown(&mut self, now: Time) {
        let at = || now.plus_millis(ANNOUNCE_MS);
        self.announce_at.get_or_insert_with(at);
    }

    /// Asks for whatever is missing and offered.
    pub(super) fn pump(
        &mut self,
        now: Time,
        holding: &BodyHolding,
        links: &mut Links,
        out: &mut Vec<DocumentsOutput>,
    ) {
        if holding.list().is_none() {
            return self.ask_list(now, links, out);
        }
        let wanted = holding.missing().minus(links.in_flight(self.document));
        for chunk in self.rarest_first(wanted) {
            let offers = self
                .offers
                .iter()
                .filter(|(_, offer)| offer.have.contains(chunk));
            let members = offers.map(|(member, _)| *member);
            let good = members.filter(|member| links.is_good(*member, now));
            if let Some(to) = links.freest(good, mix(self.salt, number(chunk))) {
                links.ask(to, self.document, chunk, now);
                out.push(DocumentsOutput::stream(to, self.get_chunk(chunk)));
            }
        }
    }

    /// Does what is due.
    pub(super) fn tick(
        &mut self,
        now: Time,
        holding: &BodyHolding,
        links: &mut Links,
        out: &mut Vec<DocumentsOutput>,
    ) {
        if self.announce_at.is_some_and(|at| at <= now) {
            self.announce_at = None;
            self.announce(holding, links, out);
        }
        if self.ask_at.is_some_and(|at| at <= now) {
            self.ask_again(now, holding, links, out);
        }
        if self.list_late_at.is_some_and(|at| at <= now) {
            self.list_late_at = None;
            self.ask_list(now, links, out);
        }
    }

    /// When [`Fetch::tick`] is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        let due = [self.announce_at, self.ask_at, self.list_late_at];
        due.into_iter().flatten().min()
    }

    /// Tells every link what it does not know and may want.
    fn announce(&mut self, holding: &BodyHolding, links: &Links, out: &mut Vec<DocumentsOutput>) {
        if !is_news(holding) {
            return;
        }
        let have = holding.have();
        let all = ChunkSet::first(holding.count());
        for to in links.members() {
            let offer = self.offers.entry(to).or_default();
            let complete = offer.lists && offer.have == all;
            if !complete && offer.told != Some(have) {
                offer.told = Some(have);
                out.push(self.have(to, holding));
            }
        }
    }

    /// Asks again, more and more seldom, unless chunks are coming in.
    fn ask_again(
        &mut self,
        now: Time,
        holding: &BodyHolding,
        links: &mut Links,
        out: &mut Vec<DocumentsOutput>,
    ) {
        if links.in_flight(self.document).is_empty() {
            self.list_asked.clear();
            self.ask_wait_ms = (self.ask_wait_ms * 2).min(ASK_AGAIN_MS_MAX);
            self.ask(now, links.members(), out);
            self.pump(now, holding, links, out);
        } else {
            self.ask_at = Some(now.plus_millis(self.ask_wait_ms));
        }
    }

    /// Asks links that have the list, a few at a time, none twice in a row.
    fn ask_list(&mut self, now: Time, links: &Links, out: &mut Vec<DocumentsOutput>) {
        let late = |at: &Time| at.plus_millis(LIST_LATE_MS) <= now;
        let waiting = self.list_asked.values().filter(|at| !late(at)).count();
        let offers = self.offers.iter().filter(|(_, offer)| offer.lists);
        let fresh = offers.filter(|(member, _)| {
            links.is_good(**member, now) && !self.list_asked.contains_key(member)
        });
        let chosen = fresh.take(LIST_ASKED_MAX.saturating_sub(waiting));
        let chosen: Vec<_> = chosen.map(|(member, _)| *member).collect();
        for to in chosen {
            self.list_asked.insert(to, now);
            self.list_late_at = Some(now.plus_millis(LIST_LATE_MS));
            out.push(DocumentsOutput::stream(
                to,
                DocumentFrame::GetList(self.document),
            ));
        }
    }

    /// What few links have comes first, so that it spreads; otherwise an order of this node's own.
    fn rarest_first(&self, wanted: ChunkSet) -> Vec<usize> {
        let mut counts = [0_u32; CHUNKS_MAX];
        for offer in self.offers.values() {
            offer.have.iter().for_each(|chunk| counts[chunk] += 1);
        }
        let mut order: Vec<_> = wanted.iter().filter(|chunk| counts[*chunk] > 0).collect();
        order.sort_by_key(|chunk| (counts[*chunk], mix(self.salt, number(*chunk))));
        order
    }

    fn have(&self, to: MemberId, holding: &BodyHolding) -> DocumentsOutput {
        let chunks = holding.have().to_bitmap(holding.count());
        let document = self.document;
        DocumentsOutput::stream(to, DocumentFrame::Have { document, chunks })
    }

    fn get_chunk(&self, chunk: usize) -> DocumentFrame {
        DocumentFrame::GetChunk {
            document: self.document,
            chunk: number(chunk),
        }
    }
}

/// Whether others can use what is here: chunks, or the list if it does not go without saying.
fn is_news(holding: &BodyHolding) -> bool {
    let listed = holding.list().is_some() && holding.count() > 1;
    listed || !holding.have().is_empty()
}

/// A chunk's index as frames have it.
fn number(chunk: usize) -> u32 {
    u32::try_from(chunk).unwrap_or(u32::MAX)
}
