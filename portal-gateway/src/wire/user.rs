//! Users, and what a token says.

use muster_model::id::UserName;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::port::{Caller, TokenInfo, UserView};

/// Parts of a user's extension that hold secrets: only the user and admins see them.
pub(crate) const SECRET_EXTENSIONS: [&str; 3] = ["jobSSH", "boundedClusters", "githubPAT"];

/// A user.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireUser {
    username: String,
    grouplist: Vec<String>,
    email: String,
    #[schemars(with = "serde_json::Map<String, Value>")]
    extension: Value,
    admin: bool,
    virtual_cluster: Vec<String>,
    storage_config: Vec<String>,
}

impl WireUser {
    /// The user as `caller` may see them.
    pub(crate) fn of(user: &UserView, caller: &Caller) -> Self {
        Self {
            username: user.name.to_string(),
            grouplist: user.groups.iter().map(ToString::to_string).collect(),
            email: user.email.clone(),
            extension: extension(user, caller),
            admin: user.admin,
            virtual_cluster: user.vcs.iter().map(ToString::to_string).collect(),
            storage_config: user.storages.clone(),
        }
    }
}

fn extension(user: &UserView, caller: &Caller) -> Value {
    let mut fields = match &user.extension {
        Value::Object(fields) => fields.clone(),
        _ => serde_json::Map::new(),
    };
    if !caller.admin && caller.user != user.name {
        fields.retain(|name, _| !SECRET_EXTENSIONS.contains(&name.as_str()));
    }
    Value::Object(fields)
}

/// What `tokens/check` answers: the token's payload and the rights of its user.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Check {
    username: UserName,
    application: bool,
    job_specific: bool,
    encoded_framework_name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    iat: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<u64>,
    admin: bool,
}

impl Check {
    pub(crate) fn of_token(info: &TokenInfo) -> Self {
        Self {
            iat: Some(info.issued),
            exp: info.expires,
            ..Self::of(&info.caller)
        }
    }

    /// For a caller on the socket, who has no token.
    pub(crate) fn of(caller: &Caller) -> Self {
        Self {
            username: caller.user.clone(),
            application: caller.application,
            job_specific: false,
            encoded_framework_name: "",
            iat: None,
            exp: None,
            admin: caller.admin,
        }
    }
}
