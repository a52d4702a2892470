//! Whether jobs may come to a member, and stay there, as an admin says.

use muster_gossip::join::Text;
use muster_gossip::member::MemberId;
use muster_gossip::record::AdmissionState;
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::entry::{ClusterApplied, GivenName};
use super::member::AdmittedMember;
use super::rejected::ClusterRejection;

/// What jobs may do at a member: as `muster_model::mesh::Scheduling`, which is made for JSON in a way
/// that the log's bytes cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchedulingMode {
    /// Come and stay.
    Open,
    /// Stay if they are there; none comes.
    Cordoned,
    /// None comes, and from then on those that are there are stopped, to run elsewhere.
    Draining {
        /// From when on, ms since the epoch.
        from_ms: u64,
    },
}

/// An admin's word on a member; it holds until the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminScheduling {
    /// What jobs may do there.
    pub mode: SchedulingMode,
    /// Why, for people.
    pub reason: Text<256>,
    /// Who says so.
    pub by: GivenName,
    /// When, ms since the epoch.
    pub at_ms: u64,
}

impl AdminScheduling {
    /// Whether no job comes.
    pub fn is_closed(&self) -> bool {
        self.mode != SchedulingMode::Open
    }

    /// Whether what is there has to go.
    pub const fn is_draining(&self) -> bool {
        matches!(self.mode, SchedulingMode::Draining { .. })
    }
}

impl AdmittedMember {
    /// Whether an admin wants it empty.
    pub fn is_drained(&self) -> bool {
        let word = self.scheduling.as_ref();
        word.is_some_and(AdminScheduling::is_draining)
    }

    /// Whether an admin keeps jobs off it.
    pub(super) fn is_closed(&self) -> bool {
        self.state == AdmissionState::Admitted
            && self
                .scheduling
                .as_ref()
                .is_some_and(AdminScheduling::is_closed)
    }
}

impl ClusterState {
    pub(super) fn schedule(
        &mut self,
        index: u64,
        id: MemberId,
        scheduling: &AdminScheduling,
    ) -> Result<ClusterApplied, ClusterRejection> {
        let member = self.members.get_mut(id.index());
        let member = member.filter(|member| member.is_admitted());
        let member = member.ok_or(ClusterRejection::NoMember(id))?;
        member.scheduling = Some(scheduling.clone());
        self.map_version = index;
        Ok(ClusterApplied::Scheduled(id))
    }
}
