//! Logins by an identity provider: to it, back from it, and out again.

use std::sync::Arc;

use bytes::Bytes;
use form_urlencoded::Serializer;
use http::header::{CONTENT_TYPE, COOKIE, HOST, LOCATION, REFERRER_POLICY, SET_COOKIE};
use http::{HeaderValue, StatusCode};
use serde_json::{Map, Value};

use crate::call::Call;
use crate::clock;
use crate::error::ApiError;
use crate::oidc::flight::{LIFE_S, LoginFlight};
use crate::oidc::id_token::{self, Expected, IdTokenError};
use crate::oidc::person::VouchedPerson;
use crate::oidc::{OidcLogins, origin};
use crate::port::{self, CodeExchange, IdentityProvider, Login, Users};
use crate::query::Query;
use crate::reply::{HandlerResult, HttpReply, ReplyContent, ascii};
use crate::web;

/// Where the provider sends browsers back.
const RETURN: &str = "/api/v1/authn/oidc/return";
/// What a provider may answer there.
const RETURNED: [&str; 4] = ["state", "code", "error", "error_description"];
const FORM: &str = "application/x-www-form-urlencoded";
/// What a login for the portal's own pages names as its end, at the origin where it began.
const PORTAL: &str = "/signed-in";
/// What is shown of an error that the provider tells.
const TOLD_CHARS_MAX: usize = 200;

/// `GET /authn/oidc/login`: sends the browser to the provider
pub(crate) async fn login(call: Call, provider: &dyn IdentityProvider) -> HandlerResult {
    let logins = logins(&call)?;
    let own = own_origin(&call, &logins)?;
    let redirect_uri = redirect_uri(&call, &logins, &own)?;
    let from = call.query.text("from").unwrap_or_default().to_owned();
    let metadata = provider.metadata().await?;
    let return_uri = format!("{own}{RETURN}");
    let flight = LoginFlight::begin(return_uri, (redirect_uri, from), clock::now_s())?;
    let config = &logins.config;
    let place = with_query(
        &metadata.authorization_endpoint,
        &[
            ("response_type", "code"),
            ("client_id", &config.client_id),
            ("redirect_uri", &flight.return_uri),
            ("scope", &config.scopes.join(" ")),
            ("state", &flight.state),
            ("nonce", &flight.nonce),
            ("code_challenge", &flight.challenge()),
            ("code_challenge_method", "S256"),
        ],
    );
    let sealed = flight.seal(&call.config.log_link_key.borrow())?;
    Ok(sent_to(place)?.with(SET_COOKIE, cookie(&call, &sealed, LIFE_S)))
}

/// `GET /authn/oidc/return`: the browser is back with a code, and goes on with a token
pub(crate) async fn finish(
    call: Call,
    users: &dyn Users,
    provider: &dyn IdentityProvider,
) -> HandlerResult {
    let logins = logins(&call)?;
    let flight = returned(&call, &logins)?;
    if let Some(error) = call.query.text("error") {
        let why = call.query.text("error_description").unwrap_or(error);
        let why: String = why.chars().take(TOLD_CHARS_MAX).collect();
        return Err(ApiError::Oidc(format!("the identity provider says: {why}")));
    }
    let code = call.query.text("code");
    let code = code.ok_or_else(|| ApiError::Parameters("code is missing".to_owned()))?;
    let exchange = CodeExchange {
        code: code.to_owned(),
        verifier: flight.verifier.clone(),
        return_uri: flight.return_uri.clone(),
    };
    let token = provider.redeem(&exchange).await?;
    let claims = believed(provider, &logins, (&token, Some(&flight.nonce))).await?;
    let name = String::new();
    let login = let_in(&call, users, (&logins, &claims), name).await?;
    if flight.redirect_uri.strip_suffix(PORTAL) == flight.return_uri.strip_suffix(RETURN) {
        return enter_portal(&call, users, (&login.token, &flight.from)).await;
    }
    let Login { user, token, admin } = login;
    let admin = admin.to_string();
    let mut answer = vec![
        ("user", user.as_str()),
        ("token", token.as_str()),
        ("admin", admin.as_str()),
    ];
    if !flight.from.is_empty() {
        answer.push(("from", flight.from.as_str()));
    }
    let place = with_query(&flight.redirect_uri, &answer);
    // It holds the token: what the page loads must not tell where it came from.
    let policy = HeaderValue::from_static("no-referrer");
    Ok(sent_to(place)?
        .with(REFERRER_POLICY, policy)
        .with(SET_COOKIE, cookie(&call, "", 0)))
}

/// Begins the session of a browser that logs in for the portal's own pages. No address holds its token.
async fn enter_portal(
    call: &Call,
    users: &dyn Users,
    (token, from): (&str, &str),
) -> HandlerResult {
    let mut reply = web::login::entered(call, users, (token, from)).await?;
    reply.headers.append(SET_COOKIE, cookie(call, "", 0));
    Ok(reply)
}

/// Where a browser begins a login for the portal's own page `next`; none where there is no provider, or the browser
/// reached this node by a name that is not known.
pub(crate) fn portal_login(call: &Call, next: &str) -> Option<String> {
    let own = own_origin(call, call.config.oidc.as_ref()?).ok()?;
    let place = format!("{own}{PORTAL}");
    Some(with_query(
        "/api/v1/authn/oidc/login",
        &[("redirect_uri", &place), ("from", next)],
    ))
}

/// `POST /authn/oidc/return`: the same, where the provider has the browser send what it answers as a form
/// (`response_mode=form_post`, which OpenPAI asks for). Browsers do not show the cookie of a login with a form from
/// another site. So the browser is sent here once more, with the same in the address, which it does show it with.
pub(crate) async fn finish_form(
    mut call: Call,
    users: &dyn Users,
    provider: &dyn IdentityProvider,
) -> HandlerResult {
    logins(&call)?;
    if !call.header(&CONTENT_TYPE).starts_with(FORM) {
        return Err(ApiError::Parameters(format!("the body must be {FORM}")));
    }
    let form = call.read(call.config.limits.body_bytes).await?;
    let form = Query::parse(&String::from_utf8_lossy(&form));
    if flight_kept(&call).is_some() {
        call.query = form;
        return finish(call, users, provider).await;
    }
    let answer = RETURNED.map(|name| Some((name, form.text(name)?)));
    let answer: Vec<_> = answer.into_iter().flatten().collect();
    let mut reply = sent_to(with_query("", &answer))?;
    reply.status = StatusCode::SEE_OTHER;
    Ok(reply)
}

/// `GET /authn/oidc/logout`: ends the session at the provider. The token is revoked as any other.
pub(crate) async fn logout(call: Call, provider: &dyn IdentityProvider) -> HandlerResult {
    let logins = logins(&call)?;
    let own = own_origin(&call, &logins)?;
    let redirect_uri = redirect_uri(&call, &logins, &own)?;
    match provider.metadata().await?.end_session_endpoint {
        None => sent_to(redirect_uri),
        Some(place) => sent_to(with_query(
            &place,
            &[
                ("client_id", &logins.config.client_id),
                ("post_logout_redirect_uri", &redirect_uri),
            ],
        )),
    }
}

pub(super) fn logins(call: &Call) -> Result<Arc<OidcLogins>, ApiError> {
    let missing = || ApiError::NoApi("oidc".to_owned());
    call.config.oidc.clone().ok_or_else(missing)
}

/// Where the browser reached this node.
fn own_origin(call: &Call, logins: &OidcLogins) -> Result<String, ApiError> {
    if let Some(url) = &logins.config.public_url {
        return Ok(url.trim_end_matches('/').to_owned());
    }
    let host = call.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.ok_or_else(|| ApiError::Parameters("the header Host is missing".to_owned()))?;
    let scheme = if call.certificate.is_some() {
        "https"
    } else {
        "http"
    };
    let own = format!("{scheme}://{host}");
    match call.config.host_names.has(host) && origin(&own).is_some() {
        true => Ok(own),
        false => Err(ApiError::HostName(host.to_owned())),
    }
}

/// Where the browser is to go in the end: nowhere else than to us and to portals that are known.
fn redirect_uri(call: &Call, logins: &OidcLogins, own: &str) -> Result<String, ApiError> {
    let missing = || ApiError::Parameters("redirect_uri is missing".to_owned());
    let place = call.query.text("redirect_uri").ok_or_else(missing)?;
    match logins.config.may_send_to(place, own) {
        true => Ok(place.to_owned()),
        false => Err(ApiError::Parameters(
            "redirect_uri leads to a site that is not known; an admin can add it to portals in \
             [oidc] of agent.toml"
                .to_owned(),
        )),
    }
}

/// The login that this browser began, and that has not ended before.
fn returned(call: &Call, logins: &OidcLogins) -> Result<LoginFlight, ApiError> {
    let flight = flight_kept(call).ok_or(ApiError::OidcState)?;
    let is_its = call.query.text("state") == Some(flight.state.as_str());
    match is_its && logins.spend(&flight.state, flight.until_s, clock::now_s()) {
        true => Ok(flight),
        false => Err(ApiError::OidcState),
    }
}

/// The login that this browser began, if it has its cookie.
fn flight_kept(call: &Call) -> Option<LoginFlight> {
    let name = cookie_name(call);
    let kept = call.headers.get_all(COOKIE).iter();
    let kept = kept.filter_map(|header| header.to_str().ok());
    let kept = kept.flat_map(|header| header.split(';'));
    let mut kept = kept.filter_map(|one| one.trim().strip_prefix(name)?.strip_prefix('='));
    let key = call.config.log_link_key.borrow().clone();
    kept.find_map(|text| LoginFlight::open(&key, text, clock::now_s()))
}

/// What an ID token says, if the provider has signed it: with keys that are known, or with those of now.
pub(super) async fn believed(
    provider: &dyn IdentityProvider,
    logins: &OidcLogins,
    (token, nonce): (&str, Option<&str>),
) -> Result<Map<String, Value>, ApiError> {
    let expected = expected(logins, nonce);
    let verified = by_keys(provider, |keys| id_token::verify(token, keys, expected)).await?;
    verified.map_err(|error| ApiError::Oidc(error.to_string()))
}

/// Verifies a token with the provider's keys that are known, and with those of now if its key is not among them.
pub(super) async fn by_keys<T>(
    provider: &dyn IdentityProvider,
    verify: impl Fn(&[Value]) -> Result<T, IdTokenError>,
) -> Result<Result<T, IdTokenError>, ApiError> {
    match verify(&provider.keys(false).await?) {
        Err(IdTokenError::Key) => Ok(verify(&provider.keys(true).await?)),
        verified => Ok(verified),
    }
}

pub(super) fn expected<'a>(logins: &'a OidcLogins, nonce: Option<&'a str>) -> Expected<'a> {
    Expected {
        issuer: &logins.config.issuer,
        client_id: &logins.config.client_id,
        nonce,
    }
}

/// Makes the user as their claims say, and issues a token of this name.
pub(super) async fn let_in(
    call: &Call,
    users: &dyn Users,
    (logins, claims): (&OidcLogins, &Map<String, Value>),
    name: String,
) -> Result<Login, ApiError> {
    let refused = |error: crate::oidc::person::PersonError| ApiError::Oidc(error.to_string());
    let groups = users.groups().await?;
    let groups = groups.into_iter().map(|group| group.name).collect();
    let person = VouchedPerson::of(&logins.config, claims, &groups).map_err(refused)?;
    let known = match users.user(person.name.as_str()).await {
        Ok(known) => Some(known),
        Err(port::PortError::NoUser(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let by = call.author_named(person.name.as_str());
    if let Some(change) = person.change(known.as_ref()).map_err(refused)? {
        users.change(&by, change).await?;
    }
    Ok(users.login_vouched(&by, name).await?)
}

/// Whether the browser speaks TLS, with us or with what stands before us.
fn is_secure(call: &Call) -> bool {
    let logins = call.config.oidc.as_ref();
    let public = logins.and_then(|logins| logins.config.public_url.as_deref());
    call.certificate.is_some() || public.is_some_and(|url| url.starts_with("https://"))
}

/// Over TLS the name binds it to this host: no other site, and no other host of the domain, can set it.
fn cookie_name(call: &Call) -> &'static str {
    match is_secure(call) {
        true => "__Host-muster-login",
        false => "muster-login",
    }
}

fn cookie(call: &Call, value: &str, life_s: u64) -> HeaderValue {
    let name = cookie_name(call);
    let secure = if is_secure(call) { "; Secure" } else { "" };
    ascii(format!(
        "{name}={value}; Path=/; Max-Age={life_s}; HttpOnly; SameSite=Lax{secure}"
    ))
}

/// An address with more parameters. What is behind `#` stays behind them.
fn with_query(place: &str, parameters: &[(&str, &str)]) -> String {
    let (place, fragment) = match place.split_once('#') {
        Some((place, fragment)) => (place, format!("#{fragment}")),
        None => (place, String::new()),
    };
    let mut query = Serializer::new(String::new());
    query.extend_pairs(parameters);
    let and = if place.contains('?') { '&' } else { '?' };
    format!("{place}{and}{}{fragment}", query.finish())
}

/// Sends a browser on. Like a page, it is answered under this node's own names alone.
fn sent_to(place: String) -> HandlerResult {
    let place = HeaderValue::try_from(place)
        .map_err(|_| ApiError::Parameters("redirect_uri is no address".to_owned()))?;
    let mut reply = HttpReply::empty(StatusCode::FOUND).with(LOCATION, place);
    reply.content = ReplyContent::Page(Bytes::new());
    Ok(reply)
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use http::StatusCode;
    use muster_model::people::PeopleDenial;
    use schemars::JsonSchema;

    use super::ApiError;
    use crate::openapi::{RouteDoc, any, body_fields};
    use crate::port::PortError;

    body_fields! {
        ReturnFields {
            /// What the login was begun with.
            state: Option<String>,
            /// What the provider gives the browser.
            code: Option<String>,
            /// Why the provider refused.
            error: Option<String>,
            /// The same in words.
            error_description: Option<String>,
        }
    }

    fn goes(sentence: &'static str) -> RouteDoc {
        RouteDoc::new(sentence)
            .empty(StatusCode::FOUND, "The browser is sent on.")
            .checks_parameters()
            .fails([ApiError::NoApi(any()), ApiError::HostName(any())])
            .fails([PortError::Unavailable(any())])
    }

    pub(crate) fn login() -> RouteDoc {
        goes("Sends a browser to the identity provider.")
            .query::<String>("redirect_uri", "Where it is to go in the end.")
            .query::<String>("from", "Is passed on to there.")
    }

    pub(crate) fn finish() -> RouteDoc {
        let doc = goes("Takes a browser back from the identity provider.")
            .query::<String>("state", "What the login was begun with.")
            .query::<String>("code", "What the provider gives the browser.")
            .query::<String>("error", "Why the provider refused.")
            .query::<String>("error_description", "The same in words.")
            .empty(
                StatusCode::SEE_OTHER,
                "The browser goes on to a page of this node.",
            )
            .fails([ApiError::OidcState]);
        fails_as_a_login(doc)
    }

    pub(crate) fn finish_form() -> RouteDoc {
        let doc =
            goes("Takes a browser back from the identity provider, which has it send a form.")
                .body::<ReturnFields>("application/x-www-form-urlencoded")
                .empty(StatusCode::SEE_OTHER, "The browser is sent here once more.")
                .fails([ApiError::OidcState, ApiError::Syntax(any())]);
        fails_as_a_login(doc)
    }

    /// What keeps a person from coming in for whom the provider vouches.
    pub(crate) fn fails_as_a_login(doc: RouteDoc) -> RouteDoc {
        doc.fails([ApiError::Oidc(any())]).fails([
            PortError::Forbidden(any()),
            PortError::Unavailable(any()),
            PeopleDenial::Busy.into(),
            PeopleDenial::LastAdmin(any()).into(),
            PeopleDenial::UserExists(any()).into(),
            PeopleDenial::NoUser(any()).into(),
            PeopleDenial::NoGroup(any()).into(),
        ])
    }

    pub(crate) fn logout() -> RouteDoc {
        goes("Sends a browser to the identity provider to end its session there.")
            .query::<String>("redirect_uri", "Where it is to go in the end.")
    }
}
