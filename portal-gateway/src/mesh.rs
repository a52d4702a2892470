//! The mesh as the gateway sees it: the second half of the port to the cluster. The agent
//! implements it for real.

use std::collections::BTreeSet;

use async_trait::async_trait;
use muster_model::finding::Finding;
use muster_model::mesh::{
    ClusterView, CreatedToken, DocumentText, DocumentView, Health, JoinPlan, Joined, MemberTask,
    MeshView, NewToken, RecoveryView, Scheduling, TokenView, VersionView,
};

use crate::cluster::{Caller, Error};

/// A new text for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The version that the author had before their eyes. The edit is refused if another one is
    /// the newest by now.
    pub base: u64,
    /// The whole new text.
    pub text: String,
    /// Skip the steps: in force everywhere at once. That is recorded.
    pub now: bool,
}

/// What is to hold of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewScheduling {
    /// What jobs may do there.
    pub scheduling: Scheduling,
    /// Why, for people.
    pub reason: String,
}

/// What a request to join names.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinRequest {
    /// A member's address, `host` or `host:port`.
    pub address: String,
    /// The text of a token of that cluster.
    pub token: String,
}

impl std::fmt::Debug for JoinRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinRequest")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The mesh behind the gateway. Whether the caller may ask is checked before; they are named
/// where that is recorded, or decides what they see.
#[async_trait]
pub trait Mesh: Send + Sync + 'static {
    /// The mesh as this node sees it. Works without any other node.
    async fn mesh(&self) -> Result<MeshView, Error>;
    /// How this node's agent is. Only looks at what is known: it is asked by anybody.
    async fn health(&self) -> Result<Health, Error>;
    /// Looks for everything that may be wrong here and on the way to other members. Takes
    /// seconds and some load.
    async fn doctor(&self) -> Result<Vec<Finding>, Error>;

    /// Gives the cluster of this machine a name, its own if that is empty, and opens its ports: others can
    /// join from now on. Refused where it has a name.
    async fn init_cluster(&self, caller: &Caller, name: &str) -> Result<ClusterView, Error>;
    /// What keeps this node from joining a cluster. Changes nothing.
    async fn join_plan(&self) -> Result<JoinPlan, Error>;
    /// Makes this node a member of another cluster. Refused while jobs are queued or running.
    async fn join(&self, caller: &Caller, request: &JoinRequest) -> Result<Joined, Error>;
    /// Ends this node's membership; it is alone afterwards.
    async fn leave(&self, caller: &Caller) -> Result<(), Error>;
    /// Ends another's membership, by its name.
    async fn expel(&self, caller: &Caller, member: &str) -> Result<(), Error>;

    /// Keeps jobs off a member, by its name, or lets them come again.
    async fn schedule(
        &self,
        caller: &Caller,
        member: &str,
        wanted: &NewScheduling,
    ) -> Result<(), Error>;
    /// The tasks that may be running on a member.
    async fn tasks_on(&self, member: &str) -> Result<Vec<MemberTask>, Error>;
    /// Takes a caller's word that a member is off: what ran there has ended, and may run elsewhere.
    /// Refused where the member can be reached. Answers the tasks that are given up.
    async fn say_off(&self, caller: &Caller, member: &str) -> Result<Vec<MemberTask>, Error>;

    /// How a virtual cluster would go on that has lost most of its voters; if none is named, the cluster
    /// itself. Changes nothing.
    async fn recovery(&self, caller: &Caller, vc: Option<&str>) -> Result<RecoveryView, Error>;
    /// Has it go on without these voters, which a caller says are lost for good.
    async fn recover(
        &self,
        caller: &Caller,
        vc: Option<&str>,
        lost: &BTreeSet<String>,
    ) -> Result<RecoveryView, Error>;

    /// Makes a token that admits nodes.
    async fn create_join_token(
        &self,
        caller: &Caller,
        token: NewToken,
    ) -> Result<CreatedToken, Error>;
    /// Every token that was not forgotten yet, spent ones too.
    async fn join_tokens(&self) -> Result<Vec<TokenView>, Error>;
    /// Makes a token admit nobody any more. Whom it admitted stays.
    async fn revoke_join_token(&self, caller: &Caller, id: &str) -> Result<(), Error>;

    /// Every document.
    async fn documents(&self) -> Result<Vec<DocumentView>, Error>;
    /// What is kept of a document's earlier versions, the newest first.
    async fn document_history(&self, name: &str) -> Result<Vec<VersionView>, Error>;
    /// A document's text at a version, the one in force here if none is named.
    async fn document_text(
        &self,
        caller: &Caller,
        name: &str,
        version: Option<u64>,
    ) -> Result<DocumentText, Error>;
    /// Gives a document a new text; answers its version. [`Error::DocumentConflict`] when `base`
    /// is not the newest.
    async fn edit_document(&self, caller: &Caller, name: &str, edit: Edit) -> Result<u64, Error>;
    /// Gives a document an earlier version's text again, as a new version, which is answered.
    async fn rollback_document(
        &self,
        caller: &Caller,
        name: &str,
        version: u64,
    ) -> Result<u64, Error>;
}
