//! Which users see which jobs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::VcName;

/// Which users see the jobs of a virtual cluster, with their logs and configurations. A user always sees
/// their own jobs, and an admin sees all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobVisibility {
    /// Every user, as in OpenPAI.
    #[default]
    Public,
    /// Users that have a group with this virtual cluster.
    Group,
    /// Nobody else.
    Private,
}

impl JobVisibility {
    /// The word that the policy has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Group => "group",
            Self::Private => "private",
        }
    }
}

/// Which users see which jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessPolicy {
    /// What holds in virtual clusters that are not named below.
    pub jobs: JobVisibility,
    /// By virtual cluster.
    pub vcs: BTreeMap<VcName, JobVisibility>,
}

impl AccessPolicy {
    /// Which users see the jobs of this virtual cluster.
    pub fn of(&self, vc: &VcName) -> JobVisibility {
        self.vcs.get(vc).copied().unwrap_or(self.jobs)
    }

    /// Whether every user sees all jobs.
    pub fn is_public(&self) -> bool {
        let mut all = self.vcs.values().chain([&self.jobs]);
        all.all(|visibility| *visibility == JobVisibility::Public)
    }
}
