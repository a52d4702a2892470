//! What the leader of a virtual cluster is asked; some of it a copy of its log as well. Whether its
//! user may ask it was checked by the gateway that took it, and whether they see the job by its node. Their
//! sight goes with a question whose answer lists jobs, or may name others than the one that it is about.

use std::collections::BTreeSet;

use muster_gossip::member::MemberId;
use muster_model::explanation::Explanation;
use muster_model::forecast::JobForecast;
use muster_model::id::{JobKey, NodeId, TaskId, UserName};
use muster_model::job_query::JobQuery;
use muster_model::known_node::KnownNode;
use muster_model::sight::JobSight;
use muster_model::usage::UsageView;
use muster_model::vc::{Amount, VcView, WhatIf};
use muster_model::vc_cells::VcCells;
use muster_model::view::{JobDetail, JobEvent, JobSummary, TaskView};
use serde::{Deserialize, Serialize};

use super::table::requests;
use super::{Json, Request};
use crate::coordinator::UnplaceableJob;
use crate::fence::Term;
use crate::vc::{AcceptedJob, NotFound, VcApplied, VcEntry, VcRejection};

requests! {
    /// What the leader of a virtual cluster is asked.
    VcRequest by OfVc:
        Submit,
        ChangeJob,
        GetTerm,
        RenewLease,
        ListWantedImages,
        ListJobs,
        FindJob,
        ShowJob,
        Explain,
        ListVcs,
        DescriptionVersion,
        GetJobsRevision,
        ListFoundTasks,
        TryDescription,
        ShowConfig,
        ListEvents,
        ShowTask,
        ListTasksOn,
        SayOff,
        GiveUp,
        ListUsed,
        ListNodes,
        ListUsage,
        ListCells,
        ForecastJob,
}

/// What a copy of the log answers too, with how old that is.
pub trait OfCopy: OfVc {}

impl OfCopy for ListJobs {}
impl OfCopy for FindJob {}
impl OfCopy for ShowJob {}
impl OfCopy for ShowConfig {}
impl OfCopy for ListEvents {}
impl OfCopy for ShowTask {}
impl OfCopy for ListUsed {}

/// Why a job was not taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NotTaken {
    /// The state refuses.
    Rejected(VcRejection),
    /// The cluster could never run it.
    Impossible(UnplaceableJob),
}

/// A job is to be taken, if the cluster could ever run it. It is known by the uid of its submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submit(
    /// The job.
    pub AcceptedJob,
);

impl Request for Submit {
    type Answer = Result<VcApplied, NotTaken>;

    fn changes(&self) -> bool {
        true
    }
}

/// What would become of a job if it were submitted now. Nothing is changed by it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForecastJob {
    /// The job.
    pub job: AcceptedJob,
    /// Which others may be named.
    pub sight: JobSight,
}

impl Request for ForecastJob {
    /// Or why it would not be taken.
    type Answer = Result<Json<JobForecast>, NotTaken>;
}

/// A user changes something about a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeJob(
    /// What.
    pub VcEntry,
);

impl Request for ChangeJob {
    type Answer = Result<VcApplied, VcRejection>;

    fn may_repeat(&self) -> bool {
        !matches!(self.0, VcEntry::RemoveTag { .. })
    }

    fn changes(&self) -> bool {
        true
    }
}

/// In which term it is led, by the word of a majority given after that was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GetTerm;

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentTerm {
    /// The generation of the virtual cluster.
    pub generation: u32,
    /// The term.
    pub term: Term,
    /// The number of the node that leads.
    pub leader: u64,
}

impl Request for GetTerm {
    type Answer = CurrentTerm;
}

/// A node asks for renewal of its run leases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RenewLease {
    /// Its name.
    pub node: NodeId,
}

impl Request for RenewLease {
    type Answer = ();
}

/// Which images jobs want.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListWantedImages;

impl Request for ListWantedImages {
    type Answer = BTreeSet<String>;
}

/// The jobs that are asked for, as far as they are seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListJobs {
    /// Which.
    pub query: JobQuery,
    /// What the user sees.
    pub sight: JobSight,
}

/// Jobs of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobList {
    /// The first of those that the filter takes, or all.
    pub jobs: Json<Vec<JobSummary>>,
    /// How many it takes of those that are seen.
    pub total: usize,
}

impl Request for ListJobs {
    type Answer = JobList;
}

/// One job, if there is one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindJob {
    /// Its name.
    pub job: JobKey,
    /// Which others may be named.
    pub sight: JobSight,
}

impl Request for FindJob {
    type Answer = Json<Option<JobSummary>>;
}

/// One job at an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowJob {
    /// The job.
    pub job: JobKey,
    /// The attempt; the latest if none is named.
    pub attempt: Option<u32>,
    /// Which others may be named.
    pub sight: JobSight,
}

impl Request for ShowJob {
    type Answer = Result<Json<JobDetail>, NotFound>;
}

/// Why a job waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explain {
    /// The job.
    pub job: JobKey,
    /// Which others may be named.
    pub sight: JobSight,
}

impl Request for Explain {
    type Answer = Result<Json<Explanation>, NotFound>;
}

/// Every virtual cluster, as this one's leader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListVcs;

impl Request for ListVcs {
    type Answer = Json<Vec<VcView>>;
}

/// The version of the description that it goes by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescriptionVersion;

impl Request for DescriptionVersion {
    /// None while that is not known.
    type Answer = Option<u64>;
}

/// What the jobs of a virtual cluster follow from: its group, and the last entry of the log that was applied.
/// While both are the same, so is every list of its jobs but for the reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GetJobsRevision;

impl Request for GetJobsRevision {
    type Answer = (u64, u64);
}

/// A description of what was found, promised to one virtual cluster: to be edited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListFoundTasks;

impl Request for ListFoundTasks {
    type Answer = String;
}

/// What these users, and the groups that they are in, have of what the policy limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListUsage(
    /// The users.
    pub BTreeSet<UserName>,
);

impl Request for ListUsage {
    type Answer = Json<Vec<UsageView>>;
}

/// What the virtual cluster is promised, cell by cell, and which of its jobs has what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListCells {
    /// Which jobs may be named.
    pub sight: JobSight,
}

impl Request for ListCells {
    type Answer = Json<VcCells>;
}

/// What would become of jobs and promises by a description.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TryDescription(
    /// Its text.
    pub String,
);

impl Request for TryDescription {
    /// Or what is wrong with it, line by line.
    type Answer = Result<Json<WhatIf>, Vec<String>>;
}

/// A job as it was submitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowConfig(
    /// The job.
    pub JobKey,
);

impl Request for ShowConfig {
    /// JSON.
    type Answer = Result<String, NotFound>;
}

/// What happened to a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListEvents {
    /// The job.
    pub job: JobKey,
    /// Which others may be named.
    pub sight: JobSight,
}

impl Request for ListEvents {
    type Answer = Result<Json<Vec<JobEvent>>, NotFound>;
}

/// A task of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowTask {
    /// The job.
    pub job: JobKey,
    /// The attempt.
    pub attempt: u32,
    /// The task.
    pub task: TaskId,
}

impl Request for ShowTask {
    type Answer = Result<Json<TaskView>, NotFound>;
}

/// The tasks that may be running on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListTasksOn(
    /// Its name.
    pub NodeId,
);

impl Request for ListTasksOn {
    type Answer = Vec<(JobKey, TaskId)>;
}

/// An admin says that a node is off: its tasks have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SayOff(
    /// Its name.
    pub NodeId,
);

impl Request for SayOff {
    type Answer = ();
}

/// A member is about to go: its copy of the log finds another place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GiveUp(
    /// The member.
    pub MemberId,
);

impl Request for GiveUp {
    type Answer = ();

    fn is_slow(&self) -> bool {
        true
    }
}

/// What tasks use of what the virtual cluster is promised: all that a copy knows of that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListUsed;

impl Request for ListUsed {
    type Answer = Amount;
}

/// Every node of the cluster, as this virtual cluster's leader knows it: members that it has not heard
/// yet too. Nodes report to all leaders, so that each knows what is in use for all virtual clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListNodes;

impl Request for ListNodes {
    type Answer = Vec<KnownNode>;
}
