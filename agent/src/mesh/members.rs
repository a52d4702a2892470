//! The mesh as the cluster's affairs see it: who is a member, how each is seen, and what they say.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use muster_control::cluster::{Briefing, Progress, Sight};
use muster_control::member::{MembersSeen, routing};
use muster_control::request::Failure;
use muster_control::request::member::MemberRequest;
use muster_gossip::Mesh;
use muster_gossip::documents::Input as DocumentInput;
use muster_gossip::frame::DocumentRef;
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Input;
use muster_gossip::record::{DocumentId, Header, MemberBody, Record, RecordKey};
use tokio::sync::{Mutex, Notify};

use crate::accounts::Accounts;
use crate::affairs::Members;
use crate::mesh_file::MeshFile;
use crate::requests::Way;

/// Members whose records a newcomer is given.
const SEEDS_MAX: usize = 32;

/// The mesh as the cluster's affairs see it.
pub(super) struct MeshMembers {
    /// The way to the others.
    pub(super) way: Way,
    /// The cluster.
    pub(super) cluster: ClusterId,
    /// Where this node can be joined.
    pub(super) address: SocketAddr,
    /// Rings when there is a newer briefing.
    pub(super) bell: Arc<Notify>,
    /// The disk.
    pub(super) mesh_file: Arc<Mutex<MeshFile>>,
    /// What this node was told.
    pub(super) accounts: Accounts,
}

#[async_trait]
impl Members for MeshMembers {
    async fn publish(&self, records: Vec<Arc<Record>>, bodies: Vec<(DocumentRef, Arc<[u8]>)>) {
        let mesh = &self.way.mesh;
        for record in records {
            // A mesh that has ended is told of by whoever runs it.
            let _ = mesh.input(Input::Record(record)).await;
        }
        for (document, body) in bodies {
            let input = DocumentInput::Body { document, body };
            let _ = mesh.input(Input::Document(input)).await;
        }
    }

    async fn sights(&self) -> (BTreeMap<MemberId, Sight>, BTreeMap<DocumentId, Progress>) {
        let look = self.way.mesh.look(|mesh| (sights(mesh), progress(mesh)));
        look.await.unwrap_or_default()
    }

    async fn seen(&self) -> Option<MembersSeen> {
        let cluster = self.cluster;
        let look = self
            .way
            .mesh
            .look(move |mesh| MembersSeen::of(mesh, cluster));
        look.await.ok()
    }

    async fn admissions(&self) -> BTreeMap<MemberId, MemberBody> {
        let look = self.way.mesh.look(|mesh| {
            let ever = mesh.ever().filter_map(|id| mesh.member(id));
            ever.map(|member| (member.id, member.body.clone()))
                .collect()
        });
        look.await.unwrap_or_default()
    }

    async fn headers(&self) -> BTreeMap<DocumentId, Header> {
        let look = self.way.mesh.look(|mesh| {
            let documents = mesh.documents();
            documents.map(|(id, view)| (id, view.header)).collect()
        });
        look.await.unwrap_or_default()
    }

    async fn body(&self, document: DocumentRef) -> Option<Arc<[u8]>> {
        let mut mesh_file = Arc::clone(&self.mesh_file).lock_owned().await;
        let reading = tokio::task::spawn_blocking(move || mesh_file.body(document));
        reading.await.ok()?.ok()?
    }

    fn briefing(&self) -> Option<Arc<Briefing>> {
        self.accounts.briefing()
    }

    async fn seeds(&self) -> Vec<Arc<Record>> {
        self.way.mesh.look(seeds).await.unwrap_or_default()
    }

    async fn ask(&self, member: MemberId, request: MemberRequest) -> Result<Vec<u8>, Failure> {
        self.way.ask_member(member, request).await
    }

    fn brief(&self) {
        self.bell.notify_one();
    }

    fn address(&self) -> String {
        self.address.to_string()
    }
}

fn sights(mesh: &Mesh) -> BTreeMap<MemberId, Sight> {
    let sight = |member: MemberId| Sight {
        reach: mesh.reach(member),
        incarnation: mesh.incarnation_of(member),
    };
    mesh.members()
        .map(|member| (member, sight(member)))
        .collect()
}

fn progress(mesh: &Mesh) -> BTreeMap<DocumentId, Progress> {
    let documents = mesh.documents().map(|(id, view)| {
        let reason = match &view.verdict {
            Some(muster_gossip::documents::Verdict::Rejected(reason)) => {
                Some((mesh.me(), reason.clone()))
            }
            _ => None,
        };
        let progress = Progress {
            coverage: view.coverage,
            reasons: reason.into_iter().collect(),
        };
        (id, progress)
    });
    documents.collect()
}

/// Which group settles the cluster's affairs; admissions and addresses of some that can be reached: those
/// that settle these first.
fn seeds(mesh: &Mesh) -> Vec<Arc<Record>> {
    let alive = mesh
        .members()
        .filter(|member| mesh.reach(*member) == muster_gossip::mesh::Reach::Alive);
    let (copied, others): (Vec<_>, Vec<_>) = alive
        .partition(|member| routing::record(mesh, *member).is_some_and(|it| !it.copies.is_empty()));
    let keys = copied
        .into_iter()
        .chain(others)
        .take(SEEDS_MAX)
        .flat_map(|member| [RecordKey::Member(member), RecordKey::Node(member)]);
    let keys = std::iter::once(RecordKey::Succession).chain(keys);
    keys.filter_map(|key| mesh.record(key).cloned()).collect()
}
