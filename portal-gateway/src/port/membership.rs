//! The cluster that this node is in: who else is, how nodes come and go, and how it goes on after a loss.

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;
use muster_model::alarm::{Alarms, AlarmsAfter};
use muster_model::mesh::{
    ClusterView, CreatedToken, JoinPlan, Joined, MeshView, NewToken, RecoveryView, TokenView,
};
use muster_model::policy::PortalPlugin;

use super::{Caller, PortError};

/// What a request to join names.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinRequest {
    /// A member's address, `host` or `host:port`.
    pub address: String,
    /// The text of a token of that cluster.
    pub token: String,
}

impl fmt::Debug for JoinRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinRequest")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The cluster and its members.
#[async_trait]
pub trait Membership: std::fmt::Debug + Send + Sync {
    /// The cluster as this node sees it. Works without any other node.
    async fn view(&self) -> Result<MeshView, PortError>;
    /// The name of this node, as the cluster knows it.
    fn node_name(&self) -> String;
    /// Pages of elsewhere that the portal shows, by the policy in force here.
    fn plugins(&self) -> Vec<PortalPlugin>;
    /// What was wrong with the cluster since the agent's start as this node saw it, and what is. Works without
    /// any other node.
    async fn alarms(&self, after: &AlarmsAfter) -> Result<Alarms, PortError>;
    /// Gives the cluster of this machine a name, its own if that is empty, and opens its ports: others can
    /// join from now on. Refused where it has a name.
    async fn init(&self, name: &str) -> Result<ClusterView, PortError>;
    /// What keeps this node from joining a cluster. Changes nothing.
    async fn join_plan(&self) -> Result<JoinPlan, PortError>;
    /// Makes this node a member of another cluster. Refused while jobs are queued or running.
    async fn join(&self, request: &JoinRequest) -> Result<Joined, PortError>;
    /// Ends this node's membership; it is alone afterwards.
    async fn leave(&self) -> Result<(), PortError>;
    /// Ends another's membership, by its name.
    async fn expel(&self, caller: &Caller, member: &str) -> Result<(), PortError>;

    /// Has a virtual cluster that has lost most of its voters go on without these, which a caller says are
    /// lost for good; if none is named, the cluster itself. Without lost voters it changes nothing and
    /// tells how it would go on.
    async fn recover(
        &self,
        caller: &Caller,
        vc: Option<&str>,
        lost: &BTreeSet<String>,
    ) -> Result<RecoveryView, PortError>;

    /// Makes a token that admits nodes.
    async fn create_token(
        &self,
        caller: &Caller,
        token: NewToken,
    ) -> Result<CreatedToken, PortError>;
    /// Every token that was not forgotten yet, spent ones too.
    async fn tokens(&self) -> Result<Vec<TokenView>, PortError>;
    /// Makes a token admit nobody any more. Whom it admitted stays.
    async fn revoke_token(&self, id: &str) -> Result<(), PortError>;
}
