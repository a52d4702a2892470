//! The identity provider says that a person has logged out there.

use http::StatusCode;
use muster_model::id::UserName;
use muster_model::user_token::{TokenKind, TokenSelection};
use serde_json::Value;

use super::oidc::{by_keys, expected, logins};
use crate::call::Call;
use crate::clock;
use crate::error::ApiError;
use crate::oidc::OidcLogins;
use crate::oidc::logout_token::{self, VouchedLogout};
use crate::oidc::person::is_person;
use crate::port::{IdentityProvider, PortError, Users};
use crate::reply::{HandlerResult, HttpReply};

/// `POST /authn/oidc/backchannel-logout`: revokes the person's logins. Their application tokens stay.
pub(crate) async fn logout(
    mut call: Call,
    users: &dyn Users,
    provider: &dyn IdentityProvider,
) -> HandlerResult {
    let logins = logins(&call)?;
    let mut fields = call.fields().await?;
    let token = fields.text("logout_token");
    // Section 2.5: other fields may come beside it.
    fields.finish_taken()?;
    let vouched = believed(provider, &logins, &token).await?;
    // Not the name of a login's state, which is all base64.
    let number = format!("logout:{}", vouched.number);
    if !logins.spend(&number, vouched.until_s, clock::now_s()) {
        return Err(ApiError::LogoutToken("it was used before (jti)".to_owned()));
    }
    let (issuer, subject) = (&logins.config.issuer, &vouched.subject);
    let all = users.list().await?;
    for user in all.iter().filter(|user| is_person(user, issuer, subject)) {
        end_logins(&call, users, &user.name).await?;
    }
    Ok(HttpReply::empty(StatusCode::OK))
}

/// What a logout token says, with keys that are known, or with those of now.
async fn believed(
    provider: &dyn IdentityProvider,
    logins: &OidcLogins,
    token: &str,
) -> Result<VouchedLogout, ApiError> {
    let verify = |keys: &[Value]| {
        let expected = expected(logins, None);
        logout_token::verify(token, keys, expected, clock::now_s())
    };
    let verified = by_keys(provider, verify).await?;
    verified.map_err(|error| ApiError::LogoutToken(error.to_string()))
}

async fn end_logins(call: &Call, users: &dyn Users, user: &UserName) -> Result<(), ApiError> {
    let by = call.author_named(user.as_str());
    let views = users.token_views(user).await?.into_iter();
    for view in views.filter(|view| view.kind == TokenKind::Login) {
        let which = TokenSelection::Id(user.clone(), view.id);
        match users.revoke_tokens(&by, which).await {
            // It has expired, or was revoked, meanwhile.
            Ok(_) | Err(PortError::NoToken) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(crate) mod about {
    use http::StatusCode;
    use schemars::JsonSchema;

    use super::{ApiError, PortError};
    use crate::openapi::{RouteDoc, any, body_fields};

    body_fields! {
        LogoutFields {
            /// A token that the identity provider has signed.
            logout_token: String,
        }
    }

    pub(crate) fn logout() -> RouteDoc {
        RouteDoc::new("Ends the logins of a person who has logged out at the identity provider.")
            .body::<LogoutFields>("application/x-www-form-urlencoded")
            .fails([ApiError::NoApi(any()), ApiError::LogoutToken(any())])
            .fails([ApiError::Parameters(any()), ApiError::Syntax(any())])
            .fails([PortError::Unavailable(any())])
            .empty(StatusCode::OK, "They have ended.")
    }
}
