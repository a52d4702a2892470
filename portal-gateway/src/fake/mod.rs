//! A cluster in memory: what the gateway's tests run against. One file for each port.
//!
//! It knows no protocol and runs nothing. Jobs are put there with [`FakeCluster::put`], or submitted
//! as a text with a `name:` line. What it sees of other nodes it is told.

mod documents;
mod figures;
mod identity;
mod images;
mod jobs;
mod logs;
mod membership;
mod nodes;
mod people;
mod sessions;
mod storages;
mod users;
mod uses;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_model::id::AttemptUid;
use muster_model::rule_test::RuleTest;
use muster_model::storage::ClusterStorages;
use muster_model::task_use::TaskUse;

pub use self::identity::{ISSUER, SigningKey};
pub use self::membership::member;
use crate::port::{DeviceFigure, Ports};

/// When everything happens, seconds since the epoch.
const NOW_S: u64 = 1_795_167_174;

#[derive(Debug, Default)]
struct FakeState {
    device_figures: Vec<DeviceFigure>,
    documents: documents::FakeDocuments,
    files: storages::FakeFiles,
    identity: identity::FakeIdentity,
    images: images::FakeImages,
    jobs: jobs::FakeJobs,
    logs: logs::FakeLogs,
    membership: membership::FakeMembership,
    nodes: nodes::FakeNodes,
    rule_test: RuleTest,
    storages: ClusterStorages,
    users: users::FakeUsers,
    uses: BTreeMap<AttemptUid, TaskUse>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct FakeCluster {
    state: Mutex<FakeState>,
}

impl FakeCluster {
    /// All ports of this one.
    pub fn ports(self: &Arc<Self>) -> Ports {
        Ports {
            documents: Arc::clone(self) as _,
            identity: Arc::clone(self) as _,
            images: Arc::clone(self) as _,
            jobs: Arc::clone(self) as _,
            logs: Arc::clone(self) as _,
            membership: Arc::clone(self) as _,
            nodes: Arc::clone(self) as _,
            storages: Arc::clone(self) as _,
            users: Arc::clone(self) as _,
            figures: Arc::clone(self) as _,
            sessions: Arc::clone(self) as _,
            uses: Arc::clone(self) as _,
        }
    }

    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
