//! What happens to every request, in order: CORS, rate, route, login, handler, gzip.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::{Stream, StreamExt};
use http::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_HEADERS,
    AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, HOST, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use hyper::upgrade::OnUpgrade;
use muster_tls::Fingerprint;
use sync_wrapper::SyncStream;
use tokio::time::Instant;
use warp::Filter as _;
use warp::filters::BoxedFilter;
use warp::path::FullPath;
use warp::reply::Response;

use crate::attempts::LoginAttempts;
use crate::auth::{self, RouteAccess};
use crate::body::UnreadBody;
use crate::call::{Call, RequestTarget};
use crate::compress;
use crate::conditional::KnownTags;
use crate::config::GatewayConfig;
use crate::error::ApiError;
use crate::list_cache::ListCache;
use crate::peer::RemoteEnd;
use crate::port::{ByteStream, Caller, Ports};
use crate::query::Query;
use crate::rate::Limiter;
use crate::reply::{HttpReply, METHODS, ReplyContent};
use crate::route::{self, RateClass};
use crate::tally::EventTally;
use crate::web::failure;

const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");
/// Headers of ours that a page of another origin may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Content-Range, ETag, X-Muster-Age, X-Muster-Away, X-Muster-Hidden, X-Muster-Start",
);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// The REST side of an agent. A cheap clone shares everything.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<GatewayShared>,
}

struct GatewayShared {
    ports: Ports,
    config: Arc<GatewayConfig>,
    api_rate: Limiter,
    list_rate: Limiter,
    submit_rate: Limiter,
    device_rate: Limiter,
    tally: EventTally,
    attempts: Arc<LoginAttempts>,
    lists: Arc<ListCache>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}

/// A request as it arrived.
struct ArrivedRequest {
    peer: RemoteEnd,
    /// The certificate that its connection was shown; `None` in clear.
    certificate: Option<Fingerprint>,
    method: Method,
    path: String,
    query: String,
    headers: HeaderMap,
    body: ByteStream,
    /// The connection, for a protocol that takes HTTP's place; `None` where that cannot be.
    upgrade: Option<OnUpgrade>,
}

impl Gateway {
    /// A gateway over these ports.
    pub fn new(ports: Ports, config: GatewayConfig) -> Self {
        let rates = &config.rates;
        Self {
            shared: Arc::new(GatewayShared {
                ports,
                api_rate: Limiter::new(rates.api_per_minute, MINUTE),
                list_rate: Limiter::new(rates.list_per_minute, MINUTE),
                submit_rate: Limiter::new(rates.submit_per_hour, HOUR),
                device_rate: Limiter::new(rates.device_per_minute, MINUTE),
                config: Arc::new(config),
                tally: EventTally::default(),
                attempts: Arc::default(),
                lists: Arc::default(),
            }),
        }
    }

    pub(crate) fn config(&self) -> &GatewayConfig {
        &self.shared.config
    }

    pub(crate) fn tally(&self) -> &EventTally {
        &self.shared.tally
    }

    /// The warp filter that answers everything. It takes the [`RemoteEnd`] from the request's
    /// extensions; a request without one is answered by nobody.
    pub(crate) fn filter(&self) -> BoxedFilter<(Response,)> {
        let gateway = self.clone();
        let query = warp::query::raw().or(warp::any().map(String::new)).unify();
        warp::ext::get::<RemoteEnd>()
            .and(warp::ext::optional::<Fingerprint>())
            .and(warp::method())
            .and(warp::path::full())
            .and(query)
            .and(warp::header::headers_cloned())
            .and(warp::body::stream())
            .and(warp::ext::optional::<OnUpgrade>())
            .then(
                move |peer, certificate, method, path: FullPath, query, headers, body, upgrade| {
                    let gateway = gateway.clone();
                    let incoming = ArrivedRequest {
                        peer,
                        certificate,
                        method,
                        path: path.as_str().to_owned(),
                        query,
                        headers,
                        body: bytes_of(body),
                        upgrade,
                    };
                    async move { gateway.respond(incoming).await }
                },
            )
            .boxed()
    }

    async fn respond(&self, incoming: ArrivedRequest) -> Response {
        if incoming.method == Method::OPTIONS {
            return response(preflight(&incoming.headers));
        }
        let gzip = compress::accepted(&incoming.headers);
        let known = KnownTags::of(&incoming.method, &incoming.headers);
        let (method, path) = (incoming.method.clone(), incoming.path.clone());
        let place = place(&incoming);
        let is_browser = accepts_pages(&incoming.headers);
        let reply = match self.answer(incoming).await {
            Ok(reply) => known.answer(reply),
            Err(error) => {
                self.log_failure(&method, &path, &error);
                match is_failure_page(&method, &path, is_browser) {
                    true => self.failure_page(&error, &place),
                    false => HttpReply::failure(&error),
                }
            }
        };
        response(compress::gzip(reply, gzip).await)
    }

    /// What a browser is shown in place of a page.
    fn failure_page(&self, error: &ApiError, place: &str) -> HttpReply {
        let node = self.shared.ports.membership.node_name();
        failure::page(error, place, &node)
    }

    /// What an admin should know of. Anybody can bring about as many failures as they send
    /// requests, so lines are counted by route.
    fn log_failure(&self, method: &Method, path: &str, error: &ApiError) {
        let kind = match error {
            _ if error.is_refused_login() && *method == Method::POST => "login",
            _ if error.is_wrong_old_password() => "old password",
            _ if error.code().0.is_server_error() => {
                route::find(method, path).map_or("no route", |(route, _)| route.pattern)
            }
            _ => return,
        };
        if let Some(count) = self.shared.tally.count(kind, Instant::now()) {
            tracing::warn!(%method, path, %error, count, "requests failed, the last one so");
        }
    }

    async fn answer(&self, incoming: ArrivedRequest) -> Result<HttpReply, ApiError> {
        let GatewayShared { ports, config, .. } = &*self.shared;
        if let Some(key) = incoming.peer.rate_key() {
            self.shared.api_rate.count(&key, Instant::now())?;
        }
        if matches!(incoming.method, Method::CONNECT | Method::TRACE) {
            return Err(ApiError::Method(incoming.method.to_string()));
        }
        let (route, params) = route::find(&incoming.method, &incoming.path)?;
        if let (RateClass::Device, Some(key)) = (route.counted, incoming.peer.rate_key()) {
            self.shared.device_rate.count(&key, Instant::now())?;
        }
        let mut caller = None;
        let mut token = None;
        let is_guest = route.access == RouteAccess::OpenOrUser
            && incoming.peer != RemoteEnd::Socket
            && !incoming.headers.contains_key(AUTHORIZATION);
        if route.access != RouteAccess::Open && !is_guest {
            let with = (&incoming.headers, route.access);
            let (who, with) =
                auth::authenticate(&*ports.users, config, incoming.peer, with).await?;
            route.access.check(&who)?;
            self.count(route.counted, incoming.peer, &who)?;
            (caller, token) = (Some(who), with);
        }
        let length = content_length(&incoming.headers);
        let call = Call {
            config: config.clone(),
            attempts: self.shared.attempts.clone(),
            lists: self.shared.lists.clone(),
            address: incoming.peer.address(),
            certificate: incoming.certificate,
            query: Query::parse(&incoming.query),
            method: incoming.method,
            target: RequestTarget {
                path: incoming.path,
                query: incoming.query,
            },
            params,
            headers: incoming.headers,
            body: UnreadBody::new(incoming.body, length),
            upgrade: incoming.upgrade,
            caller,
            token,
            form_key: OnceLock::new(),
            plugins: match route.access.is_page() {
                true => ports.membership.plugins(),
                false => Vec::new(),
            },
        };
        let host = host_name(&call.headers);
        let is_from_far = incoming.peer != RemoteEnd::Socket;
        let reply = (route.handler)(call, ports).await?;
        match host {
            // A page of somewhere else could have its own name lead here, and then read this.
            Some(host)
                if matches!(
                    reply.content,
                    ReplyContent::Page(_) | ReplyContent::Foreign(_)
                ) && is_from_far
                    && !config.host_names.has(&host) =>
            {
                Err(ApiError::HostName(host))
            }
            _ => Ok(reply),
        }
    }

    /// Counts a request against its user's rate.
    fn count(&self, counted: RateClass, peer: RemoteEnd, caller: &Caller) -> Result<(), ApiError> {
        let limiter = match counted {
            _ if peer.rate_key().is_none() => return Ok(()),
            // That of an address is counted before anybody is known.
            RateClass::No | RateClass::Device => return Ok(()),
            RateClass::List => &self.shared.list_rate,
            RateClass::Submit => &self.shared.submit_rate,
        };
        limiter.count(caller.user.as_str(), Instant::now())
    }
}

/// The path and the query that a browser comes back to after a login. What a form sent is not sent again.
fn place(incoming: &ArrivedRequest) -> String {
    match (&incoming.method, incoming.query.as_str()) {
        (&Method::GET, "") => incoming.path.clone(),
        (&Method::GET, query) => format!("{}?{query}", incoming.path),
        _ => "/".to_owned(),
    }
}

/// Whether a failure is to be a page: of the portal, and of a path that is no route at all where a browser asks.
fn is_failure_page(method: &Method, path: &str, is_browser: bool) -> bool {
    route::find(method, path).map_or(is_browser && *method == Method::GET, |(route, _)| {
        route.is_portal()
    })
}

fn accepts_pages(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// The name by which a client reached this machine.
fn host_name(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(HOST)?;
    Some(String::from_utf8_lossy(host.as_bytes()).into_owned())
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn bytes_of<S, B>(body: S) -> ByteStream
where
    S: Stream<Item = Result<B, warp::Error>> + Send + 'static,
    B: Buf,
{
    Box::pin(body.map(|part| {
        part.map(|mut part| part.copy_to_bytes(part.remaining()))
            .map_err(std::io::Error::other)
    }))
}

fn preflight(headers: &HeaderMap) -> HttpReply {
    let reply = HttpReply::empty(StatusCode::NO_CONTENT)
        .with(
            ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static(METHODS),
        )
        .with(
            VARY,
            HeaderValue::from_static("Access-Control-Request-Headers"),
        );
    match headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        Some(asked) => reply.with(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone()),
        None => reply,
    }
}

pub(crate) fn response(reply: HttpReply) -> Response {
    let cross_origin = !matches!(
        reply.content,
        ReplyContent::Page(_) | ReplyContent::Foreign(_)
    );
    let mut response = match reply.content {
        ReplyContent::Whole(body) | ReplyContent::Page(body) => Response::new(body.into()),
        ReplyContent::Stream(body) | ReplyContent::Foreign(body) => streamed(body),
    };
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    let headers = response.headers_mut();
    if cross_origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn streamed(body: ByteStream) -> Response {
    // warp asks for a body that is Sync, which a stream only ever polled by one task may claim.
    let body: SyncStream<ByteStream> = SyncStream::new(body);
    warp::reply::Reply::into_response(warp::reply::stream::<_, Bytes, _>(body))
}
