//! Logins and tokens.

use muster_model::id::UserName;
use muster_model::people::PASSWORD_CHARS_MIN;
use muster_model::secret::Hidden;
use muster_model::user_token::TokenSelection;
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Call;
use crate::error::ApiError;
use crate::port::{self, Login, LoginTerms, Users};
use crate::reply::{HandlerResult, HttpReply};
use crate::wire::user::Check;

/// Bounds of the life a client may ask for, in seconds. Like upstream we check it and then
/// issue the usual life.
const EXPIRATION_S: (i64, i64) = (60, 604_800);

/// A login: the user, and the token that was issued.
#[derive(Serialize, JsonSchema)]
pub(super) struct IssuedLogin {
    pub(super) user: UserName,
    pub(super) token: String,
    pub(super) admin: bool,
}

#[derive(Serialize, JsonSchema)]
struct TokenTexts {
    tokens: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct ApplicationToken {
    token: String,
    application: bool,
}

/// `POST /authn/basic/login`, `POST /tokens`, `POST /api/v1/token`
pub(crate) async fn login(mut call: Call, users: &dyn Users) -> HandlerResult {
    let oidc = call.config.oidc.as_ref();
    if oidc.is_some_and(|logins| !logins.config.passwords) {
        return Err(ApiError::NoPasswords);
    }
    let mut fields = call.fields().await?;
    let user = fields.text("username");
    let password = fields.text("password");
    let chars = password.chars().count();
    if (1..PASSWORD_CHARS_MIN).contains(&chars) {
        let rule = format!("length must be at least {PASSWORD_CHARS_MIN} characters long");
        fields.wrong("password", &rule);
    }
    fields.optional_integer("expiration", EXPIRATION_S.0, EXPIRATION_S.1);
    let name = fields.token_name();
    fields.finish()?;
    let login = let_in(&call, users, (&user, &password), name).await?;
    let Login { user, token, admin } = login;
    HttpReply::json(&IssuedLogin { user, token, admin })
}

/// Has a password checked, unless too many were wrong before.
pub(crate) async fn let_in(
    call: &Call,
    users: &dyn Users,
    (user, password): (&str, &str),
    name: String,
) -> Result<Login, ApiError> {
    let trust = call.admit_password(user)?;
    let terms = LoginTerms { trust, name };
    let by = call.author_named(user);
    let login = users.login(&by, password, terms).await;
    match &login {
        Ok(_) => call.count_password(user, true),
        Err(port::PortError::NoUser(_) | port::PortError::WrongPassword) => {
            call.count_password(user, false);
        }
        Err(_) => {}
    }
    Ok(login?)
}

/// `DELETE /authn/basic/logout`
pub(crate) async fn logout(call: Call, users: &dyn Users) -> HandlerResult {
    if let Some(token) = &call.token {
        revoke_text(&call, users, token).await?;
    }
    HttpReply::message("Logout successfully")
}

/// `GET /tokens`
pub(crate) async fn list(call: Call, users: &dyn Users) -> HandlerResult {
    let tokens = users.tokens(&call.caller()?.user).await?;
    HttpReply::json(&TokenTexts { tokens })
}

/// `GET /tokens/check`
pub(crate) async fn check(call: Call, users: &dyn Users) -> HandlerResult {
    match &call.token {
        Some(token) => HttpReply::json(&Check::of_token(&users.check_token(token).await?)),
        None => HttpReply::json(&Check::of(call.caller()?)),
    }
}

/// `POST /tokens/application {"name", "expiration"}`. Upstream takes any body and looks at none.
pub(crate) async fn application(mut call: Call, users: &dyn Users) -> HandlerResult {
    let mut fields = call.fields().await?;
    let token = fields.new_token();
    fields.finish_taken()?;
    let issued = users
        .issue_token(&call.author()?, &call.caller()?.user, token)
        .await?;
    HttpReply::json(&ApplicationToken {
        token: issued.text.0,
        application: true,
    })
}

/// `DELETE /tokens/:token`
pub(crate) async fn revoke(call: Call, users: &dyn Users) -> HandlerResult {
    revoke_text(&call, users, call.params.text("token")).await?;
    HttpReply::message("revoke successfully")
}

/// `DELETE /tokens`, as OpenPAI's successor has it: those of all users
pub(crate) async fn revoke_all(call: Call, users: &dyn Users) -> HandlerResult {
    users
        .revoke_tokens(&call.author()?, TokenSelection::All)
        .await?;
    HttpReply::message("All tokens revoked successfully")
}

/// Revokes a token of the caller's.
async fn revoke_text(call: &Call, users: &dyn Users, token: &str) -> Result<(), ApiError> {
    let user = call.caller()?.user.clone();
    let which = TokenSelection::Text(user, Hidden(token.to_owned()));
    users.revoke_tokens(&call.author()?, which).await?;
    Ok(())
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use schemars::JsonSchema;

    use super::{ApiError, ApplicationToken, Check, IssuedLogin, TokenTexts, UserName};
    use crate::openapi::{RouteDoc, any, body_fields};
    use crate::port::PortError;
    use crate::reply::DoneMessage;

    body_fields! {
        LoginFields {
            username: UserName,
            /// At least six characters.
            password: String,
            /// Is checked, as OpenPAI does, and then all logins last as long.
            expiration: Option<u32>,
            /// What the token is called.
            name: Option<String>,
        }
    }

    /// What is looked at of any body.
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "read field by field")]
    struct ApplicationFields {
        /// How long it works, in seconds; for ever unless told.
        expiration: Option<u64>,
        /// What the token is called.
        name: Option<String>,
    }

    pub(crate) fn login() -> RouteDoc {
        RouteDoc::new("Checks a password, and gives a token.")
            .fields::<LoginFields>()
            .checks_password()
            .fails([ApiError::NoPasswords])
            .fails([
                PortError::NoUser(any()),
                PortError::WrongPassword,
                PortError::Unavailable(any()),
            ])
            .json::<IssuedLogin>()
    }

    pub(crate) fn logout() -> RouteDoc {
        RouteDoc::new("Makes the token of this request invalid.")
            .fails([PortError::NoToken])
            .changes_cluster()
            .json::<DoneMessage>()
    }

    pub(crate) fn list() -> RouteDoc {
        RouteDoc::new("Lists the tokens of the user who asks.").json::<TokenTexts>()
    }

    pub(crate) fn check() -> RouteDoc {
        RouteDoc::new("Says whose the token of this request is.").json::<Check>()
    }

    pub(crate) fn application() -> RouteDoc {
        RouteDoc::new("Makes an application token.")
            .optional_fields::<ApplicationFields>()
            .changes_cluster()
            .json::<ApplicationToken>()
    }

    pub(crate) fn revoke() -> RouteDoc {
        RouteDoc::new("Makes a token invalid.")
            .fails([PortError::NoToken])
            .changes_cluster()
            .json::<DoneMessage>()
    }

    pub(crate) fn revoke_all() -> RouteDoc {
        RouteDoc::new("Makes all tokens of all users invalid.")
            .changes_cluster()
            .json::<DoneMessage>()
    }
}
