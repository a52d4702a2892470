//! Changes of users and groups. An entry holds what a user or a group is from now on, and the revision that
//! it was made on, so that no change overwrites another one that its author has not seen.

use std::collections::BTreeSet;

use muster_model::id::{GroupName, UserName};
use muster_model::people::{
    ADMIN_GROUP, Author, EMAIL_BYTES_MAX, EXTENSION_BYTES_MAX, GROUPS_OF_USER_MAX, PeopleDenial,
};
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::audit::{self, AuditChange};
use super::entry::ClusterApplied;
use super::groups::{DEFAULT_GROUP, GROUPS_MAX, UserGroup};
use super::rejected::ClusterRejection;
use super::secret::Hidden;
use super::users::{ClusterUser, PASSWORD_HASH_MAX, USERS_MAX, UserToken};

/// A change of one user or one group, with its author.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeopleEntry {
    /// What.
    pub edit: PeopleEdit,
    /// Who, from where.
    pub by: Author,
    /// When.
    pub at_ms: u64,
}

/// What becomes of one user or one group. `seen`: the revision that it is made on; none where there must be
/// none of that name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeopleEdit {
    /// A user is this from now on.
    PutUser {
        /// Their name.
        name: UserName,
        /// What is kept of them.
        fields: UserFields,
        /// Whether the tokens of their logins are revoked.
        forgets_logins: bool,
        /// See above.
        seen: Option<u64>,
    },
    /// A user goes.
    DropUser {
        /// Their name.
        name: UserName,
        /// See above.
        seen: u64,
    },
    /// A group is this from now on.
    PutGroup {
        /// Its name.
        name: GroupName,
        /// What it is. Its revision does not count.
        group: UserGroup,
        /// See above.
        seen: Option<u64>,
    },
    /// A group goes.
    DropGroup {
        /// Its name.
        name: GroupName,
        /// See above.
        seen: u64,
    },
}

/// What is kept of a user beside their tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserFields {
    /// Argon2 or PBKDF2 hash in PHC form; empty if they have no password.
    pub password_hash: Hidden<String>,
    /// Their address, may be empty.
    pub email: String,
    /// What clients keep with the user: a JSON object.
    pub extension: String,
    /// Their groups.
    pub groups: BTreeSet<GroupName>,
}

impl ClusterUser {
    /// What is kept of them beside their tokens.
    pub fn fields(&self) -> UserFields {
        UserFields {
            password_hash: self.password_hash.clone(),
            email: self.email.clone(),
            extension: self.extension.clone(),
            groups: self.groups.clone(),
        }
    }
}

impl UserFields {
    fn check(&self) -> Result<(), PeopleDenial> {
        let invalid = |field: &str, problem: String| {
            Err(PeopleDenial::Invalid {
                field: field.to_owned(),
                problem,
            })
        };
        if self.password_hash.0.len() > PASSWORD_HASH_MAX {
            return invalid("password", "its hash is too long".to_owned());
        }
        if self.email.len() > EMAIL_BYTES_MAX {
            return invalid("email", format!("it has at most {EMAIL_BYTES_MAX} bytes"));
        }
        if self.extension.len() > EXTENSION_BYTES_MAX {
            let max = EXTENSION_BYTES_MAX;
            return invalid(
                "extension",
                format!("it has at most {max} bytes; shorten it"),
            );
        }
        if self.groups.len() > GROUPS_OF_USER_MAX {
            let max = GROUPS_OF_USER_MAX;
            return invalid("grouplist", format!("a user is in at most {max} groups"));
        }
        Ok(())
    }
}

impl ClusterState {
    /// The users, groups and virtual clusters alone, for edits to be made on.
    pub fn people(&self) -> Self {
        Self {
            users: self.users.clone(),
            groups: self.groups.clone(),
            vcs: self.vcs.clone(),
            ..Self::default()
        }
    }

    pub(super) fn change_people(
        &mut self,
        index: u64,
        entry: &PeopleEntry,
    ) -> Result<ClusterApplied, ClusterRejection> {
        let change = match &entry.edit {
            PeopleEdit::PutUser {
                name,
                fields,
                forgets_logins,
                seen,
            } => self.put_user(index, name, fields, (*forgets_logins, *seen))?,
            PeopleEdit::DropUser { name, seen } => self.drop_user(name, *seen)?,
            PeopleEdit::PutGroup { name, group, seen } => {
                self.put_group(index, name, group, *seen)?
            }
            PeopleEdit::DropGroup { name, seen } => self.drop_group(index, name, *seen)?,
        };
        self.map_version = index;
        self.audit.add(index, (&entry.by, entry.at_ms), change);
        Ok(ClusterApplied::Users)
    }

    fn put_user(
        &mut self,
        index: u64,
        name: &UserName,
        fields: &UserFields,
        (forgets_logins, seen): (bool, Option<u64>),
    ) -> Result<AuditChange, ClusterRejection> {
        let known = self.users.get(name);
        check_seen(
            name.as_str(),
            seen,
            known.map(|user| user.revision),
            SubjectKind::User,
        )?;
        fields.check()?;
        if known.is_none() && self.users.len() >= USERS_MAX {
            return Err(ClusterRejection::TooManyUsers(self.users.len() + 1));
        }
        let unknown = fields
            .groups
            .iter()
            .find(|it| !self.groups.contains_key(*it));
        if let Some(unknown) = unknown {
            return Err(PeopleDenial::NoGroup(unknown.to_string()).into());
        }
        let tokens = known.map_or_else(Vec::new, |user| user.tokens.clone());
        let stays = |token: &UserToken| !forgets_logins || token.is_application();
        let user = ClusterUser {
            password_hash: fields.password_hash.clone(),
            email: fields.email.clone(),
            extension: fields.extension.clone(),
            groups: fields.groups.clone(),
            revision: index,
            tokens: tokens.into_iter().filter(stays).collect(),
        };
        let change = audit::of_user(name, known, Some(&user));
        let had_admin = self.has_admin();
        let before = self.users.insert(name.clone(), user);
        if had_admin && !self.has_admin() {
            self.users.extend(before.map(|user| (name.clone(), user)));
            return Err(PeopleDenial::LastAdmin(name.to_string()).into());
        }
        Ok(change)
    }

    fn drop_user(&mut self, name: &UserName, seen: u64) -> Result<AuditChange, ClusterRejection> {
        let known = self.users.get(name);
        check_seen(
            name.as_str(),
            Some(seen),
            known.map(|it| it.revision),
            SubjectKind::User,
        )?;
        if known.is_some_and(|user| self.rights(user).admin) {
            return Err(PeopleDenial::RemoveAdmin(name.to_string()).into());
        }
        let before = self.users.remove(name);
        Ok(audit::of_user(name, before.as_ref(), None))
    }

    fn put_group(
        &mut self,
        index: u64,
        name: &GroupName,
        group: &UserGroup,
        seen: Option<u64>,
    ) -> Result<AuditChange, ClusterRejection> {
        let known = self.groups.get(name);
        check_seen(
            name.as_str(),
            seen,
            known.map(|it| it.revision),
            SubjectKind::Group,
        )?;
        group.check()?;
        if known.is_none() && self.groups.len() >= GROUPS_MAX {
            return Err(PeopleDenial::Invalid {
                field: "groupname".to_owned(),
                problem: format!("a cluster has at most {GROUPS_MAX} groups; remove some"),
            }
            .into());
        }
        let was = |vc| known.is_some_and(|group| group.acl.vcs.contains(vc));
        let no_vc = group
            .acl
            .vcs
            .iter()
            .find(|vc| !self.vcs.contains_key(*vc) && !was(vc));
        if let Some(vc) = no_vc {
            return Err(PeopleDenial::NoVc(vc.to_string()).into());
        }
        let group = UserGroup {
            revision: index,
            ..group.clone()
        };
        let change = audit::of_group(name, known, Some(&group));
        let had_admin = self.has_admin();
        let before = self.groups.insert(name.clone(), group);
        if had_admin && !self.has_admin() {
            self.groups
                .extend(before.map(|group| (name.clone(), group)));
            return Err(no_admin_left());
        }
        Ok(change)
    }

    fn drop_group(
        &mut self,
        index: u64,
        name: &GroupName,
        seen: u64,
    ) -> Result<AuditChange, ClusterRejection> {
        let known = self.groups.get(name);
        check_seen(
            name.as_str(),
            Some(seen),
            known.map(|it| it.revision),
            SubjectKind::Group,
        )?;
        if [ADMIN_GROUP, DEFAULT_GROUP].contains(&name.as_str()) {
            return Err(PeopleDenial::GroupNeeded(name.to_string()).into());
        }
        let had_admin = self.has_admin();
        let before = self.groups.remove(name);
        if had_admin && !self.has_admin() {
            self.groups
                .extend(before.map(|group| (name.clone(), group)));
            return Err(no_admin_left());
        }
        for user in self.users.values_mut() {
            if user.groups.remove(name) {
                user.revision = index;
            }
        }
        Ok(audit::of_group(name, before.as_ref(), None))
    }
}

fn no_admin_left() -> ClusterRejection {
    let denial = PeopleDenial::Invalid {
        field: "acls.admin".to_owned(),
        problem: "no user would be an admin after that; make another user an admin first"
            .to_owned(),
    };
    denial.into()
}

/// What an edit is about.
#[derive(Clone, Copy)]
enum SubjectKind {
    User,
    Group,
}

/// Whether what is there is what the author saw.
fn check_seen(
    name: &str,
    seen: Option<u64>,
    current: Option<u64>,
    kind: SubjectKind,
) -> Result<(), PeopleDenial> {
    let name = name.to_owned();
    match (seen, current, kind) {
        (None, None, _) => Ok(()),
        (Some(seen), Some(current), _) if seen == current => Ok(()),
        (Some(seen), Some(current), _) => Err(PeopleDenial::Changed {
            subject: name,
            seen,
            current,
        }),
        (None, Some(_), SubjectKind::User) => Err(PeopleDenial::UserExists(name)),
        (None, Some(_), SubjectKind::Group) => Err(PeopleDenial::GroupExists(name)),
        (Some(_), None, SubjectKind::User) => Err(PeopleDenial::NoUser(name)),
        (Some(_), None, SubjectKind::Group) => Err(PeopleDenial::NoGroup(name)),
    }
}
