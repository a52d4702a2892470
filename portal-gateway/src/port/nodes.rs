//! Nodes: this one, those of the cluster, what may run on them, and the virtual clusters that share them.

use std::collections::BTreeSet;

use async_trait::async_trait;
use muster_model::finding::Finding;
use muster_model::health::{HealthCheck, PersonMark};
use muster_model::id::{UserName, VcName};
use muster_model::image::ImageView;
use muster_model::inventory::InventoryProblem;
use muster_model::known_node::KnownNode;
use muster_model::mesh::{Health, MemberTask, Scheduling};
use muster_model::node::NodeView;
use muster_model::sight::JobSight;
use muster_model::usage::UsageView;
use muster_model::vc::{VcView, WhatIf};
use muster_model::vc_cells::VcCells;

use super::{Caller, PortError};

/// The virtual cluster of everything that no quota names.
pub const DEFAULT_VC: &str = muster_model::cluster_spec::EVERYTHING;

/// What is to hold of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewScheduling {
    /// What jobs may do there.
    pub scheduling: Scheduling,
    /// Why, for people.
    pub reason: String,
}

/// What is used of what the policy limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundUsage {
    /// By virtual cluster, and user or group.
    pub usage: Vec<UsageView>,
    /// Virtual clusters whose leaders do not answer.
    pub away: Vec<VcName>,
}

/// Nodes. [`PortError::NoMember`] where there is none of that name.
#[async_trait]
pub trait Nodes: std::fmt::Debug + Send + Sync {
    /// Every node of the cluster. An error where they are not known: never a part of them.
    async fn list(&self) -> Result<Vec<KnownNode>, PortError>;
    /// Every virtual cluster.
    async fn virtual_clusters(&self) -> Result<Vec<VcView>, PortError>;
    /// What a virtual cluster is promised, cell by cell, and which of its jobs has what: named as far as they are
    /// seen. [`PortError::NoVc`] where there is none of that name.
    async fn cells(&self, sight: &JobSight, vc: &str) -> Result<VcCells, PortError>;
    /// What these users, and the groups that they are in, have of what the policy limits.
    async fn usage(&self, users: BTreeSet<UserName>) -> Result<FoundUsage, PortError>;
    /// What would become of jobs and promises if the cluster were described so.
    /// [`PortError::InvalidDocument`] when it cannot be.
    async fn what_if(&self, text: &str) -> Result<WhatIf, PortError>;

    /// This node.
    async fn this(&self) -> Result<NodeView, PortError>;
    /// How this node's agent is. Only looks at what is known: it is asked by anybody.
    async fn health(&self) -> Result<Health, PortError>;
    /// Looks for everything that may be wrong here and on the way to other members. Takes
    /// seconds and some load.
    async fn doctor(&self) -> Result<Vec<Finding>, PortError>;

    /// Keeps jobs off a member, by its name, or lets them come again.
    async fn schedule(
        &self,
        caller: &Caller,
        member: &str,
        wanted: &NewScheduling,
    ) -> Result<(), PortError>;
    /// The tasks that may be running on a member: all of them, and named as far as their jobs are seen.
    async fn tasks_on(&self, sight: &JobSight, member: &str) -> Result<Vec<MemberTask>, PortError>;
    /// The images of a member. [`PortError::Unavailable`] where it does not answer.
    async fn images_on(&self, member: &str) -> Result<Vec<ImageView>, PortError>;
    /// What checks of a member's parts say, good ones included. [`PortError::Unavailable`] where
    /// it does not answer.
    async fn health_on(&self, member: &str) -> Result<Vec<HealthCheck>, PortError>;
    /// Takes a person's word on a part of a member: a device by its id, index or PCI address, a
    /// port as `mlx5_0/1`, or `machine`. Answers what checks say of it then.
    /// [`PortError::NoPart`] where the member has no such part.
    async fn mark(
        &self,
        member: &str,
        part: &str,
        mark: PersonMark,
    ) -> Result<Vec<HealthCheck>, PortError>;
    /// Takes what a member has now for what it should have. Answers what was missed until then.
    async fn accept_inventory(&self, member: &str) -> Result<Vec<InventoryProblem>, PortError>;
    /// Takes a caller's word that a member is off: what ran there has ended, and may run elsewhere.
    /// Refused where the member can be reached. Answers the tasks that are given up.
    async fn say_off(&self, caller: &Caller, member: &str) -> Result<Vec<MemberTask>, PortError>;
}
