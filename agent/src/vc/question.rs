//! What the leader of a virtual cluster is asked, and what it answers. JSON between members.

use std::collections::BTreeSet;

use muster_control::coordinator::Refused;
use muster_control::fence::Term;
use muster_control::vc::{AcceptedJob, Applied, Entry, NotFound, Rejected};
use muster_model::explanation::Explanation;
use muster_model::id::{JobKey, NodeId, TaskId};
use muster_model::vc::{Amount, VcView, WhatIf};
use muster_model::view::{Event, JobDetail, JobSummary, TaskView};
use muster_portal_gateway::cluster::JobQuery;
use serde::{Deserialize, Serialize};

/// A question. Whether its user may ask it was checked by the gateway that took it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// A job is to be taken, if the cluster could ever run it.
    Submit(Box<AcceptedJob>),
    /// A user changes something about a job.
    Change(Box<Entry>),
    /// In which term does it lead?
    Term,
    /// A node asks for renewal of its run leases.
    Renew(NodeId),
    /// Which images do jobs want?
    ImagesWanted,
    /// The jobs that are asked for.
    Jobs(Box<JobQuery>),
    /// One job.
    Job(JobKey),
    /// One job at an attempt, the latest if none is named.
    Detail {
        /// The job.
        job: JobKey,
        /// The attempt.
        attempt: Option<u32>,
    },
    /// Why a job waits.
    Explanation(JobKey),
    /// Every virtual cluster.
    VirtualClusters,
    /// By which version of the description does it go?
    Description,
    /// A description of what was found, promised to one virtual cluster.
    Found,
    /// What would become of jobs and promises by this description?
    WhatIf(String),
    /// A job as it was submitted.
    Config(JobKey),
    /// What happened to a job.
    Events(JobKey),
    /// A task of an attempt.
    Task {
        /// The job.
        job: JobKey,
        /// The attempt.
        attempt: u32,
        /// The task.
        task: TaskId,
    },
    /// The tasks that may be running on a node.
    TasksOn(NodeId),
    /// An admin says that a node is off: those tasks have ended.
    Off(NodeId),
    /// The member of this number is about to go: its copy of the log finds another place.
    GiveUp(u32),
}

impl Question {
    /// Whether it may be asked again when nobody knows what became of it: twice does no more than
    /// once. A job is known by the uid of its submission.
    pub(crate) const fn is_repeatable(&self) -> bool {
        match self {
            Self::Change(entry) => !matches!(**entry, Entry::RemoveTag { .. }),
            _ => true,
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// It is committed.
    Done(Applied),
    /// The state refuses; nothing was changed.
    Rejected(Rejected),
    /// The cluster could never run the job.
    Impossible(Refused),
    /// It leads in this term.
    Term {
        /// The generation of the virtual cluster.
        generation: u32,
        /// The term.
        term: Term,
        /// Its own number.
        leader: u64,
    },
    /// It leads, by the word of a majority given after that was asked.
    Renewed,
    /// These images.
    Images(BTreeSet<String>),
    /// These jobs.
    Jobs {
        /// The first of those that the filter takes, or all.
        jobs: Vec<JobSummary>,
        /// How many it takes.
        total: usize,
    },
    /// This job, if there is one.
    Job(Option<Box<JobSummary>>),
    /// The job at the attempt.
    Detail(Result<Box<JobDetail>, NotFound>),
    /// Why it waits.
    Explanation(Result<Box<Explanation>, NotFound>),
    /// Every virtual cluster.
    VirtualClusters(Vec<VcView>),
    /// By this version, once it is known.
    Description(Option<u64>),
    /// A description, to be edited.
    Found(String),
    /// This would become of them; or what is wrong with the description, line by line.
    WhatIf(Result<Box<WhatIf>, Vec<String>>),
    /// The job as it was submitted, as JSON.
    Config(Result<String, NotFound>),
    /// What happened to it.
    Events(Result<Vec<Event>, NotFound>),
    /// The task.
    Task(Result<Box<TaskView>, NotFound>),
    /// What tasks use of what it is promised: all that a copy knows of that.
    Used(Amount),
    /// Tasks, by job.
    Tasks(Vec<(JobKey, TaskId)>),
    /// Those on the node that is off are given up.
    Off,
    /// The member has no copy any more.
    GaveUp,
}
