//! Routes of logins and of users' tokens.

use std::time::Duration;

use http::Method;
use muster_model::id::UserName;
use muster_model::user_token::{NewUserToken, UserTokenId, UserTokenView};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Api, encode};
use crate::client;
use crate::error::CliError;

const TOKENS: &str = "/api/muster/v1/tokens";
const DEVICE_LOGIN: &str = "/api/muster/v1/authn/device";
/// How long a logout waits: it is to end also where nobody answers.
const LOGOUT_TIMEOUT: Duration = Duration::from_secs(15);

/// A token in a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ListedUserToken {
    #[serde(flatten)]
    pub(crate) view: UserTokenView,
    /// The one that the list was asked for with.
    #[serde(default)]
    pub(crate) current: bool,
}

/// A token that was issued.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CreatedUserToken {
    /// Its text.
    pub(crate) token: String,
    pub(crate) view: UserTokenView,
}

/// What the agent says of the token that it is asked with.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TokenCheck {
    pub(crate) username: UserName,
    pub(crate) application: bool,
    pub(crate) admin: bool,
    /// When it expires, seconds since the epoch.
    #[serde(default)]
    pub(crate) exp: Option<u64>,
}

/// A login by the device flow that has begun.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BegunDeviceLogin {
    /// What the person types.
    pub(crate) user_code: String,
    /// Where.
    pub(crate) verification_uri: String,
    /// The same with the code in it.
    #[serde(default)]
    pub(crate) verification_uri_complete: Option<String>,
    /// From one question to the next, at least.
    pub(crate) interval_seconds: u64,
    /// How long the code is good.
    pub(crate) expires_in_seconds: u64,
    /// What the agents know the login by.
    handle: String,
}

/// What has become of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum DeviceLoginAnswer {
    /// The person has logged in.
    LoggedIn {
        /// Who they are.
        user: UserName,
        /// Their token.
        token: String,
    },
    /// Not yet.
    Waiting {
        /// Why.
        status: DeviceLoginWait,
    },
}

/// Why there is no token yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum DeviceLoginWait {
    /// The person has not logged in.
    Pending,
    /// The same, and the provider is asked too often.
    SlowDown,
}

impl Api {
    /// Whether people log in to the cluster by an identity provider.
    pub(crate) async fn has_identity_provider(&self) -> Result<bool, CliError> {
        #[derive(Deserialize)]
        struct LoginKind {
            authn_type: String,
        }
        let what = "cannot tell how to log in";
        let kind: LoginKind = self.client.get(what, "/api/v1/authn/info").await?;
        Ok(kind.authn_type == "OIDC")
    }

    /// Begins a login by the device flow; `name` is what the token will be called.
    pub(crate) async fn begin_device_login(
        &self,
        name: &str,
    ) -> Result<BegunDeviceLogin, CliError> {
        let body = json!({ "name": name });
        self.client.post("cannot log in", DEVICE_LOGIN, &body).await
    }

    /// Whether the person has logged in.
    pub(crate) async fn poll_device_login(
        &self,
        begun: &BegunDeviceLogin,
    ) -> Result<DeviceLoginAnswer, CliError> {
        let path = format!("{DEVICE_LOGIN}/token");
        let body = json!({ "handle": begun.handle });
        self.client.post("cannot log in", &path, &body).await
    }

    /// A token for a user and their password; `name` is what the token is called.
    pub(crate) async fn log_in(
        &self,
        user: &str,
        password: &str,
        name: &str,
    ) -> Result<String, CliError> {
        #[derive(Deserialize)]
        struct LoginAnswer {
            token: String,
        }
        let what = format!("cannot log in as {user}");
        let mut body = json!({ "username": user, "password": password });
        if !name.is_empty() {
            body["name"] = name.into();
        }
        let path = "/api/v2/authn/basic/login";
        let answer: LoginAnswer = self.client.post(&what, path, &body).await?;
        Ok(answer.token)
    }

    /// Revokes the token that requests carry.
    pub(crate) async fn log_out(&self) -> Result<(), CliError> {
        let path = "/api/v2/authn/basic/logout";
        let request = self.client.request(Method::DELETE, path);
        let what = "cannot log out";
        let answer = self
            .client
            .call(what, request, client::empty(), LOGOUT_TIMEOUT);
        answer.await.map(drop)
    }

    /// Who the agent takes the caller for.
    pub(crate) async fn token_check(&self) -> Result<TokenCheck, CliError> {
        let what = "cannot tell who you are";
        self.client.get(what, "/api/v2/tokens/check").await
    }

    /// Tokens of a user, else of the caller.
    pub(crate) async fn user_tokens(
        &self,
        user: Option<&UserName>,
    ) -> Result<Vec<ListedUserToken>, CliError> {
        let path = format!("{TOKENS}{}", query(user));
        self.client.get("cannot list tokens", &path).await
    }

    /// Makes an application token of a user, else of the caller.
    pub(crate) async fn create_user_token(
        &self,
        user: Option<&UserName>,
        token: &NewUserToken,
    ) -> Result<CreatedUserToken, CliError> {
        let mut body = Map::new();
        body.insert("name".to_owned(), token.name.as_str().into());
        if let Some(life_s) = token.life_s {
            body.insert("expiration".to_owned(), life_s.into());
        }
        let path = format!("{TOKENS}{}", query(user));
        let body = Value::Object(body);
        self.client.post("cannot make a token", &path, &body).await
    }

    /// Revokes one token of a user, else of the caller.
    pub(crate) async fn revoke_user_token(
        &self,
        user: Option<&UserName>,
        id: UserTokenId,
    ) -> Result<(), CliError> {
        let path = format!("{TOKENS}/{id}{}", query(user));
        self.client
            .delete(&format!("cannot revoke {id}"), &path)
            .await
    }

    /// Revokes all tokens of a user. How many there were.
    pub(crate) async fn revoke_user_tokens(&self, user: &UserName) -> Result<u32, CliError> {
        #[derive(Deserialize)]
        struct RevokedTokens {
            revoked: u32,
        }
        let what = format!("cannot revoke the tokens of {user}");
        let path = format!("{TOKENS}{}", query(Some(user)));
        let request = self.client.request(Method::DELETE, &path);
        let answer = self
            .client
            .call(&what, request, client::empty(), client::ANSWER_TIMEOUT);
        let answer: RevokedTokens = client::understood(&what, &answer.await?)?;
        Ok(answer.revoked)
    }

    /// Has another key sign tokens. Its number.
    pub(crate) async fn rotate_token_key(&self) -> Result<u32, CliError> {
        #[derive(Deserialize)]
        struct NewKey {
            key: u32,
        }
        let path = format!("{TOKENS}/key");
        let what = "cannot change the key of tokens";
        let answer: NewKey = self.client.post(what, &path, &json!({})).await?;
        Ok(answer.key)
    }
}

fn query(user: Option<&UserName>) -> String {
    user.map_or_else(String::new, |user| {
        format!("?user={}", encode(user.as_str()))
    })
}
