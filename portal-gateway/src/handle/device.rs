//! Logins on a machine without a browser, by the device flow of RFC 8628: the client shows a code, its person types it
//! into a browser anywhere, and the client asks meanwhile whether they have logged in.
//!
//! This node keeps nothing of a login but that it has ended: the client has a sealed handle, which any member can
//! open.

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::oidc::{believed, let_in};
use super::session::IssuedLogin;
use crate::call::Call;
use crate::clock;
use crate::error::ApiError;
use crate::oidc::OidcLogins;
use crate::oidc::device::{DeviceFlight, DeviceStart};
use crate::port::{DeviceGrant, DeviceOutcome, IdentityProvider, Login, PortError, Users};
use crate::reply::{HandlerResult, HttpReply};

const NO_PROVIDER: &str = "this cluster has no identity provider: log in by your password, with \
                           `muster login URL --password`";
const NO_DEVICE_FLOW: &str = "the identity provider has no device flow (its metadata name no \
                              device_authorization_endpoint): log in by your password, with `muster login \
                              URL --password`, or in a browser, and give the token as MUSTER_TOKEN";
const NO_DEVICE_FLOW_NOR_PASSWORDS: &str = "the identity provider has no device flow (its metadata name no device_authorization_endpoint): \
     log in in a browser, and give the token as MUSTER_TOKEN";

/// A login that waits for its person.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BegunDeviceLogin {
    /// What the person types.
    user_code: String,
    /// Where.
    verification_uri: String,
    /// The same with the code in it.
    verification_uri_complete: Option<String>,
    /// How long to wait between two questions, at least.
    interval_seconds: u64,
    /// When the code is good for nothing any more.
    expires_in_seconds: u64,
    /// What to ask with.
    handle: String,
}

/// How a login stands that has not ended.
#[derive(Serialize, JsonSchema)]
struct DeviceLoginStatus {
    /// `pending`, or `slowDown`: wait five seconds more between questions.
    status: &'static str,
}

/// `POST /authn/device`: a code for a person to type into a browser
pub(crate) async fn begin(mut call: Call, provider: &dyn IdentityProvider) -> HandlerResult {
    let logins = logins(&call)?;
    let mut fields = call.fields().await?;
    let token_name = fields.token_name();
    fields.finish()?;
    if !provider.metadata().await?.has_device_flow {
        return Err(ApiError::NoDeviceLogin(match logins.config.passwords {
            true => NO_DEVICE_FLOW,
            false => NO_DEVICE_FLOW_NOR_PASSWORDS,
        }));
    }
    let start = DeviceStart::new()?;
    let scope = logins.config.scopes.join(" ");
    let grant = provider.begin_device(&scope, &start.challenge()).await;
    let grant = grant.map_err(refused)?;
    let now_s = clock::now_s();
    let flight = start.granted(&grant, token_name, now_s)?;
    let handle = flight.seal(&call.config.log_link_key.borrow())?;
    let life_s = flight.until_s.saturating_sub(now_s);
    let DeviceGrant {
        user_code,
        verification_uri,
        verification_uri_complete,
        interval_s,
        ..
    } = grant;
    HttpReply::json(&BegunDeviceLogin {
        user_code,
        verification_uri,
        verification_uri_complete,
        interval_seconds: interval_s,
        expires_in_seconds: life_s,
        handle,
    })
}

/// `POST /authn/device/token`: a token, once the person has logged in
pub(crate) async fn poll(
    mut call: Call,
    users: &dyn Users,
    provider: &dyn IdentityProvider,
) -> HandlerResult {
    let logins = logins(&call)?;
    let mut fields = call.fields().await?;
    let handle = fields.text("handle");
    fields.finish()?;
    let flight = DeviceFlight::open(&call.config.log_link_key.borrow(), &handle);
    let flight = flight.ok_or(ApiError::DeviceHandle)?;
    let now_s = clock::now_s();
    if flight.until_s <= now_s {
        return Err(ApiError::DeviceExpired);
    }
    if logins.is_spent(&flight.id) {
        return Err(ApiError::DeviceHandle);
    }
    let outcome = provider.poll_device(&flight.device_code, &flight.verifier);
    let token = match outcome.await.map_err(refused)? {
        DeviceOutcome::Pending => return waiting("pending"),
        DeviceOutcome::SlowDown => return waiting("slowDown"),
        DeviceOutcome::Denied => return Err(ApiError::DeviceDenied),
        DeviceOutcome::Expired => return Err(ApiError::DeviceExpired),
        DeviceOutcome::Granted(token) => token,
    };
    // The provider gives a token for a code once. Should it give another one, it is not taken here.
    if !logins.spend(&flight.id, flight.until_s, now_s) {
        return Err(ApiError::DeviceHandle);
    }
    let claims = believed(provider, &logins, (&token, None)).await?;
    let login = let_in(&call, users, (&logins, &claims), flight.token_name);
    let Login { user, token, admin } = login.await?;
    HttpReply::json(&IssuedLogin { user, token, admin })
}

fn logins(call: &Call) -> Result<Arc<OidcLogins>, ApiError> {
    let missing = || ApiError::NoDeviceLogin(NO_PROVIDER);
    call.config.oidc.clone().ok_or_else(missing)
}

/// The person has not logged in yet.
fn waiting(status: &'static str) -> HandlerResult {
    let reply = HttpReply::json(&DeviceLoginStatus { status })?;
    Ok(reply.with_status(StatusCode::ACCEPTED))
}

/// What the provider refuses concerns the login, not what the caller may do here.
fn refused(error: PortError) -> ApiError {
    match error {
        PortError::Forbidden(why) => ApiError::Oidc(why),
        error => error.into(),
    }
}

pub(crate) mod about {
    use http::StatusCode;
    use schemars::JsonSchema;

    use super::{ApiError, BegunDeviceLogin, DeviceLoginStatus, IssuedLogin};
    use crate::handle::oidc::about::fails_as_a_login;
    use crate::openapi::{JSON, RouteDoc, any, body_fields};
    use crate::port::PortError;

    body_fields! {
        DeviceFields {
            /// What the token is to be called.
            name: Option<String>,
        }
        HandleFields {
            /// What the answer to the first request has.
            handle: String,
        }
    }

    pub(crate) fn begin() -> RouteDoc {
        RouteDoc::new("Begins a login on a machine without a browser.")
            .optional_fields::<DeviceFields>()
            .fails([ApiError::NoDeviceLogin(""), ApiError::Oidc(any())])
            .fails([PortError::Unavailable(any())])
            .json::<BegunDeviceLogin>()
    }

    pub(crate) fn poll() -> RouteDoc {
        let doc = RouteDoc::new("Asks whether the person has logged in.")
            .fields::<HandleFields>()
            .answer::<DeviceLoginStatus>(StatusCode::ACCEPTED, JSON)
            .fails([ApiError::NoDeviceLogin(""), ApiError::DeviceHandle])
            .fails([ApiError::DeviceExpired, ApiError::DeviceDenied]);
        fails_as_a_login(doc).json::<IssuedLogin>()
    }
}
