//! Who asks, and may they.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, COOKIE};

use crate::config::GatewayConfig;
use crate::error::ApiError;
use crate::peer::RemoteEnd;
use crate::port::{self, Caller, Users};
use crate::web::session;

/// Names the user that root acts for on the socket.
pub(crate) const USER_HEADER: &str = "x-muster-user";
/// How the portal's cookie with a token begins.
const TOKEN_COOKIE: &str = "token=";

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteAccess {
    /// Anybody.
    Open,
    /// Anybody; a valid token shows more.
    OpenOrUser,
    /// Any valid token.
    User,
    /// Any valid token, also in the cookie where OpenPAI's portal keeps it: some of its requests carry
    /// no other login. Only for what reads.
    Browser,
    /// A page of the portal, or a form on one: any valid token but an application's, in the cookie of the
    /// session and nowhere else.
    Page,
    /// The same for admins alone.
    AdminPage,
    /// Any valid token but an application's.
    Person,
    /// An admin.
    Admin,
    /// An admin, with any valid token but an application's.
    AdminPerson,
}

impl RouteAccess {
    /// Whether it is a page of the portal.
    pub(crate) const fn is_page(self) -> bool {
        matches!(self, Self::Page | Self::AdminPage)
    }

    /// Refuses a caller that the route is not for.
    pub(crate) fn check(self, caller: &Caller) -> Result<(), ApiError> {
        match self {
            Self::Page | Self::AdminPage | Self::Person | Self::AdminPerson
                if caller.application =>
            {
                Err(ApiError::ApplicationToken)
            }
            Self::Admin | Self::AdminPage | Self::AdminPerson if !caller.admin => {
                Err(ApiError::NotAdmin)
            }
            Self::Open
            | Self::OpenOrUser
            | Self::User
            | Self::Browser
            | Self::Page
            | Self::AdminPage
            | Self::Person
            | Self::Admin
            | Self::AdminPerson => Ok(()),
        }
    }
}

/// Finds out who asks, and the token they came with. The socket is opened by root alone, so it
/// needs no token.
pub(crate) async fn authenticate(
    users: &dyn Users,
    config: &GatewayConfig,
    peer: RemoteEnd,
    (headers, access): (&HeaderMap, RouteAccess),
) -> Result<(Caller, Option<String>), ApiError> {
    if peer == RemoteEnd::Socket {
        return Ok((root(config, headers)?, None));
    }
    let credentials = match (access, Credentials::of(headers)) {
        (RouteAccess::Page | RouteAccess::AdminPage, _) => Credentials::of_session(headers)?,
        (RouteAccess::Browser, Err(ApiError::Guest)) => Credentials::of_cookie(headers)?,
        (_, credentials) => credentials?,
    };
    let caller = users.check_token(&credentials.token).await?.caller;
    match credentials.user {
        Some(user) if !caller.application || user != caller.user.as_str() => {
            Err(port::PortError::InvalidToken.into())
        }
        _ => Ok((caller, Some(credentials.token))),
    }
}

fn root(config: &GatewayConfig, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let user = match headers.get(USER_HEADER) {
        None => config.socket_user.clone(),
        Some(name) => String::from_utf8_lossy(name.as_bytes())
            .parse()
            .map_err(|e| ApiError::Parameters(format!("{USER_HEADER}: {e}")))?,
    };
    Ok(Caller {
        user,
        admin: true,
        application: false,
    })
}

/// What an `Authorization` header holds.
struct Credentials {
    token: String,
    /// Named by the Basic form, which is for application tokens.
    user: Option<String>,
}

impl Credentials {
    fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let header = headers
            .get(AUTHORIZATION)
            .filter(|header| !header.is_empty())
            .ok_or(ApiError::Guest)?;
        let invalid = || ApiError::Cluster(port::PortError::InvalidToken);
        let (scheme, rest) = header
            .to_str()
            .ok()
            .and_then(|text| text.trim().split_once(' '))
            .ok_or_else(invalid)?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return Ok(Self {
                token: rest.trim().to_owned(),
                user: None,
            });
        }
        if scheme.eq_ignore_ascii_case("basic") {
            return Self::basic(rest.trim()).ok_or_else(invalid);
        }
        Err(invalid())
    }

    /// The token that the portal keeps in a cookie of its own making.
    fn of_cookie(headers: &HeaderMap) -> Result<Self, ApiError> {
        let cookies = headers.get_all(COOKIE).into_iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';'));
        let token = pairs.find_map(|pair| pair.trim().strip_prefix(TOKEN_COOKIE));
        let token = token.filter(|token| !token.is_empty());
        Ok(Self {
            token: token.ok_or(ApiError::Guest)?.to_owned(),
            user: None,
        })
    }

    /// The token of a session of the portal.
    fn of_session(headers: &HeaderMap) -> Result<Self, ApiError> {
        let token = session::token(headers).ok_or(ApiError::Guest)?;
        Ok(Self {
            token: token.to_owned(),
            user: None,
        })
    }

    fn basic(encoded: &str) -> Option<Self> {
        let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
        let (user, token) = text.split_once(':')?;
        Some(Self {
            token: token.to_owned(),
            user: Some(user.to_owned()),
        })
    }
}
