//! Whether jobs may come to a member, and stay there, as an admin says.

use muster_gossip::join::Text;
use muster_gossip::member::MemberId;
use muster_gossip::record::MemberState;
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::entry::{Applied, Name};
use super::member::Member;
use super::rejected::Rejected;

/// What jobs may do at a member: as `muster_model::mesh::Scheduling`, which is made for JSON in a way
/// that the log's bytes cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
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
pub struct Scheduling {
    /// What jobs may do there.
    pub mode: Mode,
    /// Why, for people.
    pub reason: Text<256>,
    /// Who says so.
    pub by: Name,
    /// When, ms since the epoch.
    pub at_ms: u64,
}

impl Scheduling {
    /// Whether no job comes.
    pub fn is_closed(&self) -> bool {
        self.mode != Mode::Open
    }

    /// Whether what is there has to go.
    pub const fn is_draining(&self) -> bool {
        matches!(self.mode, Mode::Draining { .. })
    }
}

impl Member {
    /// Whether an admin wants it empty.
    pub fn is_drained(&self) -> bool {
        let word = self.scheduling.as_ref();
        word.is_some_and(Scheduling::is_draining)
    }

    /// Whether an admin keeps jobs off it.
    pub(super) fn is_closed(&self) -> bool {
        self.state == MemberState::Admitted
            && self.scheduling.as_ref().is_some_and(Scheduling::is_closed)
    }
}

impl ClusterState {
    pub(super) fn schedule(
        &mut self,
        index: u64,
        id: MemberId,
        scheduling: &Scheduling,
    ) -> Result<Applied, Rejected> {
        let member = self.members.get_mut(id.index());
        let member = member.filter(|member| member.is_admitted());
        let member = member.ok_or(Rejected::NoMember(id))?;
        member.scheduling = Some(scheduling.clone());
        self.briefed = index;
        Ok(Applied::Scheduled(id))
    }
}
