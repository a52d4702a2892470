//! Logins and tokens.

use muster_model::people::PASSWORD_CHARS_MIN;
use serde_json::json;

use crate::call::Call;
use crate::error::ApiError;
use crate::port::{self, Login, Users};
use crate::reply::{HandlerResult, HttpReply};
use crate::wire::user::Check;

/// Bounds of the life a client may ask for, in seconds. Like upstream we check it and then
/// issue the usual life.
const EXPIRATION_S: (i64, i64) = (60, 604_800);

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
    fields.finish()?;
    let Login { user, token, admin } = let_in(&call, users, (&user, &password)).await?;
    HttpReply::json(&json!({"user": user, "token": token, "admin": admin}))
}

/// Has a password checked, unless too many were wrong before.
async fn let_in(
    call: &Call,
    users: &dyn Users,
    (user, password): (&str, &str),
) -> Result<Login, ApiError> {
    let trust = call.admit_password(user)?;
    let login = users.login(user, password, trust).await;
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
        users.revoke_token(&call.caller()?.user, token).await?;
    }
    HttpReply::json(&json!({"message": "Logout successfully"}))
}

/// `GET /tokens`
pub(crate) async fn list(call: Call, users: &dyn Users) -> HandlerResult {
    let tokens = users.tokens(&call.caller()?.user).await?;
    HttpReply::json(&json!({"tokens": tokens}))
}

/// `GET /tokens/check`
pub(crate) async fn check(call: Call, users: &dyn Users) -> HandlerResult {
    match &call.token {
        Some(token) => HttpReply::json(&Check::of_token(&users.check_token(token).await?)),
        None => HttpReply::json(&Check::of(call.caller()?)),
    }
}

/// `POST /tokens/application`
pub(crate) async fn application(call: Call, users: &dyn Users) -> HandlerResult {
    let token = users.issue_application_token(&call.caller()?.user).await?;
    HttpReply::json(&json!({"token": token, "application": true}))
}

/// `DELETE /tokens/:token`
pub(crate) async fn revoke(call: Call, users: &dyn Users) -> HandlerResult {
    let token = call.params.text("token");
    users.revoke_token(&call.caller()?.user, token).await?;
    HttpReply::json(&json!({"message": "revoke successfully"}))
}
