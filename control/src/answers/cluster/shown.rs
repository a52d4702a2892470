//! What the mesh shows: who is a member, how each is seen, and what they say.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_gossip::Mesh;
use muster_gossip::documents::BodyVerdict;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use muster_gossip::record::{DocumentId, Header, MemberBody, Record, RecordKey};

use super::ClusterService;
use crate::answers::port::MemberPort;
use crate::cluster::{ActivationProgress, MemberHealth};
use crate::member::routing;

/// Members whose records a newcomer is given.
const SEEDS_MAX: usize = 32;

impl<P: MemberPort> ClusterService<P> {
    /// How members are seen; nobody once the mesh has ended.
    pub(super) async fn sights(&self) -> BTreeMap<MemberId, MemberHealth> {
        self.port.mesh(sights).await.unwrap_or_default()
    }

    /// Everybody who was ever admitted, as the cluster signed it last.
    pub(super) async fn admissions(&self) -> BTreeMap<MemberId, MemberBody> {
        self.port.mesh(admissions).await.unwrap_or_default()
    }

    /// The newest version of each document, as the cluster signed it last.
    pub(super) async fn headers(&self) -> BTreeMap<DocumentId, Header> {
        self.port.mesh(headers).await.unwrap_or_default()
    }

    /// Records that help a newcomer find its way.
    pub(super) async fn seeds(&self) -> Vec<Arc<Record>> {
        self.port.mesh(seeds).await.unwrap_or_default()
    }
}

pub(super) fn sights(mesh: &Mesh) -> BTreeMap<MemberId, MemberHealth> {
    let sight = |member: MemberId| MemberHealth {
        reach: mesh.reach(member),
        incarnation: mesh.incarnation_of(member),
    };
    mesh.members()
        .map(|member| (member, sight(member)))
        .collect()
}

/// How far documents have come.
pub(super) fn progress(mesh: &Mesh) -> BTreeMap<DocumentId, ActivationProgress> {
    let documents = mesh.documents().map(|(id, view)| {
        let reason = match &view.verdict {
            Some(BodyVerdict::Rejected(reason)) => Some((mesh.me(), reason.clone())),
            _ => None,
        };
        let progress = ActivationProgress {
            coverage: view.coverage,
            reasons: reason.into_iter().collect(),
        };
        (id, progress)
    });
    documents.collect()
}

fn admissions(mesh: &Mesh) -> BTreeMap<MemberId, MemberBody> {
    let ever = mesh.ever().filter_map(|id| mesh.member(id));
    ever.map(|member| (member.id, member.body.clone()))
        .collect()
}

fn headers(mesh: &Mesh) -> BTreeMap<DocumentId, Header> {
    let documents = mesh.documents();
    documents.map(|(id, view)| (id, view.header)).collect()
}

/// Which group holds the cluster state; admissions and addresses of some that can be reached: those
/// that settle these first.
fn seeds(mesh: &Mesh) -> Vec<Arc<Record>> {
    let alive = mesh
        .members()
        .filter(|member| mesh.reach(*member) == Reach::Alive);
    let (copied, others): (Vec<_>, Vec<_>) = alive
        .partition(|member| routing::record(mesh, *member).is_some_and(|it| !it.copies.is_empty()));
    let keys = copied
        .into_iter()
        .chain(others)
        .take(SEEDS_MAX)
        .flat_map(|member| [RecordKey::Member(member), RecordKey::Node(member)]);
    let keys = std::iter::once(RecordKey::Replacement).chain(keys);
    keys.filter_map(|key| mesh.record(key).cloned()).collect()
}
