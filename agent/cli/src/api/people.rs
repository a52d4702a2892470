//! Routes of users, of groups and of the audit log.

use std::fmt::Write as _;

use muster_model::people::AuditLog;
use muster_model::usage::UsageView;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Api, encode};
use crate::error::CliError;

const USERS: &str = "/api/v2/users";
const GROUPS: &str = "/api/v2/groups";
/// Names the revision of what an answer shows.
const ETAG: &str = "etag";

/// A user as the API shows one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserEntry {
    pub(crate) username: String,
    #[serde(default)]
    pub(crate) email: String,
    #[serde(default)]
    pub(crate) grouplist: Vec<String>,
    #[serde(default)]
    pub(crate) extension: Map<String, Value>,
    #[serde(default)]
    pub(crate) admin: bool,
    #[serde(default)]
    pub(crate) virtual_cluster: Vec<String>,
    #[serde(default)]
    pub(crate) storage_config: Vec<String>,
}

/// A group as the API shows one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupEntry {
    pub(crate) groupname: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) external_name: String,
    /// What clients keep with the group, and `acls`: what its members may do.
    #[serde(default)]
    pub(crate) extension: Map<String, Value>,
}

/// A member of a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupMemberEntry {
    pub(crate) username: String,
    /// By this group or by another one.
    #[serde(default)]
    pub(crate) cluster_admin: bool,
}

/// One request that changes the groups of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupsStep {
    /// Into this one.
    Join(String),
    /// Out of this one.
    Leave(String),
    /// Exactly these.
    Exactly(Vec<String>),
}

impl Api {
    /// Every user.
    pub(crate) async fn users(&self) -> Result<Vec<UserEntry>, CliError> {
        self.client.get("cannot list users", USERS).await
    }

    /// One user.
    pub(crate) async fn user_named(&self, name: &str) -> Result<UserEntry, CliError> {
        let what = format!("cannot show {name}");
        self.client.get(&what, &user_path(name)).await
    }

    /// Adds a user.
    pub(crate) async fn add_user(&self, name: &str, user: &Value) -> Result<(), CliError> {
        let what = format!("cannot add {name}");
        self.client.post::<Value>(&what, USERS, user).await?;
        Ok(())
    }

    /// Changes these fields of a user.
    pub(crate) async fn change_user(
        &self,
        name: &str,
        mut fields: Map<String, Value>,
    ) -> Result<(), CliError> {
        fields.insert("username".to_owned(), name.into());
        let what = format!("cannot change {name}");
        let body = json!({ "patch": true, "data": fields });
        self.client.put(&what, USERS, &body).await
    }

    /// Changes the groups of a user.
    pub(crate) async fn change_groups(
        &self,
        user: &str,
        step: &GroupsStep,
    ) -> Result<(), CliError> {
        let path = format!("{}/group", user_path(user));
        match step {
            GroupsStep::Join(group) => {
                let what = format!("cannot make {user} a member of {group}");
                let body = json!({ "groupname": group });
                self.client.put(&what, &path, &body).await
            }
            GroupsStep::Leave(group) => {
                let what = format!("cannot take {user} out of {group}");
                let body = json!({ "groupname": group });
                self.client.delete_named(&what, &path, &body).await
            }
            GroupsStep::Exactly(groups) => {
                let what = format!("cannot change the groups of {user}");
                let body = json!({ "grouplist": groups });
                self.client.put(&what, &format!("{path}list"), &body).await
            }
        }
    }

    /// Gives a user a password. Only admins need not tell the one until now.
    pub(crate) async fn change_password(
        &self,
        user: &str,
        old: Option<&str>,
        new: &str,
    ) -> Result<(), CliError> {
        let what = format!("cannot change the password of {user}");
        let path = format!("{}/password", user_path(user));
        let mut body = json!({ "newPassword": new });
        if let Some(old) = old {
            body["oldPassword"] = old.into();
        }
        self.client.put(&what, &path, &body).await
    }

    /// Removes a user.
    pub(crate) async fn remove_user(&self, name: &str) -> Result<(), CliError> {
        let what = format!("cannot remove {name}");
        self.client.delete(&what, &user_path(name)).await
    }

    /// Every group.
    pub(crate) async fn groups(&self) -> Result<Vec<GroupEntry>, CliError> {
        self.client.get("cannot list groups", GROUPS).await
    }

    /// One group, and its revision if the agent tells it.
    pub(crate) async fn group(&self, name: &str) -> Result<(GroupEntry, Option<String>), CliError> {
        let what = format!("cannot show {name}");
        let (group, [revision]) = self.client.list(&what, &group_path(name), [ETAG]).await?;
        Ok((group, revision))
    }

    /// The members of a group.
    pub(crate) async fn group_members(
        &self,
        group: &str,
    ) -> Result<Vec<GroupMemberEntry>, CliError> {
        let what = format!("cannot show the members of {group}");
        let path = format!("{}/userlist", group_path(group));
        self.client.get(&what, &path).await
    }

    /// Adds a group.
    pub(crate) async fn add_group(&self, name: &str, group: &Value) -> Result<(), CliError> {
        let what = format!("cannot add {name}");
        self.client.post::<Value>(&what, GROUPS, group).await?;
        Ok(())
    }

    /// Changes these fields of a group; if `revision` is told, only while it is at that one.
    pub(crate) async fn change_group(
        &self,
        name: &str,
        mut fields: Map<String, Value>,
        revision: Option<&str>,
    ) -> Result<(), CliError> {
        fields.insert("groupname".to_owned(), name.into());
        let what = format!("cannot change {name}");
        let body = json!({ "patch": true, "data": fields });
        match revision {
            Some(revision) => self.client.put_at(&what, GROUPS, &body, revision).await,
            None => self.client.put(&what, GROUPS, &body).await,
        }
    }

    /// Removes a group.
    pub(crate) async fn remove_group(&self, name: &str) -> Result<(), CliError> {
        let what = format!("cannot remove {name}");
        self.client.delete(&what, &group_path(name)).await
    }

    /// What a user and their groups use of what is limited: the caller's, one user's, or that of all.
    pub(crate) async fn usage(
        &self,
        of: Option<&str>,
        all: bool,
    ) -> Result<Vec<UsageView>, CliError> {
        let path = match of {
            Some(user) => format!("/api/muster/v1/usage?user={}", encode(user)),
            None if all => "/api/muster/v1/usage?all=true".to_owned(),
            None => "/api/muster/v1/usage".to_owned(),
        };
        self.client.get("cannot show the usage", &path).await
    }

    /// The newest records of the audit log, of one user or group if `subject` names it.
    pub(crate) async fn audit(
        &self,
        subject: Option<&str>,
        limit: u32,
    ) -> Result<AuditLog, CliError> {
        let mut path = format!("/api/muster/v1/audit?limit={limit}");
        if let Some(subject) = subject {
            let _ = write!(path, "&subject={}", encode(subject));
        }
        self.client.get("cannot show the audit log", &path).await
    }
}

fn user_path(name: &str) -> String {
    format!("{USERS}/{}", encode(name))
}

fn group_path(name: &str) -> String {
    format!("{GROUPS}/{}", encode(name))
}
