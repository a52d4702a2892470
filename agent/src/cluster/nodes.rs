//! Nodes: this one, those that may run tasks, and the virtual clusters that share them.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use muster_control::request::cluster::Schedule;
use muster_control::request::member::{
    AcceptInventory, ListHealth, ListImages, MarkPart, OfMember,
};
use muster_control::request::{Answers, Json, RequestFailure, RequestRefusal};
use muster_model::finding::Finding;
use muster_model::health::{HealthCheck, PersonMark};
use muster_model::id::{JobKey, NodeId, TaskId, UserName, VcName};
use muster_model::image::ImageView;
use muster_model::inventory::InventoryProblem;
use muster_model::known_node::KnownNode;
use muster_model::mesh::{Health, MemberReach, MemberTask};
use muster_model::node::NodeView;
use muster_model::sight::JobSight;
use muster_model::vc::{VcView, WhatIf};
use muster_model::vc_cells::VcCells;
use muster_portal_gateway::port::{Caller, FoundUsage, Images, NewScheduling, Nodes, PortError};

use super::errors::told_of;
use super::membership::LocalMembership;
use crate::doctor::Doctor;
use crate::node_status::NodeStatus;
use crate::requests::RequestRouter;

/// The nodes of this cluster.
#[derive(Debug)]
pub(super) struct LocalNodes {
    /// This one, and the virtual clusters.
    pub(super) node: NodeStatus,
    pub(super) doctor: Doctor,
    pub(super) membership: Arc<LocalMembership>,
}

impl LocalNodes {
    /// A member's number by its name.
    async fn member(&self, name: &str) -> Result<NodeId, PortError> {
        let missing = || PortError::NoMember(name.to_owned());
        let node: NodeId = name.parse().map_err(|_| missing())?;
        match self.membership.seen().await?.has_had(name) {
            true => Ok(node),
            false => Err(missing()),
        }
    }

    /// Asks another member for what it alone answers.
    async fn of_member<R: OfMember>(&self, node: NodeId, request: R) -> Result<R::Answer, PortError>
    where
        RequestRouter: Answers<R>,
    {
        let name = node.to_string();
        match self.node.vc.of_node(node, request).await {
            Some(answer) => answer.map_err(of_part),
            None => Err(PortError::Unavailable(format!(
                "{name} does not answer; try again when it can be reached"
            ))),
        }
    }
}

/// A member's refusal: what it does not have is a part.
fn of_part(failure: RequestFailure) -> PortError {
    match failure {
        RequestFailure::Refused(RequestRefusal::Missing(part)) => PortError::NoPart(part),
        other => PortError::Unavailable(other.to_string()),
    }
}

#[async_trait]
impl Nodes for LocalNodes {
    async fn list(&self) -> Result<Vec<KnownNode>, PortError> {
        Ok(self.node.vc.nodes().await?)
    }

    async fn virtual_clusters(&self) -> Result<Vec<VcView>, PortError> {
        Ok(self.node.vc.virtual_clusters().await?)
    }

    async fn cells(&self, sight: &JobSight, vc: &str) -> Result<VcCells, PortError> {
        let found = self.node.vc.cells(vc, sight).await?;
        found.ok_or_else(|| PortError::NoVc(vc.to_owned()))
    }

    async fn usage(&self, users: BTreeSet<UserName>) -> Result<FoundUsage, PortError> {
        Ok(self.node.vc.usage(users).await?)
    }

    async fn what_if(&self, text: &str) -> Result<WhatIf, PortError> {
        let what = self.node.vc.what_if(text.to_owned()).await?;
        what.map_err(PortError::InvalidDocument)
    }

    async fn this(&self) -> Result<NodeView, PortError> {
        let view = self.node.view().await;
        let mut view = view.ok_or_else(|| PortError::Unavailable("the agent is ending".into()))?;
        view.rack = self.membership.mesh.rack().await;
        Ok(view)
    }

    async fn health(&self) -> Result<Health, PortError> {
        Ok(self.node.health().await)
    }

    async fn doctor(&self) -> Result<Vec<Finding>, PortError> {
        let findings = self.doctor.examine().await;
        findings.ok_or_else(|| {
            PortError::NotNow(
                "the doctor is at work already; ask again in a few seconds".to_owned(),
            )
        })
    }

    async fn schedule(
        &self,
        caller: &Caller,
        member: &str,
        wanted: &NewScheduling,
    ) -> Result<(), PortError> {
        let NewScheduling { scheduling, reason } = wanted.clone();
        let request = Schedule {
            member: member.to_owned(),
            scheduling: Json(scheduling),
            reason,
            by: caller.user.to_string(),
        };
        let scheduled = self.membership.mesh.ask(request).await;
        scheduled.map_err(|error| told_of(error, || PortError::NoMember(member.to_owned())))?;
        // So that the next listing from this node shows it.
        self.membership
            .mesh
            .member()
            .cluster_maps()
            .refresh_now()
            .await;
        Ok(())
    }

    async fn tasks_on(&self, sight: &JobSight, member: &str) -> Result<Vec<MemberTask>, PortError> {
        let missing = || PortError::NoMember(member.to_owned());
        let node = member.parse().map_err(|_| missing())?;
        if !self.membership.seen().await?.has_had(member) {
            return Err(missing());
        }
        let found = self.node.vc.tasks_on(node).await?;
        match found.away.first() {
            // An administrator who empties the machine must not take it for empty.
            Some(vc) => Err(PortError::Unavailable(format!(
                "it is not known what virtual cluster {vc} has on {member}: its leader does not \
                 answer; try again"
            ))),
            None => Ok(member_tasks(found.tasks, sight)),
        }
    }

    async fn images_on(&self, member: &str) -> Result<Vec<ImageView>, PortError> {
        let node = self.member(member).await?;
        if node == self.node.identity.node {
            return Images::list(&*self.node.images).await;
        }
        self.of_member(node, ListImages).await
    }

    async fn health_on(&self, member: &str) -> Result<Vec<HealthCheck>, PortError> {
        let node = self.member(member).await?;
        if node == self.node.identity.node {
            return Ok(self.node.health.now().checks);
        }
        self.of_member(node, ListHealth).await
    }

    async fn mark(
        &self,
        member: &str,
        part: &str,
        mark: PersonMark,
    ) -> Result<Vec<HealthCheck>, PortError> {
        let node = self.member(member).await?;
        let request = MarkPart {
            part: part.to_owned(),
            mark,
        };
        if node == self.node.identity.node {
            let parts = &self.node.parts;
            let marked = parts.mark_part(&request.part, request.mark).await;
            return marked.map_err(of_part);
        }
        self.of_member(node, request).await
    }

    async fn accept_inventory(&self, member: &str) -> Result<Vec<InventoryProblem>, PortError> {
        let node = self.member(member).await?;
        if node == self.node.identity.node {
            return self.node.parts.accept().await.map_err(of_part);
        }
        self.of_member(node, AcceptInventory).await
    }

    async fn say_off(&self, caller: &Caller, member: &str) -> Result<Vec<MemberTask>, PortError> {
        let view = self.membership.seen().await?;
        let missing = || PortError::NoMember(member.to_owned());
        if !view.has_had(member) {
            return Err(missing());
        }
        // Who is no member any more is heard by nobody, and may have left tasks.
        let mut members = view.admitted();
        let found = members.find(|one| one.name == member);
        if found.is_some_and(|one| one.reach != MemberReach::Unreachable) {
            return Err(PortError::NotNow(format!(
                "{member} is not unreachable, as {} sees it: wait until it is, or `muster drain` it",
                view.me
            )));
        }
        let node: NodeId = member.parse().map_err(|_| missing())?;
        let found = self.node.vc.tasks_on(node.clone()).await?;
        let away = self.node.vc.off(node).await?;
        let tasks = member_tasks(found.tasks, &JobSight::All);
        tracing::warn!(member, by = %caller.user, tasks = tasks.len(), ?away, "said to be off");
        match away.first() {
            Some(vc) => Err(PortError::Unavailable(format!(
                "{} on {member} given up, but not those that virtual cluster {vc} has there: nobody leads \
                 it, or its leader reaches the machine; say it again later",
                match tasks.len() {
                    1 => "1 task is".to_owned(),
                    count => format!("{count} tasks are"),
                }
            ))),
            None => Ok(tasks),
        }
    }
}

/// Tasks of a member, as they are shown: each of them, and named as far as its job is seen.
fn member_tasks(tasks: Vec<(VcName, JobKey, TaskId)>, sight: &JobSight) -> Vec<MemberTask> {
    let shown = tasks.into_iter().map(|(vc, job, task)| {
        let is_seen = sight.sees(&vc, &job.user);
        MemberTask {
            job: is_seen.then(|| job.to_string()),
            task: is_seen.then(|| task.to_string()),
        }
    });
    shown.collect()
}
