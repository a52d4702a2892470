//! What members ask of the cluster's affairs, and what the member that leads them answers. JSON:
//! rare, read by every later release, and easy to look at when something goes wrong.

use std::collections::BTreeSet;

use muster_control::cluster::{Binding, Briefing, Copy, Hidden};
use muster_control::coordinator::Bindings;
use muster_gossip::join;
use muster_gossip::member::MemberId;
use muster_gossip::record::SuccessionBody;
use muster_model::id::{NodeId, VcName};
use muster_model::mesh::{
    ClusterView, CreatedToken, DocumentText, NewToken, RecoveryView, Scheduling, TokenView,
    VersionView,
};
use muster_model::pull::Pull;
use muster_portal_gateway::cluster::Trust;
use serde::{Deserialize, Serialize};

use crate::vc;

/// A question. Whether its user may ask it was checked by the gateway that took it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// A stranger asks to be let in; the bytes of a petition.
    Petition(Vec<u8>),
    /// The asking member leaves.
    Leave,
    /// The cluster is to be called this.
    Name {
        /// What; empty: it has no name any more.
        name: String,
    },
    /// A member is to be expelled, by its name.
    Expel {
        /// Whom.
        member: String,
        /// Who says so.
        by: String,
    },
    /// Jobs are to be kept off a member, or may come again.
    Schedule {
        /// Which, by its name.
        member: String,
        /// What is to hold.
        scheduling: Scheduling,
        /// Why.
        reason: String,
        /// Who says so.
        by: String,
    },
    /// A token is to be made.
    CreateToken {
        /// What kind.
        token: NewToken,
        /// For whom.
        by: String,
    },
    /// All tokens.
    Tokens,
    /// A token is to be good no more.
    RevokeToken {
        /// Which.
        id: String,
    },
    /// A document is to have a new version.
    Edit {
        /// Which.
        document: u16,
        /// What the author saw.
        base: u64,
        /// The text.
        text: String,
        /// Without steps.
        now: bool,
        /// Who.
        by: String,
    },
    /// A document is to have an older version's text again.
    Rollback {
        /// Which.
        document: u16,
        /// The older version.
        version: u64,
        /// Who.
        by: String,
    },
    /// A document's versions.
    History {
        /// Which.
        document: u16,
    },
    /// The text of a version that is remembered.
    Text {
        /// Which.
        document: u16,
        /// Which version.
        version: u64,
    },
    /// The cluster's name and keys.
    Cluster,
    /// A node with a copy of the cluster's log is to keep a text that the log is about to name.
    Keep {
        /// The text.
        body: String,
    },
    /// A text that the log names, for a copy that lacks it.
    Body {
        /// Its SHA-256, in hex.
        hash: String,
    },
    /// What every member has to know although it has no copy of the cluster's log.
    Briefing,
    /// A user's password is to be checked, and a token issued.
    Login {
        /// Who.
        user: String,
        /// What they gave.
        password: Hidden<String>,
        /// Whether the client that gave it was wrong lately.
        trust: Trust,
        /// When, in seconds since the epoch: the same question gives the same token.
        at_s: u64,
        /// Tells its token from others of the same second.
        number: u64,
    },
    /// A token for a program of a user's is to be issued.
    IssueToken {
        /// Whose.
        user: String,
        /// As with a login.
        at_s: u64,
        /// As with a login.
        number: u64,
    },
    /// A user's token is to be good no more.
    ForgetToken {
        /// Whose.
        user: String,
        /// Which.
        text: Hidden<String>,
    },
    /// A node asks for renewal of its run leases.
    Renew {
        /// Its name.
        node: NodeId,
    },
    /// How long has a node not asked for that?
    Silence {
        /// Its name.
        node: NodeId,
    },
    /// A virtual cluster asks for cells and gives some back; then, what is each bound to, if that is newer
    /// than what it knows?
    Bind {
        /// Which.
        vc: VcName,
        /// What it asks for and gives back.
        binding: Box<Binding>,
        /// The version that it knows; 0 for none.
        known: u64,
    },
    /// The leader of a virtual cluster is asked.
    Vc {
        /// The number of its group.
        group: u64,
        /// What.
        question: vc::Question,
    },
    /// A virtual cluster is to go on without most of its voters.
    Recover {
        /// Which, by its name.
        vc: String,
        /// The voters that are lost for good; none named: only tell how it would go on.
        lost: BTreeSet<String>,
        /// Who says so.
        by: String,
    },
    /// This node: the cluster is to go on without most of the voters of its own group.
    RecoverCluster {
        /// The voters that are lost for good; none named: only tell how it would go on.
        lost: BTreeSet<String>,
        /// Who says so.
        by: String,
    },
    /// The member whose copy of the cluster's group knows most: the cluster is to go on from that.
    Succeed {
        /// In which group, in place of which.
        succession: SuccessionBody,
        /// Who says so.
        by: String,
    },
    /// Any member: which copies of these groups do you have?
    Copies {
        /// By number.
        groups: Vec<u64>,
    },
    /// Any member: what were you told of the cluster, if that is newer?
    Told {
        /// The version that is known.
        known: u64,
    },
    /// Any member: a node asks for renewal of what it holds of these groups, as far as you lead them.
    RenewAll {
        /// By number.
        groups: Vec<u64>,
        /// Its name.
        node: NodeId,
    },
    /// Any member: up to which entries are those of these groups committed that you lead?
    Committed {
        /// By number.
        groups: Vec<u64>,
    },
    /// Any member: how old is your copy of a virtual cluster's log?
    CopyAge {
        /// The number of its group.
        group: u64,
    },
    /// Any member: what does your copy of a virtual cluster's log say, whoever leads?
    OfCopy {
        /// The number of its group.
        group: u64,
        /// What.
        question: vc::Question,
    },
    /// Any member: which images are on their way to you for tasks?
    Pulls,
}

impl Question {
    /// Whether an answer changes something that users see.
    pub(crate) const fn changes(&self) -> bool {
        matches!(
            self,
            Self::Vc {
                question: vc::Question::Submit(_) | vc::Question::Change(_),
                ..
            }
        )
    }

    /// Whether the answer may take longer than an election.
    pub(crate) const fn is_slow(&self) -> bool {
        matches!(
            self,
            Self::Recover { .. }
                | Self::Vc {
                    question: vc::Question::GiveUp(_),
                    ..
                }
        )
    }

    /// Whether it may be asked again when nobody knows what became of it: twice does no more than
    /// once.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self {
            Self::Vc { question, .. } => return question.is_repeatable(),
            // How it would go on can be told as often as anybody likes.
            Self::Recover { lost, .. } => return lost.is_empty(),
            _ => {}
        }
        !matches!(
            self,
            Self::CreateToken { .. }
                | Self::Edit { .. }
                | Self::Rollback { .. }
                // The name may be another one's by then.
                | Self::Expel { .. }
                | Self::Leave
        )
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// The stranger is welcome: the bytes of a reply of the join protocol.
    Welcome(Vec<u8>),
    /// The stranger is refused.
    Refused(join::Refusal),
    /// The token, with its secret.
    Created(CreatedToken),
    /// All tokens.
    Tokens(Vec<TokenView>),
    /// The document's new version.
    Version(u64),
    /// The document's versions, the newest first.
    History(Vec<VersionView>),
    /// The text of a version.
    Text(DocumentText),
    /// The cluster.
    Cluster(ClusterView),
    /// A text that the log names.
    Body(String),
    /// For so many milliseconds; counted from the election of who answers at the earliest.
    Silence {
        /// How many.
        ms: u64,
    },
    /// What each virtual cluster is bound to; none if nothing is new.
    Bound(Option<Bindings>),
    /// The leader of a virtual cluster answers.
    Vc(vc::Answer),
    /// These groups are led here, by the word of a majority given after that was asked.
    Renewed(Vec<u64>),
    /// By group that is led here, the last entry that is committed there.
    Committed(Vec<(u64, u64)>),
    /// How long ago the copy was known to be up to date, if that is known.
    CopyAge {
        /// Milliseconds.
        ms: Option<u64>,
    },
    /// What the copy says.
    OfCopy {
        /// How old that is, as above.
        ms: Option<u64>,
        /// What.
        answer: vc::Answer,
    },
    /// These images are on their way, so far.
    Pulls(Vec<Pull>),
    /// How a virtual cluster goes on, or the cluster itself, or would.
    Recovery(RecoveryView),
    /// The copies that this member has.
    Copies(Vec<Copy>),
    /// What every member has to know, or what this one was told last.
    Briefing(Box<Briefing>),
    /// A token was issued.
    LoggedIn {
        /// The token.
        token: Hidden<String>,
        /// Whether its user may do everything.
        admin: bool,
    },
    /// None was, for a reason that the user can mend.
    Denied(Denial),
    /// It was not done.
    Rejected(Rejection),
}

/// Why a user gets no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Denial {
    /// There is no such user.
    NoUser,
    /// It is not their password.
    WrongPassword,
    /// It was not looked at: too many are being checked.
    Busy,
}

/// Why something was not done. Nothing was changed, but where it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rejection {
    /// The document has another version than the author saw.
    #[error("somebody else edited it meanwhile: version {current} is the newest")]
    Conflict {
        /// The newest version.
        current: u64,
    },
    /// There is no such thing.
    #[error("{0}")]
    Missing(String),
    /// It cannot be done, for a reason that names the remedy.
    #[error("{0}")]
    Invalid(String),
    /// It cannot be done now.
    #[error("{0}")]
    Unavailable(String),
    /// It may have been done.
    #[error("{0}")]
    Unknown(String),
    /// Another member leads.
    #[error("another member leads")]
    Elsewhere {
        /// Its number.
        member: u32,
    },
}

/// Who asks: a member over its connection, or this node itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker(pub(crate) MemberId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_sent_whole_and_printed_without_its_password() {
        let login = Question::Login {
            user: "ada".to_owned(),
            password: Hidden("secret".to_owned()),
            trust: Trust::Usual,
            at_s: 7,
            number: 1,
        };
        assert!(!format!("{login:?}").contains("secret"));
        let bytes = serde_json::to_vec(&login).unwrap();
        assert_eq!(serde_json::from_slice::<Question>(&bytes).unwrap(), login);
        let issued = Answer::LoggedIn {
            token: Hidden("secret".to_owned()),
            admin: true,
        };
        assert!(!format!("{issued:?}").contains("secret"));
    }
}
