//! Tokens of users by their ids: our own routes.

use muster_model::id::UserName;
use muster_model::user_token::{TokenSelection, UserTokenId, UserTokenView};
use schemars::JsonSchema;
use serde::Serialize;

use super::membership::done;
use crate::call::Call;
use crate::error::ApiError;
use crate::port::{PortError, Users};
use crate::reply::{HandlerResult, HttpReply};

/// A token in a list.
#[derive(Serialize, JsonSchema)]
struct ListedToken {
    #[serde(flatten)]
    view: UserTokenView,
    /// The one that the request came with.
    current: bool,
}

/// A token that was just made. Its text is shown this once.
#[derive(Serialize, JsonSchema)]
struct NewApplicationToken {
    token: String,
    view: UserTokenView,
}

#[derive(Serialize, JsonSchema)]
struct RevokedCount {
    /// How many.
    revoked: u32,
}

#[derive(Serialize, JsonSchema)]
struct TokenKeyNumber {
    /// The number of the key that signs now.
    key: u32,
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
    HttpReply::json(&NewApplicationToken {
        token: issued.text.0,
        view: issued.view,
    })
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
    HttpReply::json(&RevokedCount { revoked })
}

/// `POST tokens/key`: another key signs tokens from now on
pub(crate) async fn rotate_key(call: Call, users: &dyn Users) -> HandlerResult {
    let number = users.rotate_token_key(&call.author()?).await?;
    HttpReply::json(&TokenKeyNumber { key: number })
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

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use schemars::JsonSchema;

    use super::{ListedToken, NewApplicationToken, PortError, RevokedCount, TokenKeyNumber};
    use crate::openapi::{RouteDoc, any, body_fields};
    use crate::reply::DoneMessage;

    body_fields! {
        NewTokenFields {
            /// How long it works, in seconds; for ever unless told.
            expiration: Option<u64>,
            /// What the token is called.
            name: Option<String>,
        }
    }

    fn of_user(sentence: &'static str) -> RouteDoc {
        RouteDoc::new(sentence)
            .query::<String>("user", "Whose, if not of the user who asks.")
            .of_owner()
            .fails([PortError::NoUser(any())])
    }

    pub(crate) fn list() -> RouteDoc {
        of_user("Lists a user's tokens, the oldest first.").json::<Vec<ListedToken>>()
    }

    pub(crate) fn create() -> RouteDoc {
        of_user("Makes an application token.")
            .optional_fields::<NewTokenFields>()
            .changes_cluster()
            .json::<NewApplicationToken>()
    }

    pub(crate) fn revoke() -> RouteDoc {
        of_user("Makes a token invalid, by its id.")
            .fails([PortError::NoToken])
            .changes_cluster()
            .json::<DoneMessage>()
    }

    pub(crate) fn revoke_all() -> RouteDoc {
        RouteDoc::new("Makes all of a user's tokens invalid.")
            .needed_query::<String>("user", "Whose.")
            .of_owner()
            .fails([PortError::NoUser(any())])
            .changes_cluster()
            .json::<RevokedCount>()
    }

    pub(crate) fn rotate_key() -> RouteDoc {
        RouteDoc::new("Has another key sign tokens from now on.")
            .changes_cluster()
            .json::<TokenKeyNumber>()
    }
}
