//! This node's membership, and the cluster that it is in.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use muster_control::request::cluster::{CreateToken, ListTokens, Recover, RevokeToken};
use muster_control::request::member::RecoverCluster;
use muster_control::request::{RequestFailure, RequestRefusal};
use muster_model::alarm::{Alarms as Answer, AlarmsAfter};
use muster_model::mesh::{
    ClusterView, CreatedToken, JoinPlan, Joined, MeshView, NewToken, RecoveryView, TokenView,
};
use muster_model::policy::PortalPlugin;
use muster_portal_gateway::port::{Caller, JoinRequest, Membership, PortError};

use super::errors::{told, told_of};
use crate::accounts::Accounts;
use crate::alarms::Alarms;
use crate::certificate::CertificateNow;
use crate::documents::DocumentKinds;
use crate::documents::policy::PolicyInForce;
use crate::mesh::{self, Service};
use crate::vc::VcHandle;

/// The membership of this node.
#[derive(Debug)]
pub(super) struct LocalMembership {
    pub(super) mesh: Arc<Service>,
    pub(super) vc: VcHandle,
    pub(super) accounts: Accounts,
    pub(super) alarms: Alarms,
    pub(super) documents: DocumentKinds,
    pub(super) policy: PolicyInForce,
    /// REST's certificate, if it has one.
    pub(super) certificate: CertificateNow,
}

#[async_trait]
impl Membership for LocalMembership {
    async fn view(&self) -> Result<MeshView, PortError> {
        self.seen().await
    }

    fn node_name(&self) -> String {
        self.mesh.node().to_string()
    }

    fn plugins(&self) -> Vec<PortalPlugin> {
        self.policy.now().portal.plugins
    }

    async fn alarms(&self, after: &AlarmsAfter) -> Result<Answer, PortError> {
        Ok(self.alarms.after(after))
    }

    async fn init(&self, name: &str) -> Result<ClusterView, PortError> {
        self.mesh.init(name).await.map_err(told)
    }

    async fn join_plan(&self) -> Result<JoinPlan, PortError> {
        self.mesh.check_membership().await.map_err(told)?;
        let jobs = self.vc.all_jobs().await?;
        let open = jobs.iter().filter(|job| !job.state().is_final());
        Ok(JoinPlan {
            jobs: open.map(|job| job.key.to_string()).collect(),
        })
    }

    async fn join(&self, request: &JoinRequest) -> Result<Joined, PortError> {
        let plan = self.join_plan().await?;
        if let Some(job) = plan.jobs.first() {
            return Err(PortError::NotNow(format!(
                "{} jobs are queued or running here, {job} among them; stop them or wait for them \
                 before this node joins a cluster",
                plan.jobs.len()
            )));
        }
        self.mesh
            .join(&request.address, &request.token)
            .await
            .map_err(told)
    }

    async fn leave(&self) -> Result<(), PortError> {
        self.mesh.leave().await.map_err(told)
    }

    async fn expel(&self, caller: &Caller, member: &str) -> Result<(), PortError> {
        let expelled = self.mesh.expel(member.to_owned(), caller.user.to_string());
        let missing = || PortError::NoMember(member.to_owned());
        expelled.await.map_err(|error| told_of(error, missing))
    }

    async fn recover(
        &self,
        caller: &Caller,
        vc: Option<&str>,
        lost: &BTreeSet<String>,
    ) -> Result<RecoveryView, PortError> {
        let (lost, by) = (lost.clone(), caller.user.to_string());
        let recovered = match vc {
            Some(vc) => {
                let vc = vc.to_owned();
                self.mesh.ask(Recover { vc, lost, by }).await
            }
            // The leader that would be asked for it is what is lost.
            None => {
                let member = self.mesh.member();
                let request = RecoverCluster { lost, by };
                let recovered = member.requests().member(member.me, request).await;
                recovered.map_err(mesh::MeshError::from)
            }
        };
        recovered.map_err(|error| match error {
            mesh::MeshError::Undone(RequestFailure::Refused(RequestRefusal::Invalid(why))) => {
                PortError::NotNow(why)
            }
            error => told_of(error, || PortError::NoVc(vc.unwrap_or_default().to_owned())),
        })
    }

    async fn create_token(
        &self,
        caller: &Caller,
        token: NewToken,
    ) -> Result<CreatedToken, PortError> {
        let by = caller.user.to_string();
        let created = self.mesh.ask(CreateToken { token, by }).await;
        created.map_err(told)
    }

    async fn tokens(&self) -> Result<Vec<TokenView>, PortError> {
        self.mesh.ask(ListTokens).await.map_err(told)
    }

    async fn revoke_token(&self, id: &str) -> Result<(), PortError> {
        let revoked = self.mesh.ask(RevokeToken { id: id.to_owned() }).await;
        revoked.map_err(|error| told_of(error, || PortError::NoJoinToken(id.to_owned())))
    }
}
