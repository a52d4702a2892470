//! Web tools of a task in the browser: TensorBoard, Jupyter, code-server.
//!
//! What a task answers is of the portal's origin to a browser. So only the job's owner is let through, the portal's
//! own cookie is never passed on, and what a page could do to the whole origin is taken out of the answers.

use bytes::Bytes;
use futures::TryStreamExt as _;
use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderName, LOCATION, SET_COOKIE, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use muster_model::id::{JobKey, TaskId};
use muster_model::session::SessionWish;

use super::origin;
use super::session::COOKIE_NAME;
use crate::call::Call;
use crate::error::ApiError;
use crate::handle::task_port::task_port;
use crate::port::{Jobs, PortError, Sessions};
use crate::reply::{HandlerResult, HttpReply, ascii};

/// Headers that are of one connection, and of no use beyond it.
const OF_CONNECTION: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
];
/// Headers of answers that would change more of the origin than the tool's own path.
const OF_ORIGIN: [&str; 4] = [
    "clear-site-data",
    "service-worker-allowed",
    "strict-transport-security",
    "set-cookie",
];
/// The cookie where OpenPAI's portal keeps a token.
const TOKEN_COOKIE: &str = "token";
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

type ToolBody = Either<
    Empty<Bytes>,
    StreamBody<futures::stream::BoxStream<'static, std::io::Result<Frame<Bytes>>>>,
>;

/// `ANY proxy/:job/:port/*`: the tool sees the path behind the port.
pub(crate) async fn cut(call: Call, jobs: &dyn Jobs, sessions: &dyn Sessions) -> HandlerResult {
    pass_on(call, (jobs, sessions), true).await
}

/// `ANY absproxy/:job/:port/*`: the tool sees the whole path, for those that are told where they are.
pub(crate) async fn whole(call: Call, jobs: &dyn Jobs, sessions: &dyn Sessions) -> HandlerResult {
    pass_on(call, (jobs, sessions), false).await
}

/// A tool, and what of it is asked for.
#[derive(Debug, PartialEq, Eq)]
struct ToolPath {
    /// What the path begins with, as it was written: `/proxy/ada~train/6006`.
    prefix: String,
    /// The rest; begins with a slash.
    rest: String,
}

impl ToolPath {
    /// The parts of a path, which begins with the route's own word; none if it does not go on behind the port.
    fn of(path: &str) -> Option<Self> {
        let ends = path.match_indices('/').map(|(at, _)| at);
        // Behind `/proxy`, the job and the port.
        let end = ends.skip(1).nth(2)?;
        let (prefix, rest) = path.split_at(end);
        Some(Self {
            prefix: prefix.to_owned(),
            rest: rest.to_owned(),
        })
    }
}

async fn pass_on(
    mut call: Call,
    (jobs, sessions): (&dyn Jobs, &dyn Sessions),
    is_cut: bool,
) -> HandlerResult {
    let begin = call
        .target
        .path
        .trim_start_matches('/')
        .to_ascii_lowercase();
    if !["proxy/", "absproxy/"]
        .iter()
        .any(|word| begin.starts_with(word))
    {
        // By another way than the one whose paths the tool's links are made of.
        return Err(ApiError::NoApi(call.target.path));
    }
    let (job, task, port) = tool(&call, jobs).await?;
    origin::check(&call.headers, "use web tools here: open the tool itself")?;
    let Some(path) = ToolPath::of(&call.target.path) else {
        // Links of the tool are relative to its first page.
        let place = call.target.with_path(&format!("{}/", call.target.path));
        return Ok(HttpReply::temporary_redirect(ascii(place)));
    };
    let opener = call.session_opener()?;
    let sight = call.sight(jobs)?;
    let wish = SessionWish::Port(port);
    let stream = sessions.open(&opener, (&sight, &job, &task), wish).await?;
    let away = |error: hyper::Error| {
        PortError::Unavailable(format!("port {port} of {task} of job {job}: {error}"))
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(away)?;
    // A connection that breaks fails the request below, too.
    tokio::spawn(connection.with_upgrades());
    let request = request(&mut call, &path, is_cut)?;
    let answer = sender.send_request(request).await.map_err(away)?;
    match answer.status() {
        StatusCode::SWITCHING_PROTOCOLS => switched(call, answer, &path),
        _ => Ok(answered(answer, &path, is_cut)),
    }
}

/// The task and the port that the path names. A job alone stands for its first task.
async fn tool(call: &Call, jobs: &dyn Jobs) -> Result<(JobKey, TaskId, u16), ApiError> {
    let mut parts = call.params.text("job").split(':');
    let name = parts.next().unwrap_or_default();
    let missing = || ApiError::from(PortError::NoJob(name.to_owned()));
    let key: JobKey = name.parse().map_err(|_| missing())?;
    call.check_owner(&key, jobs).await?;
    let caller = call.caller()?;
    if caller.user != key.user {
        let why = format!(
            "Only {} may open web tools of job {key}: scripts of such a page can act in the portal as the person who \
             opens it. Use `muster job port-forward {key} PORT`.",
            key.user
        );
        return Err(PortError::Forbidden(why).into());
    }
    let no_task = |task: String| PortError::NoTask {
        job: key.to_string(),
        task,
    };
    let task = match (parts.next(), parts.next(), parts.next()) {
        (None, _, _) => {
            let detail = jobs.job(&call.sight(jobs)?, &key, None).await?.value;
            let first = detail.tasks().next().map(|task| task.id.clone());
            first.ok_or_else(|| no_task("0".to_owned()))?
        }
        (Some(role), index, None) => {
            let index = index.unwrap_or("0");
            let missing = || no_task(format!("{role}:{index}"));
            TaskId {
                role: role.parse().map_err(|_| missing())?,
                index: index.parse().map_err(|_| missing())?,
            }
        }
        _ => return Err(no_task(call.params.text("job").to_owned()).into()),
    };
    let port = task_port(call, jobs, (&key, &task)).await?;
    Ok((key, task, port))
}

/// The request as the tool is asked.
fn request(call: &mut Call, path: &ToolPath, is_cut: bool) -> Result<Request<ToolBody>, ApiError> {
    let asked = match is_cut {
        true => path.rest.as_str(),
        false => call.target.path.as_str(),
    };
    let target = call.target.with_path(asked);
    let wrong = |error: http::Error| ApiError::Parameters(error.to_string());
    let mut headers = kept(&call.headers, &["cookie"]);
    if let Some(protocol) = call.headers.get(UPGRADE) {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, protocol.clone());
    }
    if let Some(cookies) = cookies(&call.headers) {
        headers.insert(COOKIE, cookies);
    }
    let localhost = HeaderValue::from_static("localhost");
    let host = headers.entry(HOST).or_insert(localhost).clone();
    headers.insert(FORWARDED_HOST, host);
    headers.insert(FORWARDED_PREFIX, ascii(path.prefix.clone()));
    let protocol = match call.certificate {
        Some(_) => "https",
        None => "http",
    };
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(protocol));
    let mut request = Request::builder()
        .method(call.method.clone())
        .uri(target)
        .body(body(call)?)
        .map_err(wrong)?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// The body as it comes; none where the client sends none.
fn body(call: &mut Call) -> Result<ToolBody, ApiError> {
    let sends = |name| call.headers.contains_key(name);
    let is_plain = matches!(call.method, Method::GET | Method::HEAD | Method::OPTIONS);
    if !sends(CONTENT_LENGTH) && !sends(TRANSFER_ENCODING) && is_plain {
        return Ok(Either::Left(Empty::new()));
    }
    let frames = call.raw_body().map_ok(Frame::data);
    Ok(Either::Right(StreamBody::new(Box::pin(frames))))
}

/// Headers that go beyond a connection, without these.
fn kept(headers: &HeaderMap, without: &[&str]) -> HeaderMap {
    let named = headers.get_all(CONNECTION).into_iter();
    let named = named.filter_map(|value| value.to_str().ok());
    let named: Vec<_> = named
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        let text = name.as_str();
        let is_left_out = OF_CONNECTION.contains(&text)
            || without.contains(&text)
            || *name == UPGRADE
            || named.iter().any(|other| other == text);
        if !is_left_out {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

/// The cookies but for those that are a login.
fn cookies(headers: &HeaderMap) -> Option<HeaderValue> {
    let values = headers.get_all(COOKIE).into_iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).map(str::trim);
    let own: Vec<_> = pairs
        .filter(|pair| !is_login(pair.split('=').next().unwrap_or_default()))
        .collect();
    (!own.is_empty()).then(|| ascii(own.join("; ")))
}

fn is_login(name: &str) -> bool {
    [COOKIE_NAME, TOKEN_COOKIE].contains(&name.trim())
}

fn answered(answer: Response<Incoming>, path: &ToolPath, is_cut: bool) -> HttpReply {
    let (head, body) = answer.into_parts();
    let mut headers = kept(&head.headers, &OF_ORIGIN);
    let places = head.headers.get_all(SET_COOKIE).into_iter();
    for cookie in places.filter_map(|cookie| own_cookie(cookie, &path.prefix)) {
        headers.append(SET_COOKIE, cookie);
    }
    if let Some(place) = head.headers.get(LOCATION).filter(|_| is_cut)
        && let Some(place) = own_place(place, &path.prefix)
    {
        headers.insert(LOCATION, place);
    }
    let body = body.into_data_stream().map_err(std::io::Error::other);
    HttpReply::foreign(head.status, headers, Box::pin(body))
}

/// A cookie of the tool's, for its own path alone; none if it would be a login.
fn own_cookie(cookie: &HeaderValue, prefix: &str) -> Option<HeaderValue> {
    let text = cookie.to_str().ok()?;
    let mut parts = text.split(';').map(str::trim);
    let pair = parts.next()?;
    if is_login(pair.split('=').next()?) {
        return None;
    }
    let is_kept = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default();
        !name.eq_ignore_ascii_case("path") && !name.eq_ignore_ascii_case("domain")
    };
    let kept: Vec<_> = parts.filter(is_kept).collect();
    let path = format!("Path={prefix}/");
    let all: Vec<_> = [pair].into_iter().chain(kept).chain([&*path]).collect();
    HeaderValue::from_str(&all.join("; ")).ok()
}

/// A place on the tool's host, as the browser reaches it; none for another one.
fn own_place(place: &HeaderValue, prefix: &str) -> Option<HeaderValue> {
    let text = place.to_str().ok()?;
    if !text.starts_with('/') || text.starts_with("//") {
        return None;
    }
    HeaderValue::from_str(&format!("{prefix}{text}")).ok()
}

/// Both sides speak another protocol from now on.
fn switched(mut call: Call, answer: Response<Incoming>, path: &ToolPath) -> HandlerResult {
    let missing = ApiError::Upgrade("the connection cannot leave HTTP");
    let client = call.upgrade.take().ok_or(missing)?;
    let mut headers = kept(answer.headers(), &OF_ORIGIN);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    if let Some(protocol) = answer.headers().get(UPGRADE) {
        headers.insert(UPGRADE, protocol.clone());
    }
    let places = answer.headers().get_all(SET_COOKIE).into_iter();
    for cookie in places.filter_map(|cookie| own_cookie(cookie, &path.prefix)) {
        headers.append(SET_COOKIE, cookie);
    }
    tokio::spawn(async move {
        // Either side may go at any time.
        let Ok(tool) = hyper::upgrade::on(answer).await else {
            return;
        };
        let Ok(client) = client.await else { return };
        let (mut tool, mut client) = (TokioIo::new(tool), TokioIo::new(client));
        let _ = tokio::io::copy_bidirectional(&mut tool, &mut client).await;
    });
    let mut reply = HttpReply::empty(StatusCode::SWITCHING_PROTOCOLS);
    reply.headers = headers;
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_the_tool_s_behind_its_port() {
        let path = ToolPath::of("/proxy/ada~train/6006/data/a%20b").unwrap();
        assert_eq!(path.prefix, "/proxy/ada~train/6006");
        assert_eq!(path.rest, "/data/a%20b");
        assert_eq!(ToolPath::of("/proxy/ada~train/6006/").unwrap().rest, "/");
        assert_eq!(ToolPath::of("/proxy/ada~train/6006"), None);
    }

    #[test]
    fn a_login_never_reaches_a_tool_nor_comes_from_one() {
        let mut headers = HeaderMap::new();
        let all = format!("a=1; {COOKIE_NAME}=secret; _xsrf=2;token=secret");
        headers.insert(COOKIE, ascii(all));
        assert_eq!(cookies(&headers).unwrap(), "a=1; _xsrf=2");
        headers.insert(COOKIE, ascii(format!("{COOKIE_NAME}=secret")));
        assert_eq!(cookies(&headers), None);
        let set = |text: &str| {
            let cookie = own_cookie(&ascii(text.to_owned()), "/proxy/j/1");
            cookie.map(|cookie| cookie.to_str().unwrap().to_owned())
        };
        assert_eq!(
            set("a=1; Path=/; HttpOnly; Domain=n1").unwrap(),
            "a=1; HttpOnly; Path=/proxy/j/1/"
        );
        assert_eq!(set(&format!("{COOKIE_NAME}=stolen; Path=/")), None);
    }

    #[test]
    fn headers_of_a_connection_stay_on_it() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, x-of-this"),
            ("x-of-this", "1"),
            ("transfer-encoding", "chunked"),
            ("accept", "text/html"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let kept = kept(&headers, &[]);
        assert_eq!(kept.len(), 1);
        assert_eq!(kept["accept"], "text/html");
    }

    #[test]
    fn a_redirect_of_the_tool_stays_behind_its_port() {
        let place = |text: &str| own_place(&ascii(text.to_owned()), "/proxy/j/1");
        assert_eq!(place("/lab?x=1").unwrap(), "/proxy/j/1/lab?x=1");
        for other in ["lab", "//elsewhere/", "https://elsewhere/"] {
            assert_eq!(place(other), None, "{other}");
        }
    }
}
