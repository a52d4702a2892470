//! Users and groups: what is kept of them, how they are changed, and the record of every change.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{GroupName, UserName, VcName};
use crate::secret::Hidden;

/// The group whose members are admins, in every cluster.
pub const ADMIN_GROUP: &str = "admingroup";
/// Characters of a password, at least: OpenPAI's bound.
pub const PASSWORD_CHARS_MIN: usize = 6;
/// Bytes of a password, at most: a longer one would only cost time.
pub const PASSWORD_BYTES_MAX: usize = 1_024;
/// Bytes of an e-mail address, at most.
pub const EMAIL_BYTES_MAX: usize = 320;
/// Bytes of what clients keep with a user or a group, as JSON, at most.
pub const EXTENSION_BYTES_MAX: usize = 8 << 10;
/// Bytes of a group's description, and of its name elsewhere, at most.
pub const DESCRIPTION_BYTES_MAX: usize = 1_024;
/// Groups of one user, at most.
pub const GROUPS_OF_USER_MAX: usize = 256;
/// Storages that one group may use, at most.
pub const STORAGES_OF_GROUP_MAX: usize = 256;

/// What the members of a group may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupAcl {
    /// Everything.
    pub admin: bool,
    /// Submit jobs to these virtual clusters.
    pub vcs: BTreeSet<VcName>,
    /// Use these storages; the first one is the default.
    pub storages: Vec<String>,
}

/// One change of users or of groups. All of it is made, or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeopleChange {
    /// A user comes.
    AddUser(NewUser),
    /// A user is changed.
    ChangeUser {
        /// Who.
        user: UserName,
        /// What of them.
        patch: UserPatch,
    },
    /// A user goes, with their tokens. Their jobs stay.
    RemoveUser {
        /// Who.
        user: UserName,
        /// The change holds only if the user is still at this revision.
        revision: Option<u64>,
    },
    /// A group comes.
    AddGroup(NewGroup),
    /// A group is changed.
    ChangeGroup {
        /// Which.
        group: GroupName,
        /// What of it.
        patch: GroupPatch,
    },
    /// A group goes; its members lose what it allowed.
    RemoveGroup {
        /// Which.
        group: GroupName,
        /// The change holds only if the group is still at this revision.
        revision: Option<u64>,
    },
}

/// A user to be added. They are a member of the group `default` in any case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewUser {
    /// Their name.
    pub name: UserName,
    /// Their address, may be empty.
    pub email: String,
    /// How they log in.
    pub password: NewPassword,
    /// Their groups.
    pub groups: GroupsChange,
    /// What clients keep with the user: a JSON object.
    pub extension: String,
}

/// How a user logs in from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewPassword {
    /// This password.
    Plain(Hidden<String>),
    /// The password of which OpenPAI kept this hash: PBKDF2-SHA512 with 10,000 iterations, 64 bytes as hexadecimal
    /// digits, the salt is the MD5 sum of the user's name as hexadecimal digits.
    OpenPai(Hidden<String>),
    /// No password: they log in by another way.
    None,
}

/// What to change of a user. What is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserPatch {
    /// The address.
    pub email: Option<String>,
    /// The password. All tokens of logins are revoked then; application tokens stay.
    pub password: Option<NewPassword>,
    /// The password until now, which is checked first. Admins need not know it.
    pub old_password: Option<Hidden<String>>,
    /// What clients keep with the user.
    pub extension: Option<ExtensionChange>,
    /// The groups.
    pub groups: GroupsChange,
    /// The change holds only if the user is still at this revision.
    pub revision: Option<u64>,
}

/// How a user's groups change. The parts are carried out in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupsChange {
    /// Exactly these.
    pub set: Option<BTreeSet<GroupName>>,
    /// Of the groups that are called like virtual clusters, exactly those of these, and `default`.
    pub vcs: Option<BTreeSet<VcName>>,
    /// Whether to be in [`ADMIN_GROUP`]; if not, in no other group of admins either.
    pub admin: Option<bool>,
    /// These as well.
    pub add: BTreeSet<GroupName>,
    /// Not these.
    pub remove: BTreeSet<GroupName>,
}

/// How what clients keep with a user or a group changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExtensionChange {
    /// This JSON object replaces it.
    Set(String),
    /// The members of this JSON object replace those of the same name; `null` removes one.
    Merge(String),
    /// This JSON value stands at the end of this path of names.
    At {
        /// The names, at least one.
        path: Vec<String>,
        /// The value.
        value: String,
    },
}

/// A group to be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewGroup {
    /// Its name.
    pub name: GroupName,
    /// What it is for.
    pub description: String,
    /// Its name in a directory of people elsewhere; may be empty.
    pub external_name: String,
    /// What its members may do.
    pub acl: GroupAcl,
    /// What clients keep with the group besides: a JSON object without `acls`.
    pub extension: String,
}

/// What to change of a group. What is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPatch {
    /// What it is for.
    pub description: Option<String>,
    /// Its name elsewhere.
    pub external_name: Option<String>,
    /// What its members may do.
    pub acl: Option<GroupAcl>,
    /// What clients keep with the group besides. A member `acls` is not among it.
    pub extension: Option<ExtensionChange>,
    /// The change holds only if the group is still at this revision.
    pub revision: Option<u64>,
}

/// Who changes something, and from where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Author {
    /// Their name.
    pub user: String,
    /// The address that they asked from; `socket` for root on the node's own socket.
    pub address: String,
    /// The node that they asked.
    pub node: String,
}

/// Why users or groups are not changed. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum PeopleDenial {
    /// There is no such user.
    #[error("User {0} is not found.")]
    NoUser(String),
    /// There is one.
    #[error("User name {0} already exists.")]
    UserExists(String),
    /// There is no such group.
    #[error("Group {0} is not found.")]
    NoGroup(String),
    /// There is one.
    #[error("Group name {0} already exists.")]
    GroupExists(String),
    /// There is no such virtual cluster.
    #[error("Virtual cluster {0} is not found.")]
    NoVc(String),
    /// It is not their password.
    #[error("Pls input the correct password.")]
    WrongPassword,
    /// The password was not looked at: too many are being checked.
    #[error("too many passwords are being checked; try again in a second")]
    Busy,
    /// An admin may use all virtual clusters.
    #[error(
        "User {0} is an admin and may use all virtual clusters; take the admin right away first."
    )]
    AdminVcs(String),
    /// An admin is removed in two steps.
    #[error("User {0} is an admin and can't be removed; take the admin right away first.")]
    RemoveAdmin(String),
    /// Nobody could change anything after that.
    #[error("{0} is the last admin; make another user an admin first.")]
    LastAdmin(String),
    /// Every cluster has this group.
    #[error("Group {0} can't be removed: every cluster has it.")]
    GroupNeeded(String),
    /// Somebody else changed it meanwhile.
    #[error(
        "{subject} is at revision {current}, the change was made on revision {seen}; look at it again."
    )]
    Changed {
        /// Which user or group.
        subject: String,
        /// What the change was made on.
        seen: u64,
        /// What there is.
        current: u64,
    },
    /// A field that cannot be so.
    #[error("{field}: {problem}")]
    Invalid {
        /// Which.
        field: String,
        /// What is wrong, and what to write.
        problem: String,
    },
}

/// One record of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// Its number; a later record has a higher one.
    pub number: u64,
    /// When, ms since the epoch.
    pub at_ms: u64,
    /// Who, from where, at which node.
    pub by: Author,
    /// What was done, such as `user.add`.
    pub action: String,
    /// To which user or group.
    pub subject: String,
    /// What it was before, as JSON without secrets; empty if there was none.
    pub before: String,
    /// What it is since, likewise.
    pub after: String,
}

/// Records of the audit log, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditLog {
    /// The records.
    pub records: Vec<AuditRecord>,
    /// How many older ones were dropped, by count or by age.
    pub dropped: u64,
}
