//! What members send.

use std::sync::Arc;

use muster_model::time::Time;

use super::chunk_set::ChunkSet;
use super::core::{DocumentsCore, versions_of};
use super::holding::BodyHolding;
use super::input::DocumentsOutput;
use crate::frame::{Coverage, DocumentFrame, DocumentRef};
use crate::member::MemberId;

/// What a frame costs its sender that makes work beyond a lookup.
const DEAR: u64 = 16;

impl DocumentsCore {
    /// Whether a frame is to be looked at: what was asked for always is, of everything else a
    /// sender may send so much.
    pub(super) fn admits(&mut self, now: Time, from: MemberId, frame: &DocumentFrame) -> bool {
        if let DocumentFrame::Chunk {
            document, chunk, ..
        } = frame
        {
            let asked = self.links.answered(from, *document, index(*chunk), now);
            self.counters.chunks_unasked += u64::from(!asked);
            return asked;
        }
        let dear = matches!(
            frame,
            DocumentFrame::List { .. } | DocumentFrame::Coverage(_)
        );
        let paid = self.budgets.pay(from, if dear { DEAR } else { 1 }, now);
        self.counters.frames_over += u64::from(!paid);
        paid
    }

    pub(super) fn received(
        &mut self,
        now: Time,
        from: MemberId,
        frame: DocumentFrame,
        out: &mut Vec<DocumentsOutput>,
    ) {
        match frame {
            DocumentFrame::Have { document, chunks } if chunks.is_empty() => {
                self.asked_what_is_here(now, from, document, out);
            }
            DocumentFrame::Have { document, chunks } => {
                self.offered(now, (from, document), &chunks, out);
            }
            DocumentFrame::GetList(document) => out.push(self.list(from, document)),
            DocumentFrame::List { document, hashes } => {
                self.listed(now, (from, document), hashes, out);
            }
            DocumentFrame::GetChunk { document, chunk } => {
                out.push(self.chunk(from, document, index(chunk)));
            }
            DocumentFrame::Chunk {
                document,
                chunk,
                bytes,
            } => self.arrived(now, (from, document), (index(chunk), bytes), out),
            DocumentFrame::Lack { document } => self.lacks(now, (from, document), out),
            DocumentFrame::Coverage(coverage) => self.covered(now, from, &coverage),
        }
    }

    /// Who asks knows nothing: what it was told before is void.
    fn asked_what_is_here(
        &mut self,
        now: Time,
        from: MemberId,
        document: DocumentRef,
        out: &mut Vec<DocumentsOutput>,
    ) {
        let Some(edition) = self.editions.get_mut(&document) else {
            return;
        };
        if self.links.contains(from) {
            edition.cover.forget(from, now);
        }
        if let Some(holding) = &edition.holding {
            edition.fetch.answer(from, holding, &self.links, out);
        }
    }

    fn offered(
        &mut self,
        now: Time,
        (from, document): (MemberId, DocumentRef),
        chunks: &[u8],
        out: &mut Vec<DocumentsOutput>,
    ) {
        if !self.links.is_good(from, now) {
            return;
        }
        let Some(edition) = self.editions.get_mut(&document) else {
            return;
        };
        let count = edition.holding.as_ref().map_or(0, BodyHolding::count);
        edition
            .fetch
            .offered(from, ChunkSet::from_bitmap(chunks, count));
        edition.pump(now, &mut self.links, out);
    }

    fn list(&self, to: MemberId, document: DocumentRef) -> DocumentsOutput {
        let edition = self.editions.get(&document);
        let holding = edition.and_then(|edition| edition.holding.as_ref());
        let frame = match holding.and_then(BodyHolding::list) {
            Some(hashes) => DocumentFrame::List {
                document,
                hashes: hashes.to_vec(),
            },
            None => DocumentFrame::Lack { document },
        };
        DocumentsOutput::stream(to, frame)
    }

    fn chunk(&self, to: MemberId, document: DocumentRef, chunk: usize) -> DocumentsOutput {
        let edition = self.editions.get(&document);
        let holding = edition.and_then(|edition| edition.holding.as_ref());
        let frame = match holding.and_then(|holding| holding.chunk(chunk)) {
            Some(bytes) => DocumentFrame::Chunk {
                document,
                chunk: u32::try_from(chunk).unwrap_or(u32::MAX),
                bytes: Arc::clone(bytes),
            },
            None => DocumentFrame::Lack { document },
        };
        DocumentsOutput::stream(to, frame)
    }

    fn listed(
        &mut self,
        now: Time,
        (from, document): (MemberId, DocumentRef),
        hashes: Vec<[u8; 32]>,
        out: &mut Vec<DocumentsOutput>,
    ) {
        let Some(mut edition) = self.editions.remove(&document) else {
            return;
        };
        let taken = match edition.fetch.waits_for_list(from) && edition.needs_list() {
            true => Some(edition.take_list(hashes, now)),
            false => None,
        };
        if taken == Some(Ok(())) {
            let others = self.editions.range(versions_of(document.id));
            let others = others.filter_map(|(_, other)| other.holding.as_ref());
            others.for_each(|other| edition.reuse(other));
        }
        self.editions.insert(document, edition);
        match taken {
            Some(Ok(())) => self.grown(now, document, out),
            Some(Err(_)) => {
                self.counters.lists_wrong += 1;
                self.avoid(now, from, out);
            }
            None => {}
        }
    }

    fn arrived(
        &mut self,
        now: Time,
        (from, document): (MemberId, DocumentRef),
        (chunk, bytes): (usize, Arc<[u8]>),
        out: &mut Vec<DocumentsOutput>,
    ) {
        let Some(edition) = self.editions.get_mut(&document) else {
            return;
        };
        if edition.has_chunk(chunk) {
            self.counters.chunks_twice += 1;
            return;
        }
        match edition.take_chunk(chunk, bytes, now) {
            Ok(()) => self.grown(now, document, out),
            Err(_) => {
                self.counters.chunks_wrong += 1;
                self.avoid(now, from, out);
            }
        }
    }

    fn lacks(
        &mut self,
        now: Time,
        (from, document): (MemberId, DocumentRef),
        out: &mut Vec<DocumentsOutput>,
    ) {
        self.links.lacks(from, document);
        if let Some(edition) = self.editions.get_mut(&document) {
            edition.fetch.withdrawn(from);
            edition.pump(now, &mut self.links, out);
        }
    }

    /// Coverage of versions that no header names is not kept.
    fn covered(&mut self, now: Time, from: MemberId, coverage: &Coverage) {
        let edition = coverage
            .document
            .and_then(|document| self.editions.get_mut(&document));
        match edition {
            Some(edition) if self.links.contains(from) => {
                edition.cover.merge(from, coverage, now);
            }
            Some(edition) => edition.cover.hear(coverage, now),
            None => {}
        }
    }

    fn grown(&mut self, now: Time, document: DocumentRef, out: &mut Vec<DocumentsOutput>) {
        if let Some(edition) = self.editions.get_mut(&document) {
            edition.grown(now, out);
            edition.pump(now, &mut self.links, out);
        }
    }

    /// Fetches nothing more from a member that sent something wrong.
    fn avoid(&mut self, now: Time, member: MemberId, out: &mut Vec<DocumentsOutput>) {
        self.links.avoid(member, now);
        for edition in self.editions.values_mut() {
            edition.fetch.withdrawn(member);
            edition.pump(now, &mut self.links, out);
        }
    }
}

/// A chunk's index as tables have it.
fn index(chunk: u32) -> usize {
    usize::try_from(chunk).unwrap_or(usize::MAX)
}
