//! The service of the cluster at this node: what it runs on, and its loop. Its answers and decisions are in
//! [`muster_control::answers::cluster`].

pub(crate) mod bodies;
pub(crate) mod leading;

use std::net::SocketAddr;
use std::sync::Arc;

use muster_control::answers::port::{NextTokenKey, WantedToken};
use muster_control::answers::{self, MemberPort};
use muster_control::cluster::{ClusterMap, Hidden, Keys, Lineage, Secret};
use muster_control::request::RequestFailure;
use muster_control::request::member::MemberRequest;
use muster_gossip::Mesh;
use muster_gossip::documents::DocumentsInput as DocumentInput;
use muster_gossip::frame::DocumentRef;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::MeshInput;
use muster_gossip::net::keys::Ed25519Signer;
use muster_gossip::record::{DocumentId, Record};
use muster_model::id::UserName;
use muster_model::login::LoginTrust;
use muster_model::people::{NewPassword, PeopleDenial};
use muster_model::policy::BreakerPolicy;
use muster_portal_gateway::token::{self, UnsignedToken};
use tokio::sync::{Mutex, Notify};
use tokio::task::block_in_place;

use crate::accounts::Accounts;
use crate::documents;
use crate::documents::policy::PolicyInForce;
use crate::groups::{ClusterGroup, Groups};
use crate::keyring;
use crate::mesh_file::MeshFile;
use crate::passwords::PasswordChecks;
use crate::requests::PeerClient;
use bodies::Bodies;

/// The service of the cluster, on this node.
pub(crate) type NodeClusterService = answers::cluster::ClusterService<Here>;

/// What it runs on at this node.
pub(crate) struct Here {
    /// This node's copies of groups, and which of them holds the cluster state.
    pub(crate) group: ClusterGroup,
    /// The mesh, and the way to the others.
    pub(crate) way: PeerClient,
    /// Where this node can be joined.
    pub(crate) address: SocketAddr,
    /// Rings when there is a newer cluster map.
    pub(crate) bell: Arc<Notify>,
    /// The mesh's disk.
    pub(crate) mesh_file: Arc<Mutex<MeshFile>>,
    /// What this node was told.
    pub(crate) accounts: Accounts,
    /// Bodies beside the log.
    pub(crate) bodies: Bodies,
    /// The policy that this node goes by.
    pub(crate) policy: PolicyInForce,
    /// Where passwords are checked.
    pub(crate) checks: PasswordChecks,
}

impl std::fmt::Debug for Here {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Here").finish_non_exhaustive()
    }
}

impl MemberPort for Here {
    type Copies = Groups;
    type Signer = Ed25519Signer;

    fn copies(&self) -> &Groups {
        self.group.groups()
    }

    fn signer(&self, secret: &Secret) -> Option<Ed25519Signer> {
        Ed25519Signer::from_bytes(&secret.0).ok()
    }

    fn fill(&self, bytes: &mut [u8]) {
        rand::fill(bytes);
    }

    fn lineage(&self) -> Lineage {
        self.group.lineage()
    }

    async fn mesh<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Mesh) -> T + Send + 'static,
    ) -> Option<T> {
        self.way.mesh.look(look).await.ok()
    }

    async fn publish(&self, records: Vec<Arc<Record>>, bodies: Vec<(DocumentRef, Arc<[u8]>)>) {
        let mesh = &self.way.mesh;
        for record in records {
            // The task that runs the mesh reports its end.
            let _ = mesh.input(MeshInput::Record(record)).await;
        }
        for (document, body) in bodies {
            let input = DocumentInput::Body { document, body };
            let _ = mesh.input(MeshInput::Document(input)).await;
        }
    }

    async fn ask(
        &self,
        member: MemberId,
        request: MemberRequest,
    ) -> Result<Vec<u8>, RequestFailure> {
        self.way.ask_member(member, request).await
    }

    fn cluster_map(&self) -> Option<Arc<ClusterMap>> {
        self.accounts.cluster_map()
    }

    fn brief(&self) {
        self.bell.notify_one();
    }

    fn address(&self) -> String {
        self.address.to_string()
    }

    async fn text(&self, document: DocumentRef) -> Option<Arc<[u8]>> {
        let mut mesh_file = Arc::clone(&self.mesh_file).lock_owned().await;
        let reading = tokio::task::spawn_blocking(move || mesh_file.body(document));
        reading.await.ok()?.ok()?
    }

    fn keep_body(&self, hash: &[u8; 32], body: &[u8]) -> Result<(), String> {
        let kept = block_in_place(|| self.bodies.keep(hash, body));
        kept.map_err(|error| error.to_string())
    }

    fn read_body(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, String> {
        let found = block_in_place(|| self.bodies.read(hash));
        found.map_err(|error| error.to_string())
    }

    fn has_body(&self, hash: &[u8; 32]) -> bool {
        block_in_place(|| self.bodies.has(hash))
    }

    fn retain_bodies(&self, wanted: &[[u8; 32]]) {
        block_in_place(|| self.bodies.retain(wanted));
    }

    fn soak_ms(&self) -> u64 {
        u64::from(self.policy.now().documents.soak_s) * 1000
    }

    fn breaker(&self) -> BreakerPolicy {
        self.policy.now().health.breaker.clone()
    }

    fn is_staged(&self, document: DocumentId) -> bool {
        documents::about(document).is_none_or(|about| about.is_staged)
    }

    async fn is_right(
        &self,
        hash: Option<Hidden<String>>,
        password: Hidden<String>,
        trust: LoginTrust,
    ) -> Option<bool> {
        self.checks.is_right(hash, password, trust).await.ok()
    }

    async fn hash(
        &self,
        user: &UserName,
        password: NewPassword,
    ) -> Result<Hidden<String>, PeopleDenial> {
        self.checks.hash(user, password).await
    }

    fn token(&self, keys: &Keys, wanted: &WantedToken<'_>) -> Result<Hidden<String>, String> {
        let token = UnsignedToken {
            user: wanted.user,
            kind: wanted.kind,
            at_s: wanted.at_s,
            expires_s: wanted.expires_s,
            id: wanted.id,
        };
        let issued = keyring::issuer(keys).and_then(|issuer| issuer.issue(&token));
        issued.map(Hidden).map_err(|error| error.to_string())
    }

    fn next_token_key(&self, keys: &Keys) -> Result<NextTokenKey, String> {
        next_token_key(keys).map_err(|error| error.to_string())
    }
}

fn next_token_key(keys: &Keys) -> Result<NextTokenKey, token::AuthTokenError> {
    Ok(NextTokenKey {
        key: Hidden(token::new_key()?),
        public_before: token::public_half(&keys.token.0)?,
    })
}
