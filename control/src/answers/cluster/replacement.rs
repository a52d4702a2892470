//! The cluster goes on in another group: whoever has the copy that knows most says so to all, and tells the
//! new group what the copy does not know.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_consensus::GroupId;
use muster_gossip::frame::DocumentRef;
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use muster_gossip::record::{
    AdmissionState, BodyId, DocumentId, Header, HeaderStage, MemberBody, Record, RecordKey,
    RecordVersion, ReplacementBody,
};

use super::ClusterService;
use crate::answers::event::Event;
use crate::answers::port::{CopiesPort as _, MemberPort};
use crate::answers::together;
use crate::cluster::{
    ClusterEntry, ClusterIdentity, ClusterMap, ClusterState, DocumentEdit, MemberHealth,
    Replacement, Secret,
};
use crate::groups::{GroupState, Local, name};
use crate::request::member::{GetKnownClusterMap, Succeed};
use crate::request::{Answers, RequestFailure};

/// How long the mesh may take to keep what it was told: it waits for the disk.
const KEEP_LIMIT_MS: u64 = 10_000;
/// Between two looks at that.
const KEEP_PAUSE_MS: u64 = 50;
/// How long a member is waited for to say what it was told.
const TOLD_LIMIT_MS: u64 = 3_000;
/// So many are asked at a time.
const ASKED_AT_ONCE: usize = 64;

impl<P: MemberPort> Answers<Succeed> for ClusterService<P> {
    /// The cluster goes on from this node's copy: says so to all, as soon as it is on disk here.
    async fn answer(
        &self,
        _: MemberId,
        Succeed { replacement, by }: Succeed,
    ) -> Result<(), RequestFailure> {
        let known = self.port.lineage();
        if known.said().as_ref() == Some(&replacement) {
            return Ok(());
        }
        let follows =
            replacement.generation == known.generation + 1 && replacement.before == known.groups();
        if !follows {
            return Err(RequestFailure::invalid(format!(
                "the cluster is in generation {} by now: it was recovered meanwhile; look at it again",
                known.generation
            )));
        }
        self.check_led().await?;
        let record = self.sign(&replacement).await?;
        self.port.publish(vec![record], Vec::new()).await;
        let kept = self.succeeded(replacement.group);
        if together::within(self.copies(), KEEP_LIMIT_MS, kept)
            .await
            .is_none()
        {
            return Err(RequestFailure::unknown(
                "the disk has not kept it yet; look at the cluster again in some seconds",
            ));
        }
        let generation = replacement.generation;
        self.copies().tell(Event::Succeeds { generation, by });
        Ok(())
    }
}

impl<P: MemberPort> Answers<GetKnownClusterMap> for ClusterService<P> {
    /// What this node was told, for one that knows no more than this.
    async fn answer(
        &self,
        _: MemberId,
        GetKnownClusterMap { known }: GetKnownClusterMap,
    ) -> Result<Option<ClusterMap>, RequestFailure> {
        let told = self.port.cluster_map().filter(|told| told.version > known);
        Ok(told.map(|told| (*told).clone()))
    }
}

impl<P: MemberPort> ClusterService<P> {
    /// Waits until this member goes by that group.
    async fn succeeded(&self, group: u64) {
        while self.port.lineage().group != group {
            self.copies().pause(KEEP_PAUSE_MS).await;
        }
    }

    /// Refuses to take the place of a group that somebody leads, whoever asks for it.
    async fn check_led(&self) -> Result<(), RequestFailure> {
        let look = self.look(|_, standing| standing.view.leader);
        let leader = look.await?.flatten().and_then(name::member);
        let sights = self.sights().await;
        let sight = leader.and_then(|leader| sights.get(&leader));
        match sight.is_some_and(|sight| sight.reach != Reach::Unreachable) {
            true => Err(RequestFailure::invalid(
                "somebody leads the cluster, as far as is known here: there is nothing to recover",
            )),
            false => Ok(()),
        }
    }

    /// As a record, with the key in the copy here that it goes on from.
    async fn sign(&self, replacement: &ReplacementBody) -> Result<Arc<Record>, RequestFailure> {
        let store = self.copies().store().await?;
        if replacement.home != self.me || replacement.store != store.0 {
            return Err(RequestFailure::invalid(
                "the copy that the cluster was to go on from is here no more; look again",
            ));
        }
        let mut newest = None;
        for group in &replacement.before {
            let look = |local: Local<'_>| {
                let GroupState::Cluster(state) = local.seen.machine else {
                    return None;
                };
                Some((
                    local.standing.view.leads,
                    state.cluster()?.id,
                    state.secret()?.clone(),
                ))
            };
            let found = self.copies().look(GroupId(*group), look);
            newest = found.await?.flatten().or(newest);
        }
        let newest = newest.and_then(|(leads, cluster, secret): (bool, ClusterId, Secret)| {
            Some((leads, cluster, self.port.signer(&secret)?))
        });
        let Some((leads, cluster, signer)) = newest else {
            return Err(RequestFailure::invalid(
                "the copy that the cluster was to go on from is here no more; look again",
            ));
        };
        if leads {
            let text = "this node leads the cluster group: there is nothing to recover";
            return Err(RequestFailure::invalid(text.to_owned()));
        }
        let version = RecordVersion {
            incarnation: ClusterIdentity::GENERATION.into(),
            number: replacement.generation.into(),
        };
        let record = Record::sign(
            cluster,
            RecordKey::Replacement,
            version,
            replacement,
            &signer,
        );
        let failed = |error| RequestFailure::invalid(format!("it cannot be signed: {error}"));
        record.map(Arc::new).map_err(failed)
    }

    /// Whether the group that this node leads has begun: its first entry says what those who are left know
    /// beyond the copy that it goes on from.
    pub(super) async fn begin(&self) -> bool {
        let generation = self.port.lineage().generation;
        let look = self.look(|state, _| {
            let generation = state.cluster().map(|cluster| cluster.generation);
            generation.unwrap_or_default()
        });
        match look.await {
            // A cluster that is being founded has no generation yet.
            Ok(Some(0)) => true,
            Ok(Some(known)) if known >= generation => true,
            Ok(Some(_)) => self.catch_up(generation).await,
            _ => false,
        }
    }

    /// Virtual clusters that have not said for long what cells they have are waited for no longer, if this node
    /// leads.
    pub(super) async fn stop_waiting(&self) {
        let look = self.look(|state, _| state.unheard().clone());
        let vcs = look.await.ok().flatten().unwrap_or_default();
        if vcs.is_empty() {
            return;
        }
        self.copies().tell(Event::Unheard(vcs.clone()));
        if let Err(error) = self.commit(&ClusterEntry::Unheard { vcs }).await {
            self.copies().tell(Event::StillUnheard(error));
        }
    }

    async fn catch_up(&self, generation: u32) -> bool {
        let (admissions, headers) = (self.admissions().await, self.headers().await);
        let look = self.read(move |state| {
            let members = unknown(state, &admissions);
            (members, behind(state, headers))
        });
        let Ok((members, documents)) = look.await else {
            return false;
        };
        let now = self.now_ms();
        let mut edits = Vec::new();
        for behind in documents {
            edits.extend(self.edit_of(behind).await);
        }
        let told = self.newest_told().await;
        let replacement = Replacement {
            generation,
            members,
            documents: edits,
            told: told.map(Box::new),
            at_ms: now,
        };
        let committed = self
            .commit(&ClusterEntry::Replacement(Box::new(replacement)))
            .await;
        let is_settled = committed.is_ok();
        self.copies().tell(match committed {
            Ok(_) => Event::Settled { generation },
            Err(error) => Event::Unsettled(error),
        });
        is_settled
    }

    /// What the members that can be reached were told last.
    async fn newest_told(&self) -> Option<ClusterMap> {
        let own = self.port.cluster_map();
        let known = own.as_ref().map_or(0, |told| told.version);
        let sights = self.sights().await;
        let is_other = |(id, sight): &(&MemberId, &MemberHealth)| {
            **id != self.me && sight.reach != Reach::Unreachable
        };
        let others: Vec<MemberId> = sights.iter().filter(is_other).map(|(id, _)| *id).collect();
        let mut newest = own.map(|told| (*told).clone());
        for some in others.chunks(ASKED_AT_ONCE) {
            let ask = |id: &MemberId| self.ask(*id, GetKnownClusterMap { known });
            let asked = some
                .iter()
                .map(|id| together::within(self.copies(), TOLD_LIMIT_MS, ask(id)));
            for answer in together::all(asked).await {
                if let Some(Ok(Some(told))) = answer
                    && newest.as_ref().is_none_or(|it| it.version < told.version)
                {
                    newest = Some(told);
                }
            }
        }
        newest
    }

    /// Puts in force what the mesh has in force, if its body is here; else what the copy has.
    async fn edit_of(&self, behind: Behind) -> Option<DocumentEdit> {
        let Behind { id, header, copy } = behind;
        let (version, body) = in_force(&header);
        let text = self.port.text(DocumentRef { id, version }).await;
        let text = text.filter(|text| Some(BodyId::of(text)) == body);
        let kept = match (text, body) {
            (Some(text), Some(body)) => {
                let kept = self.keep_here(&body.hash, &text);
                kept.is_ok()
                    .then_some((body, header.author.clone(), header.at_ms))
            }
            _ => None,
        };
        let Some((body, author, at_ms)) = kept.or(copy) else {
            self.copies().tell(Event::BodyNowhere {
                document: Some(id),
                why: None,
            });
            return None;
        };
        Some(DocumentEdit {
            id,
            base: header.version,
            body,
            author: author.parse().ok()?,
            at_ms,
            forced: true,
            creations: Vec::new(),
        })
    }
}

/// A document of which the mesh has newer versions than a copy of the cluster's log.
struct Behind {
    id: DocumentId,
    /// Of the newest version.
    header: Header,
    /// What is in force by the copy, whose it is, and since when.
    copy: Option<(BodyId, String, u64)>,
}

/// Admissions of which the state says something else.
fn unknown(
    state: &ClusterState,
    admissions: &BTreeMap<MemberId, MemberBody>,
) -> Vec<(MemberId, MemberBody)> {
    let is_news = |(id, body): &(&MemberId, &MemberBody)| match state.member(**id) {
        Some(member) => member.is_admitted() && body.state != AdmissionState::Admitted,
        None => true,
    };
    let news = admissions.iter().filter(is_news);
    news.map(|(id, body)| (*id, body.clone())).collect()
}

fn behind(state: &ClusterState, headers: BTreeMap<DocumentId, Header>) -> Vec<Behind> {
    let behind = |(id, header): (DocumentId, Header)| {
        let known = state.document(id);
        if known.is_some_and(|known| known.version() >= header.version) {
            return None;
        }
        let active = known.and_then(|known| known.revision(known.active()));
        let copy = active.map(|it| (it.body, it.author.to_string(), it.at_ms));
        Some(Behind { id, header, copy })
    };
    headers.into_iter().filter_map(behind).collect()
}

/// The version in force by a header, and its body.
fn in_force(header: &Header) -> (u64, Option<BodyId>) {
    match header.stage {
        HeaderStage::Active => (header.version, Some(header.body())),
        _ if header.active == header.version => (header.version, Some(header.body())),
        _ => (header.active, header.active_body),
    }
}
