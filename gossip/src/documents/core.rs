//! The state machine.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use muster_model::time::Time;

use super::budget::Budgets;
use super::cover::CoverStep;
use super::edition::Edition;
use super::holding::BODY_BYTES_MAX;
use super::input::{BodyVerdict, DocumentsInput, DocumentsOutput};
use super::link::Links;
use super::view::{Counters, KnownDocument};
use crate::frame::{Coverage, DocumentFrame, DocumentRef};
use crate::member::MemberId;
use crate::record::{BodyId, DocumentId, Header, HeaderStage};

/// Most documents a cluster may have.
pub const DOCUMENTS_MAX: usize = 64;
/// Most bytes that all bodies on a node may have.
pub const BODIES_BYTES_MAX: u64 = 256 << 20;
/// Bodies that may wait for their header.
const EARLY_MAX: usize = 4;

/// The documents of one node.
///
/// The header of a document says which body is its newest version and how far that may go. This
/// fetches bodies from links, has them checked, puts them in force when their stage comes to this
/// node, and tells others how far all have come. What is in force never goes back to an older
/// version.
#[derive(Debug)]
pub struct DocumentsCore {
    me: MemberId,
    headers: BTreeMap<DocumentId, Header>,
    /// The newest version of each document, and the one in force while it is under way.
    pub(super) editions: BTreeMap<DocumentRef, Edition>,
    in_force: BTreeMap<DocumentId, u64>,
    activating: BTreeMap<DocumentId, u64>,
    early: Vec<(DocumentRef, Arc<[u8]>)>,
    pub(super) links: Links,
    pub(super) budgets: Budgets,
    pub(super) counters: Counters,
    due: Option<Time>,
}

impl DocumentsCore {
    /// A node without documents.
    pub fn new(me: MemberId) -> Self {
        Self {
            me,
            headers: BTreeMap::new(),
            editions: BTreeMap::new(),
            in_force: BTreeMap::new(),
            activating: BTreeMap::new(),
            early: Vec::new(),
            links: Links::default(),
            budgets: Budgets::default(),
            counters: Counters::default(),
            due: None,
        }
    }

    /// A header was accepted as a document's newest.
    pub fn header(
        &mut self,
        now: Time,
        id: DocumentId,
        header: &Header,
        out: &mut Vec<DocumentsOutput>,
    ) {
        let known = self.headers.get(&id);
        let full = known.is_none() && self.headers.len() >= DOCUMENTS_MAX;
        if full || known.is_some_and(|known| known.version > header.version) {
            self.counters.headers_refused += 1;
            return;
        }
        self.headers.insert(id, header.clone());
        self.set_editions(now, id, header);
        self.take_early(now, id, out);
        self.want(now, id, out);
        self.activate(id, out);
        self.retain(id, out);
        self.schedule();
    }

    /// These members are the links from now on.
    pub fn links(&mut self, now: Time, members: &[MemberId], out: &mut Vec<DocumentsOutput>) {
        let new = self.links.set(members);
        for edition in self.editions.values_mut() {
            edition.fetch.retain(&self.links);
            edition.cover.retain(&self.links, now);
            edition.fetch.grown(now);
            edition.ask(now, &new, out);
            edition.pump(now, &mut self.links, out);
        }
        self.schedule();
    }

    /// A member, whose key the connection proved, sent a frame.
    pub fn frame(
        &mut self,
        now: Time,
        from: MemberId,
        frame: DocumentFrame,
        out: &mut Vec<DocumentsOutput>,
    ) {
        if self.admits(now, from, &frame) {
            self.received(now, from, frame, out);
            self.schedule();
        }
    }

    /// Something happened on this node.
    pub fn handle(&mut self, now: Time, input: DocumentsInput, out: &mut Vec<DocumentsOutput>) {
        match input {
            DocumentsInput::Body { document, body } => self.body_here(now, document, body, out),
            DocumentsInput::Checked { document, verdict } => {
                self.checked(now, document, verdict, out)
            }
            DocumentsInput::Active(document) => self.now_active(now, document, out),
        }
        self.schedule();
    }

    /// Time passed.
    pub fn tick(&mut self, now: Time, out: &mut Vec<DocumentsOutput>) {
        for (member, asked) in self.links.late(now) {
            self.counters.chunks_late += 1;
            if let Some(edition) = self.editions.get_mut(&asked.document) {
                edition.fetch.late(member, asked.chunk);
                edition.pump(now, &mut self.links, out);
            }
        }
        for edition in self.editions.values_mut() {
            edition.tick(now, &mut self.links, out);
        }
        self.schedule();
    }

    /// When [`DocumentsCore::tick`] is due.
    pub fn deadline(&self) -> Option<Time> {
        self.due
    }

    /// A link's digest differs from this node's for longer than it takes to pass coverage on: it
    /// is told all of it again.
    pub fn differs(&mut self, now: Time, link: MemberId) {
        for edition in self.editions.values_mut() {
            edition.cover.forget(link, now);
        }
        self.schedule();
    }

    /// Of the coverage of all documents: equal on nodes that have the same headers and have heard
    /// the same.
    pub fn digest(&self) -> u64 {
        let digests = self.editions.values().map(|edition| edition.cover.digest());
        digests.fold(0, u64::wrapping_add)
    }

    /// The documents that this node knows.
    pub fn ids(&self) -> impl Iterator<Item = DocumentId> {
        self.headers.keys().copied()
    }

    /// What this node knows of a document.
    pub fn view(&self, id: DocumentId) -> Option<KnownDocument> {
        let header = self.headers.get(&id)?;
        let version = header.version;
        let edition = self.editions.get(&DocumentRef { id, version })?;
        Some(KnownDocument {
            header: header.clone(),
            have: edition.is_whole(),
            verdict: edition.verdict.clone(),
            active: self.in_force.get(&id).copied(),
            coverage: edition.cover.coverage().clone(),
        })
    }

    /// How far a version has come; known for a document's newest version and for the one that
    /// its header names as active.
    pub fn coverage(&self, document: DocumentRef) -> Option<&Coverage> {
        Some(self.editions.get(&document)?.cover.coverage())
    }

    /// The body of a version, if all of it is here.
    pub fn body(&self, document: DocumentRef) -> Option<Arc<[u8]>> {
        self.editions
            .get(&document)?
            .holding
            .as_ref()?
            .body()
            .ok()?
    }

    /// What was dropped, and why.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn schedule(&mut self) {
        let editions = self.editions.values().filter_map(Edition::deadline);
        self.due = editions.chain(self.links.deadline()).min();
    }

    /// Keeps the versions that the header names, and starts those that are new.
    fn set_editions(&mut self, now: Time, id: DocumentId, header: &Header) {
        let named = named(header);
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.editions)
            .into_iter()
            .partition(|(document, edition)| {
                let body = named.get(&document.version);
                document.id != id || body.is_some_and(|body| body.is_none() || *body == edition.id)
            });
        self.editions = kept;
        gone.keys()
            .for_each(|document| self.links.forget(*document));
        for (version, body) in named {
            let document = DocumentRef { id, version };
            if !self.editions.contains_key(&document) {
                let edition = self.new_edition(now, document, body, &gone);
                self.editions.insert(document, edition);
            }
        }
    }

    fn new_edition(
        &self,
        now: Time,
        document: DocumentRef,
        body: Option<BodyId>,
        gone: &BTreeMap<DocumentRef, Edition>,
    ) -> Edition {
        let mut edition = Edition::new(self.me, document, body);
        edition.open(now);
        let bytes = body.map_or(0, |body| body.bytes);
        if edition.holding.is_some() && self.bodies_bytes().saturating_add(bytes) > BODIES_BYTES_MAX
        {
            edition.reject("the bodies of all documents have more than 256 MiB", now);
        }
        for other in self.editions.values().chain(gone.values()) {
            if let Some(holding) = &other.holding {
                edition.reuse(holding);
            }
        }
        if self.in_force.get(&document.id) == Some(&document.version) {
            edition.cover.set(CoverStep::Active, self.me, now);
        }
        edition
    }

    fn bodies_bytes(&self) -> u64 {
        let held = self
            .editions
            .values()
            .filter_map(|edition| edition.holding.as_ref());
        held.map(|holding| holding.id().bytes).sum()
    }

    /// Decides what this node needs of a document, and gets it.
    fn want(&mut self, now: Time, id: DocumentId, out: &mut Vec<DocumentsOutput>) {
        let Some(header) = self.headers.get(&id) else {
            return;
        };
        let due = due_version(header, self.me);
        let in_force = self.in_force.get(&id).copied().unwrap_or(0);
        let links: Vec<_> = self.links.members().collect();
        for (document, edition) in self.editions.range_mut(versions_of(id)) {
            let newest = document.version == header.version;
            let was_wanted = edition.wanted;
            edition.wanted = match newest {
                true => header.stage != HeaderStage::Withdrawn,
                false => document.version == due && in_force < due,
            };
            match (was_wanted, edition.wanted) {
                (false, true) if edition.is_whole() => edition.grown(now, out),
                (false, true) => edition.ask(now, &links, out),
                (true, false) => self.links.forget(*document),
                _ => {}
            }
        }
    }

    /// Puts in force what the stage asks for and this node found valid.
    fn activate(&mut self, id: DocumentId, out: &mut Vec<DocumentsOutput>) {
        let Some(header) = self.headers.get(&id) else {
            return;
        };
        let version = due_version(header, self.me);
        let document = DocumentRef { id, version };
        let edition = self.editions.get(&document);
        let valid = edition.is_some_and(|edition| edition.verdict == Some(BodyVerdict::Valid));
        let newer = self
            .in_force
            .get(&id)
            .is_none_or(|in_force| *in_force < version);
        if valid && newer && self.activating.get(&id) != Some(&version) {
            self.activating.insert(id, version);
            out.push(DocumentsOutput::Activate(document));
        }
    }

    /// Names the versions whose bodies may be needed again.
    fn retain(&self, id: DocumentId, out: &mut Vec<DocumentsOutput>) {
        let editions = self
            .editions
            .range(versions_of(id))
            .map(|(document, _)| *document);
        let mut keep: Vec<_> = editions.collect();
        let in_force = self.in_force.get(&id).map(|version| DocumentRef {
            id,
            version: *version,
        });
        keep.extend(in_force.filter(|document| !keep.contains(document)));
        keep.sort();
        out.push(DocumentsOutput::Retain(keep));
    }

    fn body_here(
        &mut self,
        now: Time,
        document: DocumentRef,
        body: Arc<[u8]>,
        out: &mut Vec<DocumentsOutput>,
    ) {
        let known = self.headers.get(&document.id).map(|header| header.version);
        match self.editions.get_mut(&document) {
            Some(edition) if edition.is_whole() => {}
            Some(edition) => {
                let taken = edition.take_body(&body, now, out);
                self.counters.bodies_wrong += u64::from(!taken);
                self.links.forget(document);
            }
            None if known.is_none_or(|known| known < document.version) => {
                self.keep_early(document, body);
            }
            None => self.counters.bodies_wrong += 1,
        }
    }

    fn keep_early(&mut self, document: DocumentRef, body: Arc<[u8]>) {
        self.early.retain(|(early, _)| *early != document);
        if body.len() <= BODY_BYTES_MAX {
            self.early.push((document, body));
        }
        if self.early.len() > EARLY_MAX {
            self.early.remove(0);
        }
    }

    /// Bodies that came before this header.
    fn take_early(&mut self, now: Time, id: DocumentId, out: &mut Vec<DocumentsOutput>) {
        let editions = &self.editions;
        let early = std::mem::take(&mut self.early);
        let (here, later) = early
            .into_iter()
            .partition(|(document, _)| document.id == id && editions.contains_key(document));
        self.early = later;
        let here: Vec<_> = here;
        for (document, body) in here {
            self.body_here(now, document, body, out);
        }
    }

    fn checked(
        &mut self,
        now: Time,
        document: DocumentRef,
        verdict: BodyVerdict,
        out: &mut Vec<DocumentsOutput>,
    ) {
        if let Some(edition) = self.editions.get_mut(&document) {
            edition.judged(verdict, now);
            self.activate(document.id, out);
        }
    }

    fn now_active(&mut self, now: Time, document: DocumentRef, out: &mut Vec<DocumentsOutput>) {
        let DocumentRef { id, version } = document;
        let full = self.in_force.len() >= DOCUMENTS_MAX && !self.in_force.contains_key(&id);
        if full
            || self
                .in_force
                .get(&id)
                .is_some_and(|in_force| *in_force > version)
        {
            self.counters.activations_refused += 1;
            return;
        }
        self.in_force.insert(id, version);
        self.activating.remove(&id);
        if let Some(edition) = self.editions.get_mut(&document) {
            edition.cover.set(CoverStep::Active, self.me, now);
        }
        if self.headers.contains_key(&id) {
            self.want(now, id, out);
            self.activate(id, out);
            self.retain(id, out);
        }
    }
}

/// The version that this stage puts in force on this node; 0 for none.
fn due_version(header: &Header, me: MemberId) -> u64 {
    match &header.stage {
        HeaderStage::Active => header.version,
        HeaderStage::Canary(members) if members.contains(&me) => header.version,
        HeaderStage::Canary(_) | HeaderStage::Distribute | HeaderStage::Withdrawn => header.active,
    }
}

/// The versions that a header names, with their bodies.
fn named(header: &Header) -> BTreeMap<u64, Option<BodyId>> {
    let mut named = BTreeMap::from([(header.version, Some(header.body()))]);
    if (1..header.version).contains(&header.active) {
        named.insert(header.active, header.active_body);
    }
    named
}

pub(super) fn versions_of(id: DocumentId) -> RangeInclusive<DocumentRef> {
    let at = |version| DocumentRef { id, version };
    at(0)..=at(u64::MAX)
}
