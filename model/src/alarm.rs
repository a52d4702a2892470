//! Alarms: what went wrong in a cluster as one of its members saw it, and what is well again. Alerts read them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::VcName;

/// One alarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alarm {
    /// Counts from 1 at each start of the agent.
    pub number: u64,
    /// Names that start: numbers of different starts say nothing of each other.
    pub boot: String,
    /// When, by that machine's clock, milliseconds since the epoch.
    pub at_ms: u64,
    /// What happened. Together with the subject it tells which alarm is cleared.
    pub kind: AlarmKind,
    /// Whether it began, is over, or is no state at all.
    pub state: AlarmState,
    /// What it concerns.
    pub subject: AlarmSubject,
    /// What happened, and what to do next, in plain English.
    pub text: String,
}

/// What happened.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// This machine was expelled from its cluster.
    Expelled,
    /// Another machine uses this machine's node key.
    KeyUsedTwice,
    /// More than a third of the members, and at least three, cannot be reached.
    ManyMembersLost,
    /// A member cannot be reached.
    MemberLost,
    /// Voters of a group are lost, and the loss of one more stops it.
    MajorityAtRisk,
    /// So many voters of a group are lost that it cannot decide anything.
    MajorityLost,
    /// The newest version of a document was withdrawn, or a member rejects it.
    EditHalted,
    /// Another member leads a group. Always an event.
    LeaderChanged,
    /// The cluster's breaker holds back quarantines of this machine.
    QuarantinesHeldBack,
}

impl AlarmKind {
    /// The word that users see, the one that JSON has.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expelled => "expelled",
            Self::KeyUsedTwice => "key_used_twice",
            Self::ManyMembersLost => "many_members_lost",
            Self::MemberLost => "member_lost",
            Self::MajorityAtRisk => "majority_at_risk",
            Self::MajorityLost => "majority_lost",
            Self::EditHalted => "edit_halted",
            Self::LeaderChanged => "leader_changed",
            Self::QuarantinesHeldBack => "quarantines_held_back",
        }
    }
}

impl fmt::Display for AlarmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether an alarm began, is over, or is no state at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlarmState {
    /// It stands from now on, until it is cleared. It is raised once.
    Raised,
    /// What was raised is over.
    Cleared,
    /// Something happened that is neither raised nor cleared.
    Event,
}

impl AlarmState {
    /// The word that users see, the one that JSON has.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Cleared => "cleared",
            Self::Event => "event",
        }
    }
}

impl fmt::Display for AlarmState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an alarm concerns.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(tag = "type", content = "name", rename_all = "snake_case")]
pub enum AlarmSubject {
    /// The cluster, or its state.
    Cluster,
    /// A virtual cluster, or its job list.
    VirtualCluster(VcName),
    /// A machine.
    Member(String),
    /// A document.
    Document(String),
}

impl fmt::Display for AlarmSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::VirtualCluster(vc) => write!(f, "vc {vc}"),
            Self::Member(name) => f.write_str(name),
            Self::Document(name) => f.write_str(name),
        }
    }
}

/// An answer to a reader of alarms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alarms {
    /// Names the start of the agent that the numbers are of.
    pub boot: String,
    /// The number of the newest alarm, 0 for none: what to ask after the next time, with the boot.
    pub last: u64,
    /// Whether there were more alarms after the one that was asked after, which are forgotten by now.
    pub dropped: bool,
    /// Those that were raised and not cleared, the oldest first. None of them is ever forgotten.
    pub standing: Vec<Alarm>,
    /// The alarms that were asked for, the oldest first.
    pub alarms: Vec<Alarm>,
}

/// From where a reader of alarms goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlarmsAfter {
    /// The last number that it has; 0: none.
    pub number: u64,
    /// Of which start of the agent that is; none: of the one that is asked.
    pub boot: Option<String>,
}

impl AlarmsAfter {
    /// After which number it goes on, at an agent of this start, whose newest alarm has this number. A number
    /// of another start counts for nothing: that reader begins anew.
    pub fn number_at(&self, boot: &str, last: u64) -> u64 {
        let is_other = self.boot.as_ref().is_some_and(|it| it != boot);
        match is_other || self.number > last {
            true => 0,
            false => self.number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_json() {
        use AlarmKind as Kind;
        for kind in [
            Kind::Expelled,
            Kind::KeyUsedTwice,
            Kind::ManyMembersLost,
            Kind::MemberLost,
            Kind::MajorityAtRisk,
            Kind::MajorityLost,
            Kind::EditHalted,
            Kind::LeaderChanged,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        use AlarmState as State;
        for state in [State::Raised, State::Cleared, State::Event] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }

    #[test]
    fn a_subject_names_its_type() {
        let member = AlarmSubject::Member("n3".to_owned());
        let vc = AlarmSubject::VirtualCluster("prod".parse().unwrap());
        for (subject, json, text) in [
            (AlarmSubject::Cluster, r#"{"type":"cluster"}"#, "cluster"),
            (member, r#"{"type":"member","name":"n3"}"#, "n3"),
            (vc, r#"{"type":"virtual_cluster","name":"prod"}"#, "vc prod"),
        ] {
            assert_eq!(serde_json::to_string(&subject).unwrap(), json);
            assert_eq!(serde_json::from_str::<AlarmSubject>(json).unwrap(), subject);
            assert_eq!(subject.to_string(), text);
        }
    }

    #[test]
    fn a_number_of_another_start_counts_for_nothing() {
        let after = |number, boot: Option<&str>| AlarmsAfter {
            number,
            boot: boot.map(str::to_owned),
        };
        for (after, expect) in [
            (after(0, None), 0),
            (after(7, None), 7),
            (after(7, Some("a")), 7),
            (after(9, Some("a")), 9),
            (after(7, Some("b")), 0),
            // No start can have had a number that is still to come.
            (after(10, None), 0),
            (after(10, Some("a")), 0),
        ] {
            assert_eq!(after.number_at("a", 9), expect, "{after:?}");
        }
    }
}
