//! One member of the mesh.

use std::fmt;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scheduling::SchedulingView;

/// One member, as the node asked sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberView {
    /// Its number, given at admission and never given twice.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Where it stands; empty if nobody said.
    pub rack: String,
    /// Its public key, in hex.
    pub key: String,
    /// Whether it may vote in consensus groups.
    pub votes: bool,
    /// Whether it is a member still.
    pub state: MemberState,
    /// Whether it can be reached.
    pub reach: MemberReach,
    /// Whether an admin keeps jobs off it; none: jobs may come.
    pub scheduling: Option<SchedulingView>,
    /// Why it is not simply alive: `n3 has not heard it for 12 s`. Empty if it is.
    pub why: Vec<String>,
    /// Where it says it can be reached, best first.
    pub addresses: Vec<SocketAddr>,
    /// Version of its agent. Empty if nothing was ever heard of it.
    pub agent_version: String,
    /// Counts the starts of its agent.
    pub incarnation: u64,
    /// Seconds since the newest that it says of itself came here; none if nothing did. A member
    /// speaks when something changes, so a great age is no bad sign.
    pub age_s: Option<u64>,
    /// Seconds for which the node asked has found it suspect or unreachable; none while it is
    /// alive.
    pub reach_s: Option<u64>,
    /// What it has: `8 Tesla V100, 96 cores, 768 GiB`. Empty if it did not say.
    pub devices: String,
    /// Plain sentences on what is wrong with it, as it says itself.
    pub problems: Vec<String>,
}

/// Whether somebody admitted is a member still.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    /// A member.
    Admitted,
    /// It left by itself.
    Left,
    /// An admin expelled it.
    Expelled,
}

/// Whether a member can be reached, as the votes of its watchers say.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MemberReach {
    /// It answers.
    Alive,
    /// Some watcher does not hear it, or it says that it is stuck. Jobs are placed there last.
    Suspect,
    /// Most of its watchers do not hear it. Nothing is placed there.
    Unreachable,
}

impl MemberReach {
    /// The word that users see, the one that JSON has.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Suspect => "suspect",
            Self::Unreachable => "unreachable",
        }
    }
}

impl MemberView {
    /// One word for how it is: its reach while it is a member, else that it is none.
    pub const fn word(&self) -> &'static str {
        match self.state {
            MemberState::Admitted => self.reach.as_str(),
            MemberState::Left => "left",
            MemberState::Expelled => "expelled",
        }
    }

    /// Whether it is a member that answers as it should.
    pub fn is_well(&self) -> bool {
        self.state == MemberState::Admitted && self.reach == MemberReach::Alive
    }
}

impl fmt::Display for MemberReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
