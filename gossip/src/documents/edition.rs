//! One version of a document on this node.

use std::sync::Arc;

use muster_model::time::Time;

use super::cover::{CoverStep, VersionCover};
use super::fetch::Fetch;
use super::holding::{BodyHolding, Flaw};
use super::input::{BodyVerdict, DocumentsOutput};
use super::link::Links;
use crate::frame::DocumentRef;
use crate::member::MemberId;
use crate::record::BodyId;

/// Most bytes of a reason that is kept.
const REASON_BYTES_MAX: usize = 1_000;

/// One version of a document on this node: its body, as far as it is here, what this node thinks
/// of it, and what others do.
#[derive(Clone, Debug)]
pub(super) struct Edition {
    me: MemberId,
    document: DocumentRef,
    /// Which body; `None` if the header does not say.
    pub(super) id: Option<BodyId>,
    /// What of it is here; `None` if nothing of it can be.
    pub(super) holding: Option<BodyHolding>,
    /// Whether this node needs it.
    pub(super) wanted: bool,
    pub(super) fetch: Fetch,
    pub(super) cover: VersionCover,
    pub(super) verdict: Option<BodyVerdict>,
    /// Whether it was given away to be checked.
    given: bool,
}

impl Edition {
    pub(super) fn new(me: MemberId, document: DocumentRef, id: Option<BodyId>) -> Self {
        Self {
            me,
            document,
            id,
            holding: None,
            wanted: false,
            fetch: Fetch::new(me, document),
            cover: VersionCover::new(document),
            verdict: None,
            given: false,
        }
    }

    /// Prepares for the body that the header names.
    pub(super) fn open(&mut self, now: Time) {
        if let Some(id) = self.id {
            self.keep(BodyHolding::new(id), now);
        }
    }

    /// Takes what can be had from another version.
    pub(super) fn reuse(&mut self, other: &BodyHolding) {
        match &mut self.holding {
            Some(mine) if mine.id() == other.id() => *mine = other.clone(),
            Some(mine) => mine.reuse(other),
            None => {}
        }
    }

    /// Whether all of it is here.
    pub(super) fn is_whole(&self) -> bool {
        self.holding.as_ref().is_some_and(BodyHolding::is_whole)
    }

    /// Whether the list of its chunks is missing.
    pub(super) fn needs_list(&self) -> bool {
        self.holding
            .as_ref()
            .is_some_and(|holding| holding.list().is_none())
    }

    pub(super) fn has_chunk(&self, chunk: usize) -> bool {
        let holding = self.holding.as_ref();
        holding.is_none_or(|holding| holding.chunk(chunk).is_some())
    }

    /// Whether more of it is to be fetched.
    pub(super) fn is_hungry(&self) -> bool {
        let partial = self
            .holding
            .as_ref()
            .is_some_and(|holding| !holding.is_whole());
        self.wanted && partial
    }

    /// Takes a whole body that this node got otherwise; whether it is this version's.
    pub(super) fn take_body(
        &mut self,
        body: &Arc<[u8]>,
        now: Time,
        out: &mut Vec<DocumentsOutput>,
    ) -> bool {
        let (Some(id), false) = (self.id, self.is_whole()) else {
            return false;
        };
        match BodyHolding::of_body(id, body) {
            Err(Flaw::Sent) => false,
            other => {
                self.keep(other, now);
                self.grown(now, out);
                true
            }
        }
    }

    /// Takes a list; [`Flaw::Sent`] is left to the caller.
    pub(super) fn take_list(&mut self, hashes: Vec<[u8; 32]>, now: Time) -> Result<(), Flaw> {
        let Some(holding) = &mut self.holding else {
            return Ok(());
        };
        let taken = holding.accept_list(hashes);
        self.judge(taken, now)
    }

    /// Takes a chunk; [`Flaw::Sent`] is left to the caller.
    pub(super) fn take_chunk(
        &mut self,
        chunk: usize,
        bytes: Arc<[u8]>,
        now: Time,
    ) -> Result<(), Flaw> {
        let Some(holding) = &mut self.holding else {
            return Ok(());
        };
        let taken = holding.accept_chunk(chunk, bytes);
        self.judge(taken, now)
    }

    /// More of the body is here: tells others, and has it checked, once, if it is whole.
    pub(super) fn grown(&mut self, now: Time, out: &mut Vec<DocumentsOutput>) {
        let Some(holding) = &self.holding else {
            return;
        };
        self.fetch.grown(now);
        if self.given {
            return;
        }
        match holding.body() {
            Ok(None) => {}
            Ok(Some(body)) => {
                self.given = true;
                self.fetch.stop();
                let document = self.document;
                out.push(DocumentsOutput::Check { document, body });
            }
            Err(flaw) => {
                let _ = self.judge(Err(flaw), now);
            }
        }
    }

    /// This node has checked it, or could not.
    pub(super) fn judged(&mut self, verdict: BodyVerdict, now: Time) {
        let step = match &verdict {
            BodyVerdict::Valid => CoverStep::Valid,
            BodyVerdict::Rejected(_) => CoverStep::Rejected,
        };
        self.cover.set(step, self.me, now);
        self.verdict = Some(match verdict {
            BodyVerdict::Rejected(reason) => BodyVerdict::Rejected(shortened(reason)),
            BodyVerdict::Valid => BodyVerdict::Valid,
        });
    }

    /// Rejects it for good: it will never be fetched.
    pub(super) fn reject(&mut self, reason: &str, now: Time) {
        self.holding = None;
        self.fetch.stop();
        self.judged(BodyVerdict::Rejected(reason.to_owned()), now);
    }

    pub(super) fn ask(&mut self, now: Time, to: &[MemberId], out: &mut Vec<DocumentsOutput>) {
        if self.is_hungry() {
            self.fetch.ask(now, to.iter().copied(), out);
        }
    }

    pub(super) fn pump(&mut self, now: Time, links: &mut Links, out: &mut Vec<DocumentsOutput>) {
        if let (true, Some(holding)) = (self.is_hungry(), &self.holding) {
            self.fetch.pump(now, holding, links, out);
        }
    }

    pub(super) fn tick(&mut self, now: Time, links: &mut Links, out: &mut Vec<DocumentsOutput>) {
        if !self.is_hungry() {
            self.fetch.stop();
        }
        if let Some(holding) = &self.holding {
            self.fetch.tick(now, holding, links, out);
        }
        self.cover.tick(now, links, out);
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let fetch = self.holding.as_ref().and_then(|_| self.fetch.deadline());
        [fetch, self.cover.deadline()].into_iter().flatten().min()
    }

    fn keep(&mut self, holding: Result<BodyHolding, Flaw>, now: Time) {
        match holding {
            Ok(holding) => self.holding = Some(holding),
            Err(flaw) => {
                let _ = self.judge(Err(flaw), now);
            }
        }
    }

    /// A header that does not fit itself is this version's end here.
    fn judge(&mut self, taken: Result<(), Flaw>, now: Time) -> Result<(), Flaw> {
        if let Err(Flaw::Header(reason)) = taken {
            self.reject(reason, now);
            return Ok(());
        }
        taken
    }
}

fn shortened(mut reason: String) -> String {
    let end = (0..=REASON_BYTES_MAX.min(reason.len())).rev();
    let end = end.into_iter().find(|at| reason.is_char_boundary(*at));
    reason.truncate(end.unwrap_or(0));
    reason
}
