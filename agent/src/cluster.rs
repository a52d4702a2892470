//! The gateway's ports to this cluster, for real: a file for each. Each holds only what it needs.

mod documents;
mod errors;
mod figures;
mod images;
mod job_ssh;
mod jobs;
mod launches;
mod logs;
mod membership;
mod nodes;
mod running_task;
mod sessions;
mod sights;
mod stacks;
mod storages;
mod users;
mod uses;
mod view;
mod waiting;

use std::path::PathBuf;
use std::sync::Arc;

use muster_exec::storage::files::StorageFileAccess;
use muster_portal_gateway::port::{IdentityProvider, Ports};

use self::documents::LocalDocuments;
use self::figures::LocalFigures;
use self::jobs::LocalJobs;
use self::logs::LocalLogs;
use self::membership::LocalMembership;
use self::nodes::LocalNodes;
use self::sessions::LocalSessions;
use self::sights::JobSights;
use self::storages::LocalStorages;
use self::users::LocalUsers;
pub(crate) use self::uses::LocalUses;
use self::waiting::WaitingClients;
use crate::accounts::Accounts;
use crate::alarms::Alarms;
use crate::description::Descriptions;
use crate::doctor::Doctor;
use crate::documents::DocumentKinds;
use crate::documents::failure_rules::RulesInForce;
use crate::documents::policy::PolicyInForce;
use crate::documents::storages::StoragesInForce;
use crate::failures::RuleTester;
use crate::gpu_samples::GpuSamples;
use crate::images::NodeImages;
use crate::mesh::Service;
use crate::node_status::NodeStatus;
use crate::vc::VcHandle;

/// The parts a cluster is made of.
pub(crate) struct ClusterDependencies {
    /// The way to the virtual clusters.
    pub(crate) vc: VcHandle,
    /// Its users, and the keys.
    pub(crate) accounts: Accounts,
    /// What was and is wrong with it.
    pub(crate) alarms: Alarms,
    /// The directories of this node's tasks, with their logs.
    pub(crate) tasks: PathBuf,
    /// This node's images.
    pub(crate) images: Arc<NodeImages>,
    /// What is known of this node.
    pub(crate) node: NodeStatus,
    /// How the cluster is described.
    pub(crate) descriptions: Descriptions,
    /// Looks for what is wrong.
    pub(crate) doctor: Doctor,
    /// The cluster's documents.
    pub(crate) documents: DocumentKinds,
    /// The failure rules that verdicts are made by.
    pub(crate) rules: RulesInForce,
    /// Tries others on the failures of this node.
    pub(crate) tester: RuleTester,
    /// The identity provider that people log in by.
    pub(crate) identity: Arc<dyn IdentityProvider>,
    /// The way into the cluster.
    pub(crate) mesh: Arc<Service>,
    /// Says which users see which jobs.
    pub(crate) policy: PolicyInForce,
    /// The storages that it declares.
    pub(crate) storages: StoragesInForce,
    /// Their files, by way of this node.
    pub(crate) storage_files: StorageFileAccess,
    /// What its tasks use.
    pub(crate) uses: LocalUses,
    /// The newest samples of its GPUs.
    pub(crate) gpu_samples: GpuSamples,
}

/// The ports to a cluster of these parts.
pub(crate) fn ports(parts: ClusterDependencies) -> Ports {
    let membership = Arc::new(LocalMembership {
        mesh: parts.mesh.clone(),
        vc: parts.vc.clone(),
        accounts: parts.accounts.clone(),
        alarms: parts.alarms,
        documents: parts.documents.clone(),
        policy: parts.policy.clone(),
        certificate: parts.node.certificate.clone(),
    });
    let sessions = parts.node.sessions.clone();
    let jobs = Arc::new(LocalJobs {
        vc: parts.vc.clone(),
        accounts: parts.accounts.clone(),
        descriptions: parts.descriptions.clone(),
        mesh: parts.mesh.clone(),
        node: parts.node.clone(),
        waiting: WaitingClients::default(),
        sights: JobSights {
            policy: parts.policy.clone(),
            accounts: parts.accounts.clone(),
        },
        storages: parts.storages.clone(),
        policy: parts.policy,
    });
    Ports {
        documents: Arc::new(LocalDocuments {
            documents: parts.documents,
            rules: parts.rules,
            accounts: parts.accounts.clone(),
            tester: parts.tester,
            membership: membership.clone(),
        }),
        identity: parts.identity,
        images: parts.images,
        logs: Arc::new(LocalLogs::new(parts.tasks, parts.vc.applied())),
        jobs: jobs.clone(),
        sessions: Arc::new(LocalSessions {
            jobs,
            here: sessions,
        }),
        storages: Arc::new(LocalStorages {
            declared: parts.storages,
            accounts: parts.accounts.clone(),
            files: parts.storage_files,
            node: parts.node.identity.node.as_str().into(),
        }),
        figures: Arc::new(LocalFigures {
            gpus: parts.gpu_samples,
            health: parts.node.health.clone(),
            host_name: parts.node.identity.host_name.clone(),
        }),
        uses: Arc::new(parts.uses),
        users: Arc::new(LocalUsers {
            accounts: parts.accounts,
            descriptions: parts.descriptions,
            mesh: parts.mesh,
            node: parts.node.identity.node.clone(),
        }),
        nodes: Arc::new(LocalNodes {
            node: parts.node,
            doctor: parts.doctor,
            membership: membership.clone(),
        }),
        membership,
    }
}
