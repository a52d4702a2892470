//! Documents: versions in the log, bodies beside it.
//!
//! A body is on the disks of a majority of the voters before the log names it, so whichever
//! majority survives has it. A copy that lacks one fetches it from the others.

use std::sync::Arc;

use muster_gossip::frame::DocumentRef;
use muster_gossip::member::MemberId;
use muster_gossip::record::{BodyId, DocumentId};
use muster_model::mesh::{DocumentText, DocumentVersion, VersionView};

use super::ClusterService;
use super::admission::author;
use super::hash::{self, hex};
use crate::answers::event::Event;
use crate::answers::port::{CopiesPort as _, MemberPort};
use crate::answers::together;
use crate::cluster::{
    BODY_BYTES_MAX, ClusterApplied, ClusterEntry, ClusterRejection, ClusterState, DocumentEdit,
    Revision, VersionStage,
};
use crate::groups::name;
use crate::request::cluster::{EditDocument, GetHistory, ReadDocument, RollBack};
use crate::request::member::{KeepBody, ReadBody};
use crate::request::{Answers, Json, RequestFailure, RequestRefusal};

/// A new version of a document, but for its text.
pub(super) struct DocumentDraft<'a> {
    pub(super) id: DocumentId,
    pub(super) base: u64,
    pub(super) forced: bool,
    pub(super) by: &'a str,
}

/// Whether a text is no longer than a document may be.
fn check_length(text: &str) -> Result<(), RequestFailure> {
    match text.len() as u64 {
        0..=BODY_BYTES_MAX => Ok(()),
        long => Err(ClusterRejection::TooLong(long).into()),
    }
}

impl<P: MemberPort> Answers<EditDocument> for ClusterService<P> {
    async fn answer(&self, _: MemberId, request: EditDocument) -> Result<u64, RequestFailure> {
        let draft = DocumentDraft {
            id: DocumentId(request.document),
            base: request.base,
            forced: request.now,
            by: &request.by,
        };
        check_length(&request.text)?;
        let body: Arc<[u8]> = request.text.as_bytes().into();
        self.may_edit(&draft).await?;
        let reference = BodyId::of(&body);
        self.spread(&reference.hash, &body).await?;
        self.commit_edit(&draft, reference, body).await
    }
}

impl<P: MemberPort> Answers<RollBack> for ClusterService<P> {
    async fn answer(&self, _: MemberId, request: RollBack) -> Result<u64, RequestFailure> {
        let id = DocumentId(request.document);
        let (reference, body) = self.revision(id, request.version).await?;
        let base = self.read(move |state| newest(state, id));
        let draft = DocumentDraft {
            id,
            base: base.await?,
            forced: false,
            by: &request.by,
        };
        self.spread(&reference.hash, &body).await?;
        self.commit_edit(&draft, reference, body).await
    }
}

impl<P: MemberPort> Answers<GetHistory> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        request: GetHistory,
    ) -> Result<Json<Vec<VersionView>>, RequestFailure> {
        let id = DocumentId(request.document);
        let read = self.read(move |state| {
            let named = |member: &MemberId| {
                let member = state.member(*member);
                member.map_or_else(String::new, |member| member.name.to_string())
            };
            let document = state.document(id).into_iter();
            let versions = document.flat_map(|document| document.history().rev());
            versions
                .map(|revision| version_view(revision, named))
                .collect()
        });
        Ok(Json(read.await?))
    }
}

impl<P: MemberPort> Answers<ReadDocument> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        request: ReadDocument,
    ) -> Result<DocumentText, RequestFailure> {
        let ReadDocument { document, version } = request;
        let (_, body) = self.revision(DocumentId(document), version).await?;
        let text = String::from_utf8_lossy(&body).into_owned();
        Ok(DocumentText { version, text })
    }
}

impl<P: MemberPort> Answers<KeepBody> for ClusterService<P> {
    /// Another voter is about to have the log name this.
    async fn answer(
        &self,
        from: MemberId,
        KeepBody { body }: KeepBody,
    ) -> Result<(), RequestFailure> {
        check_length(&body)?;
        self.led_by(from).await?;
        self.keep_here(&BodyId::of(body.as_bytes()).hash, body.as_bytes())
    }
}

impl<P: MemberPort> Answers<ReadBody> for ClusterService<P> {
    /// A body that is here, for a copy that lacks it.
    async fn answer(
        &self,
        _: MemberId,
        ReadBody { hash }: ReadBody,
    ) -> Result<String, RequestFailure> {
        let missing = || RequestFailure::missing(format!("no body {hash} is kept here"));
        let hash = hash::parse(&hash).ok_or_else(missing)?;
        let found = self.read_here(&hash)?.ok_or_else(missing)?;
        String::from_utf8(found.to_vec()).map_err(|_| missing())
    }
}

impl<P: MemberPort> ClusterService<P> {
    /// Whether it is worth while to have the voters keep the body: this node leads, and no other edit was
    /// faster. The log has the last word, so that the state here will do; only a refusal needs the word of a
    /// majority.
    async fn may_edit(&self, draft: &DocumentDraft<'_>) -> Result<(), RequestFailure> {
        author(draft.by)?;
        let (id, base) = (draft.id, draft.base);
        let look = self.look(move |state, standing| {
            let leads = standing.view.leads;
            leads.then(|| newest(state, id))
        });
        if look.await?.flatten() == Some(base) {
            return Ok(());
        }
        let current = self.read(move |state| newest(state, id)).await?;
        match current == base {
            true => Ok(()),
            false => Err(RequestRefusal::Conflict { current }.into()),
        }
    }

    /// Has a majority of the voters keep a body.
    async fn spread(&self, hash: &[u8; 32], body: &Arc<[u8]>) -> Result<(), RequestFailure> {
        let voters = self.voters().await?;
        let needed = voters.len() / 2 + 1;
        let mut kept = 0;
        if voters.contains(&self.me) {
            self.keep_here(hash, body)?;
            kept += 1;
        }
        let others = voters.into_iter().filter(|voter| *voter != self.me);
        let text = String::from_utf8_lossy(body);
        let asked = others.map(|voter| {
            let body = text.clone().into_owned();
            self.ask(voter, KeepBody { body })
        });
        if kept < needed {
            let count = |answer: Result<(), RequestFailure>| {
                match answer {
                    Ok(()) => kept += 1,
                    Err(why) => self.copies().tell(Event::NotKept(why)),
                }
                kept >= needed
            };
            together::until(asked, count).await;
        }
        match kept >= needed {
            true => Ok(()),
            false => Err(RequestFailure::unavailable(format!(
                "{kept} of {needed} nodes that must have the text on disk have it; try \
                 again when more of them can be reached"
            ))),
        }
    }

    pub(super) fn keep_here(&self, hash: &[u8; 32], body: &[u8]) -> Result<(), RequestFailure> {
        let kept = self.port.keep_body(hash, body);
        kept.map_err(RequestFailure::unavailable)
    }

    /// Bodies are kept for the leader of the group alone, and only beside a copy.
    async fn led_by(&self, from: MemberId) -> Result<(), RequestFailure> {
        let leader = self.look(|_, standing| standing.view.leader).await?;
        match leader.flatten() == Some(name::node(from)) {
            true => Ok(()),
            false => Err(RequestFailure::unavailable(
                "this node follows another leader, or has no copy of the group",
            )),
        }
    }

    fn read_here(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, RequestFailure> {
        let found = self.port.read_body(hash);
        found.map_err(RequestFailure::unavailable)
    }

    /// A body that the log names: from the disk here, or from another copy's.
    pub(super) async fn find(&self, hash: &[u8; 32]) -> Result<Arc<[u8]>, RequestFailure> {
        if let Some(body) = self.read_here(hash)? {
            return Ok(body);
        }
        let others = self.holders().await?;
        for other in others.into_iter().filter(|other| *other != self.me) {
            let request = ReadBody { hash: hex(hash) };
            if let Ok(body) = self.ask(other, request).await
                && BodyId::of(body.as_bytes()).hash == *hash
            {
                self.keep_here(hash, body.as_bytes())?;
                return Ok(body.into_bytes().into());
            }
        }
        Err(RequestFailure::unavailable(
            "no node that can be reached has the text; try again later",
        ))
    }

    /// Fetches the bodies that this copy lacks, and lets those go that nothing names any more.
    pub async fn mend_bodies(&self) {
        let named = self.look(|state, _| {
            let bodies = state.bodies();
            bodies.map(|body| body.hash).collect::<Vec<_>>()
        });
        let Ok(Some(named)) = named.await else {
            return;
        };
        for hash in &named {
            if !self.port.has_body(hash)
                && let Err(why) = self.find(hash).await
            {
                let hash = hex(hash);
                self.copies().tell(Event::BodyMissing { hash, why });
            }
        }
        self.port.retain_bodies(&named);
    }

    async fn commit_edit(
        &self,
        draft: &DocumentDraft<'_>,
        reference: BodyId,
        body: Arc<[u8]>,
    ) -> Result<u64, RequestFailure> {
        let creations = self.creations(draft.id, &body).await?;
        let edit = DocumentEdit {
            id: draft.id,
            base: draft.base,
            body: reference,
            author: author(draft.by)?,
            at_ms: self.now_ms(),
            forced: draft.forced || !self.port.is_staged(draft.id),
            creations,
        };
        let applied = self
            .commit(&ClusterEntry::DocumentEdited(Box::new(edit)))
            .await?;
        let ClusterApplied::Document { id, version } = applied else {
            return Err(RequestFailure::unavailable("the edit was not applied"));
        };
        let body = vec![(DocumentRef { id, version }, body)];
        self.port.publish(Vec::new(), body).await;
        Ok(version)
    }

    async fn revision(
        &self,
        id: DocumentId,
        version: u64,
    ) -> Result<(BodyId, Arc<[u8]>), RequestFailure> {
        let found = self.read(move |state| {
            let revision = state.document(id)?.revision(version)?;
            Some(revision.body)
        });
        let missing = || {
            let text = format!("version {version} is not kept; see the history");
            RequestFailure::missing(text)
        };
        let reference = found.await?.ok_or_else(missing)?;
        let body = self.find(&reference.hash).await?;
        Ok((reference, body))
    }
}

/// The newest version of a document; 0 for none.
fn newest(state: &ClusterState, id: DocumentId) -> u64 {
    state.document(id).map_or(0, |document| document.version())
}

fn version_view(revision: &Revision, named: impl Fn(&MemberId) -> String) -> VersionView {
    let (stage, note) = match revision.stage() {
        VersionStage::Distribute => (
            muster_model::mesh::ActivationStage::Distribute,
            String::new(),
        ),
        VersionStage::Canary(canaries) => {
            let nodes = canaries
                .iter()
                .map(|canary| named(&canary.member))
                .collect();
            (
                muster_model::mesh::ActivationStage::Canary { nodes },
                String::new(),
            )
        }
        VersionStage::Active => (muster_model::mesh::ActivationStage::Active, String::new()),
        VersionStage::Withdrawn(reason) => {
            let reason = reason.clone();
            let stage = muster_model::mesh::ActivationStage::Withdrawn {
                reason: reason.clone(),
            };
            (stage, reason)
        }
    };
    VersionView {
        version: DocumentVersion {
            version: revision.version,
            stage,
            hash: hex(&revision.body.hash),
            bytes: revision.body.bytes,
            author: revision.author.to_string(),
            at_ms: revision.at_ms,
            forced: revision.forced,
        },
        note,
    }
}
