//! Tokens of users by their ids: our own routes.

use muster_model::id::UserName;
use muster_model::user_token::{TokenSelection, UserTokenId, UserTokenView};
use serde::Serialize;
use serde_json::json;

use super::membership::done;
use crate::call::Call;
use crate::error::ApiError;
use crate::port::{PortError, Users};
use crate::reply::{HandlerResult, HttpReply};

/// A token in a list.
#[derive(Serialize)]
struct ListedToken {
    #[serde(flatten)]
    view: UserTokenView,
    /// The one that the request came with.
    current: bool,
}

/// `GET tokens?user=NAME`: the oldest first
pub(crate) async fn list(call: Call, users: &dyn Users) -> HandlerResult {
    let user = whose(&call)?;
    let current = current(&call, users).await?;
    let views = users.token_views(&user).await?.into_iter();
    let listed = views.map(|view| ListedToken {
        current: Some(view.id) == current,
        view,
    });
    HttpReply::json(&listed.collect::<Vec<_>>())
}

/// `POST tokens?user=NAME {"name", "expiration"}`: an application token. Its text is answered this once.
pub(crate) async fn create(mut call: Call, users: &dyn Users) -> HandlerResult {
    let user = whose(&call)?;
    let mut fields = call.fields().await?;
    let token = fields.new_token();
    fields.finish()?;
    let issued = users.issue_token(&call.author()?, &user, token).await?;
    HttpReply::json(&json!({"token": issued.text.0, "view": issued.view}))
}

/// `DELETE tokens/:token?user=NAME`
pub(crate) async fn revoke(call: Call, users: &dyn Users) -> HandlerResult {
    let user = whose(&call)?;
    let id = call.params.text("token");
    // What is no id names no token.
    let parsed: UserTokenId = id.parse().map_err(|_| PortError::NoToken)?;
    let which = TokenSelection::Id(user, parsed);
    users.revoke_tokens(&call.author()?, which).await?;
    done(&format!("token {parsed} is revoked"))
}

/// `DELETE tokens?user=NAME`: all of that user's
pub(crate) async fn revoke_all(call: Call, users: &dyn Users) -> HandlerResult {
    if call.query.text("user").is_none() {
        let missing = "user is required: name whose tokens are to be revoked, as ?user=NAME";
        return Err(ApiError::Parameters(missing.to_owned()));
    }
    let which = TokenSelection::OfUser(whose(&call)?);
    let revoked = users.revoke_tokens(&call.author()?, which).await?;
    HttpReply::json(&json!({ "revoked": revoked }))
}

/// `POST tokens/key`: another key signs tokens from now on
pub(crate) async fn rotate_key(call: Call, users: &dyn Users) -> HandlerResult {
    let number = users.rotate_token_key(&call.author()?).await?;
    HttpReply::json(&json!({ "key": number }))
}

/// The user that `?user=` names, else the caller. Only admins may name others.
fn whose(call: &Call) -> Result<UserName, ApiError> {
    let caller = call.caller()?;
    let Some(text) = call.query.text("user") else {
        return Ok(caller.user.clone());
    };
    if !caller.admin && caller.user.as_str() != text {
        return Err(ApiError::NotOwner {
            user: caller.user.to_string(),
            what: format!("tokens of {text}"),
        });
    }
    let unknown = |_| PortError::NoUser(text.to_owned()).into();
    text.parse().map_err(unknown)
}

/// The token that the request came with.
async fn current(call: &Call, users: &dyn Users) -> Result<Option<UserTokenId>, ApiError> {
    match &call.token {
        Some(token) => Ok(Some(users.check_token(token).await?.id)),
        None => Ok(None),
    }
}
