//! Routes of the cluster, its documents and the doctor.

use http::Method;
use muster_model::alarm::{Alarms, AlarmsAfter};
use muster_model::finding::Finding;
use muster_model::health::HealthCheck;
use muster_model::inventory::InventoryProblem;
use muster_model::mesh::{
    ClusterView, CreatedToken, DocumentText, DocumentView, JoinPlan, Joined, MemberTask, MeshView,
    NewToken, RecoveryView, TokenView, VersionView,
};
use muster_model::rule_test::RuleTest;
use muster_model::storage::StorageGrant;
use muster_model::vc::WhatIf;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Api, encode};
use crate::client::understood;
use crate::error::CliError;

const CLUSTER: &str = "/api/muster/v1/cluster";
const DOCUMENTS: &str = "/api/muster/v1/documents";

/// The version that an edit made.
#[derive(Clone, Copy, Debug, Deserialize)]
struct CreatedVersion {
    version: u64,
}

fn recovery(vc: Option<&str>) -> String {
    match vc {
        Some(vc) => format!("/api/muster/v1/virtual-clusters/{}/recovery", encode(vc)),
        None => format!("{CLUSTER}/recovery"),
    }
}

impl Api {
    /// The mesh as the agent sees it.
    pub(crate) async fn mesh(&self) -> Result<MeshView, CliError> {
        self.client.get("cannot show the cluster", CLUSTER).await
    }

    /// What rules would say of the failures that all nodes keep.
    pub(crate) async fn test_rules(&self, text: String) -> Result<RuleTest, CliError> {
        let what = "cannot test the rules";
        let path = "/api/muster/v1/failure-rules/test";
        let answer = self.client.send_yaml(what, Method::POST, path, text);
        understood(what, &answer.await?)
    }

    /// The storages that the user may use; for an admin, all of them.
    pub(crate) async fn storages(&self) -> Result<Vec<StorageGrant>, CliError> {
        let path = "/api/muster/v1/storages";
        self.client.get("cannot list storages", path).await
    }

    /// The alarms of the agent's machine.
    pub(crate) async fn alarms(&self, after: &AlarmsAfter) -> Result<Alarms, CliError> {
        let boot = after.boot.as_deref().map(encode);
        let boot = boot.map_or_else(String::new, |boot| format!("&boot={boot}"));
        let path = format!("/api/muster/v1/alarms?after={}{boot}", after.number);
        self.client.get("cannot list alarms", &path).await
    }

    /// Gives the cluster of the agent's machine a name, and lets others join.
    pub(crate) async fn init_cluster(&self, name: &str) -> Result<ClusterView, CliError> {
        let what = "cannot name the cluster";
        self.client
            .post(what, CLUSTER, &json!({ "name": name }))
            .await
    }

    /// What keeps the node from joining a cluster.
    pub(crate) async fn join_plan(&self) -> Result<JoinPlan, CliError> {
        self.client
            .get("cannot join", &format!("{CLUSTER}/join"))
            .await
    }

    /// Joins a cluster.
    pub(crate) async fn join(&self, address: &str, token: &str) -> Result<Joined, CliError> {
        let body = json!({ "address": address, "token": token });
        self.client
            .post("cannot join", &format!("{CLUSTER}/join"), &body)
            .await
    }

    /// Leaves the cluster.
    pub(crate) async fn leave(&self) -> Result<(), CliError> {
        let path = format!("{CLUSTER}/leave");
        self.client
            .post::<Value>("cannot leave the cluster", &path, &json!({}))
            .await?;
        Ok(())
    }

    /// Expels a member.
    pub(crate) async fn expel(&self, member: &str) -> Result<(), CliError> {
        let what = format!("cannot expel {member}");
        self.client
            .delete(&what, &format!("{CLUSTER}/members/{}", encode(member)))
            .await
    }

    /// Keeps jobs off a member, or lets them come again.
    pub(crate) async fn schedule(&self, member: &str, body: &Value) -> Result<(), CliError> {
        let what = format!("cannot change {member}");
        let path = format!("{CLUSTER}/members/{}/scheduling", encode(member));
        self.client.put(&what, &path, body).await
    }

    /// What checks of a member's parts say.
    pub(crate) async fn health_on(&self, member: &str) -> Result<Vec<HealthCheck>, CliError> {
        let what = format!("cannot show the health of {member}");
        let path = format!("{CLUSTER}/members/{}/health", encode(member));
        self.client.get(&what, &path).await
    }

    /// Says something of a part of a member; answers what checks say of it then.
    pub(crate) async fn mark(
        &self,
        member: &str,
        body: &Value,
    ) -> Result<Vec<HealthCheck>, CliError> {
        let what = format!("cannot change a part of {member}");
        let path = format!("{CLUSTER}/members/{}/health", encode(member));
        self.client.post(&what, &path, body).await
    }

    /// Takes what a member has now for what it should have; answers what was missed until then.
    pub(crate) async fn accept(&self, member: &str) -> Result<Vec<InventoryProblem>, CliError> {
        let what = format!("cannot accept what {member} has");
        let path = format!("{CLUSTER}/members/{}/inventory/accept", encode(member));
        self.client.post(&what, &path, &json!({})).await
    }

    /// The tasks that may be running on a member.
    pub(crate) async fn tasks_on(&self, member: &str) -> Result<Vec<MemberTask>, CliError> {
        let what = format!("cannot show what runs on {member}");
        let path = format!("{CLUSTER}/members/{}/tasks", encode(member));
        self.client.get(&what, &path).await
    }

    /// Says that a member is off; answers the tasks that are given up.
    pub(crate) async fn say_off(&self, member: &str) -> Result<Vec<MemberTask>, CliError> {
        let what = format!("cannot take {member} for off");
        let path = format!("{CLUSTER}/members/{}/off", encode(member));
        self.client.post(&what, &path, &json!({})).await
    }

    /// How a virtual cluster would go on without most of its voters, or the cluster itself.
    pub(crate) async fn recovery(&self, vc: Option<&str>) -> Result<RecoveryView, CliError> {
        let what = format!("cannot recover {}", vc.unwrap_or("the cluster"));
        self.client.get(&what, &recovery(vc)).await
    }

    /// Has it go on without these.
    pub(crate) async fn recover(
        &self,
        vc: Option<&str>,
        lost: &[String],
    ) -> Result<RecoveryView, CliError> {
        let what = format!("cannot recover {}", vc.unwrap_or("the cluster"));
        self.client
            .post(&what, &recovery(vc), &json!({ "lost": lost }))
            .await
    }

    /// Makes a token.
    pub(crate) async fn create_token(&self, token: NewToken) -> Result<CreatedToken, CliError> {
        let NewToken {
            expires_s,
            uses,
            votes,
        } = token;
        let body = json!({ "expires_s": expires_s, "uses": uses, "votes": votes });
        self.client
            .post("cannot make a token", &format!("{CLUSTER}/tokens"), &body)
            .await
    }

    /// Every token.
    pub(crate) async fn join_tokens(&self) -> Result<Vec<TokenView>, CliError> {
        self.client
            .get("cannot list tokens", &format!("{CLUSTER}/tokens"))
            .await
    }

    /// Revokes a token.
    pub(crate) async fn revoke_token(&self, id: &str) -> Result<(), CliError> {
        let what = format!("cannot revoke {id}");
        self.client
            .delete(&what, &format!("{CLUSTER}/tokens/{}", encode(id)))
            .await
    }

    /// How far a document is.
    pub(crate) async fn document(&self, name: &str) -> Result<DocumentView, CliError> {
        let what = format!("cannot show {name}");
        self.client.get(&what, &format!("{DOCUMENTS}/{name}")).await
    }

    /// Earlier versions of a document.
    pub(crate) async fn history(&self, name: &str) -> Result<Vec<VersionView>, CliError> {
        let what = format!("cannot show {name}");
        let path = format!("{DOCUMENTS}/{name}/history");
        self.client.get(&what, &path).await
    }

    /// A document's text, at a version or as it is in force.
    pub(crate) async fn text(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<DocumentText, CliError> {
        let query = version.map_or_else(String::new, |version| format!("?version={version}"));
        let what = format!("cannot show {name}");
        let path = format!("{DOCUMENTS}/{name}/text{query}");
        self.client.get(&what, &path).await
    }

    /// Gives a document a new text; answers its version.
    pub(crate) async fn edit(
        &self,
        name: &str,
        base: u64,
        text: String,
        now: bool,
    ) -> Result<u64, CliError> {
        let what = format!("cannot apply {name}");
        let path = format!("{DOCUMENTS}/{name}?base={base}&now={now}");
        let answer = self.client.send_yaml(&what, Method::PUT, &path, text);
        let made: CreatedVersion = understood(&what, &answer.await?)?;
        Ok(made.version)
    }

    /// Gives a document an earlier version's text; answers the new version.
    pub(crate) async fn rollback(&self, name: &str, version: u64) -> Result<u64, CliError> {
        let what = format!("cannot go back to version {version}");
        let path = format!("{DOCUMENTS}/{name}/rollback?version={version}");
        let made: CreatedVersion = self.client.post(&what, &path, &json!({})).await?;
        Ok(made.version)
    }

    /// What would become of jobs and promises if the cluster were described so.
    pub(crate) async fn what_if(&self, text: String) -> Result<WhatIf, CliError> {
        let path = "/api/muster/v1/virtual-clusters/what-if";
        let what = "cannot describe the cluster so";
        let answer = self.client.send_yaml(what, Method::POST, path, text);
        understood(what, &answer.await?)
    }

    /// Has the agent look for what is wrong. Takes seconds.
    pub(crate) async fn doctor(&self) -> Result<Vec<Finding>, CliError> {
        self.client
            .post("cannot look", "/api/muster/v1/doctor", &json!({}))
            .await
    }
}
