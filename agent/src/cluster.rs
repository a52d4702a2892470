//! The gateway's ports to this cluster, for real: a file for each. Each holds only what it needs.

mod documents;
mod images;
mod jobs;
mod launches;
mod logs;
mod membership;
mod nodes;
mod users;
mod view;
mod waiting;

use std::path::PathBuf;
use std::sync::Arc;

use muster_control::coordinator::Refused;
use muster_control::request::{Failure, Refusal};
use muster_control::vc::Rejected;
use muster_model::protocol;
use muster_portal_gateway::port::{Error, Ports};
use tokio::time::Instant;

use self::documents::LocalDocuments;
use self::jobs::LocalJobs;
use self::logs::LocalLogs;
use self::membership::LocalMembership;
use self::nodes::LocalNodes;
use self::users::LocalUsers;
use self::waiting::Waiting;
use crate::accounts::Accounts;
use crate::causes::causes;
use crate::description::Descriptions;
use crate::doctor::Doctor;
use crate::documents::Documents;
use crate::images::Images;
use crate::mesh::{self, Service};
use crate::node_status::NodeStatus;
use crate::vc::{self, VcHandle};

/// The parts a cluster is made of.
pub(crate) struct Parts {
    /// The way to the virtual clusters.
    pub(crate) vc: VcHandle,
    /// Its users, and the keys.
    pub(crate) accounts: Accounts,
    /// The directories of this node's tasks, with their logs.
    pub(crate) tasks: PathBuf,
    /// This node's images.
    pub(crate) images: Arc<Images>,
    /// What is known of this node.
    pub(crate) node: NodeStatus,
    /// How the cluster is described.
    pub(crate) descriptions: Descriptions,
    /// Looks for what is wrong.
    pub(crate) doctor: Doctor,
    /// The cluster's documents.
    pub(crate) documents: Documents,
    /// The door to the cluster.
    pub(crate) mesh: Arc<Service>,
}

/// The ports to a cluster of these parts.
pub(crate) fn ports(parts: Parts) -> Ports {
    let membership = Arc::new(LocalMembership {
        mesh: parts.mesh.clone(),
        vc: parts.vc.clone(),
        accounts: parts.accounts.clone(),
        documents: parts.documents.clone(),
        certificate: parts.node.certificate.clone(),
    });
    Ports {
        documents: Arc::new(LocalDocuments {
            documents: parts.documents,
            membership: membership.clone(),
        }),
        images: parts.images,
        logs: Arc::new(LocalLogs {
            tasks: parts.tasks,
            applied: parts.vc.applied(),
        }),
        jobs: Arc::new(LocalJobs {
            vc: parts.vc,
            accounts: parts.accounts.clone(),
            descriptions: parts.descriptions.clone(),
            mesh: parts.mesh.clone(),
            node: parts.node.clone(),
            waiting: Waiting::default(),
        }),
        nodes: Arc::new(LocalNodes {
            node: parts.node,
            doctor: parts.doctor,
            membership: membership.clone(),
        }),
        users: Arc::new(LocalUsers {
            accounts: parts.accounts,
            descriptions: parts.descriptions,
            mesh: parts.mesh,
        }),
        membership,
    }
}

/// Asks the leader for the newest briefing. Without an answer this node goes by the one that it
/// has.
async fn refresh_briefing(mesh: &Service) {
    let _ = mesh.member().briefings().refresh(Instant::now()).await;
}

pub(crate) fn committed(error: vc::Error) -> Error {
    match error {
        vc::Error::Rejected(rejected) => match rejected {
            Rejected::JobExists(key) => Error::JobExists(key.to_string()),
            Rejected::NoJob(key) => Error::NoJob(key.to_string()),
            Rejected::NoTag(tag) => Error::NoTag(tag),
            Rejected::QueueFull { .. } => Error::Unavailable(rejected.to_string()),
            other => Error::Invalid(other.to_string()),
        },
        vc::Error::Impossible(Refused { path, why }) => {
            let problem = protocol::Problem::whole(why);
            Error::InvalidJob(vec![protocol::Problem { path, ..problem }])
        }
        vc::Error::Away(why) => Error::Unavailable(why),
    }
}

/// What the gateway is told.
fn told(error: mesh::Error) -> Error {
    match error {
        mesh::Error::NotNow(text) => Error::NotNow(text),
        mesh::Error::Invalid(text) => Error::Invalid(text),
        mesh::Error::Refused(text) | mesh::Error::Elsewhere(text) => Error::JoinRefused(text),
        mesh::Error::Busy(text) => Error::JoinBusy(text),
        mesh::Error::Failed(error) => Error::Unavailable(format!("{error:#}")),
        mesh::Error::Undone(failure) => match failure {
            Failure::Refused(Refusal::Invalid(text)) => Error::Invalid(text),
            Failure::Refused(Refusal::Missing(text)) => Error::NotNow(text),
            Failure::Refused(Refusal::Conflict { .. })
            | Failure::NotLed { .. }
            | Failure::Unknown(_) => Error::Unavailable(failure.to_string()),
        },
    }
}

/// Why something was not done, where it was asked for `missing`.
fn told_of(error: mesh::Error, missing: impl FnOnce() -> Error) -> Error {
    match error {
        mesh::Error::Undone(Failure::Refused(Refusal::Missing(_))) => missing(),
        error => told(error),
    }
}

fn unavailable(error: impl std::error::Error) -> Error {
    Error::Unavailable(causes(&error))
}

fn invalid(error: muster_model::id::Error) -> Error {
    Error::Invalid(error.to_string())
}
