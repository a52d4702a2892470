//! Logs of task attempts: listed, linked and read.

use std::future::ready;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use http::header::{ACCEPT_RANGES, CONTENT_RANGE, HeaderName, RANGE};
use http::{HeaderValue, StatusCode};
use muster_model::id::{JobKey, TaskId, VcName};
use muster_model::task_use::TaskUse;
use muster_model::view::TaskAttemptView;
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Call;
use crate::clock;
use crate::config::LogLinkKey;
use crate::elsewhere::{self, OtherGateway};
use crate::error::ApiError;
use crate::log_link::{self, LogLocation};
use crate::port::{
    self, ByteStream, HiddenFuture, JobReader, JobTask, Jobs, LogFileInfo, LogPlaces, LogQuestion,
    LogRange, LogSlice, LogWish, Logs,
};
use crate::proof::CertificateProof;
use crate::query::Query;
use crate::reply::{HandlerResult, HttpReply, ReplyContent, ascii};
use crate::wire::framework_name;

/// How long another node honours what this one asks for its user.
const FORWARD_TTL: Duration = Duration::from_secs(60);
/// What upstream calls the tail of a log, in bytes.
const TAIL_BYTES: u64 = 16 * 1024;
/// Where in the file an answer begins, for clients that follow and come back.
const START: HeaderName = HeaderName::from_static("x-muster-start");
/// Asks for all files of a log as one.
const WHOLE: &str = "whole";
/// Longest text that is looked for, in bytes.
const FIND_BYTES_MAX: usize = 1024;
/// Where log links lead, on any node.
const LINK_ROOT: &str = "/log-manager";

/// Where the files of a log are.
#[derive(Serialize, JsonSchema)]
struct LinkedLogs {
    locations: Vec<LinkedLog>,
}

#[derive(Serialize, JsonSchema)]
struct LinkedLog {
    name: String,
    /// A path on this server, which needs no login for a while.
    uri: String,
}

/// The task attempt that a path names.
pub(super) struct LogTarget {
    task: TaskId,
    view: TaskAttemptView,
    pub(super) place: LogLocation,
}

impl LogTarget {
    pub(super) async fn of(call: &Call, jobs: &dyn Jobs) -> Result<Self, ApiError> {
        let key = call.job_key()?;
        let attempt = call.attempt(&key)?;
        let task = call.task_id(&key)?;
        let number = call.params.text("task").parse::<u32>();
        let sight = call.sight(jobs)?;
        let found = jobs.task(&sight, &key, (attempt, &task));
        let JobTask { vc, found } = found.await?;
        let view = found
            .value
            .attempts
            .into_iter()
            .find(|view| Ok(view.id) == number)
            .ok_or(port::PortError::NoLog)?;
        let place = location(call, (key, vc), &view)?.ok_or(port::PortError::NoLog)?;
        Ok(Self { task, view, place })
    }
}

/// Where what a task attempt of a job leaves lies; none before it is placed.
pub(super) fn location(
    call: &Call,
    (job, vc): (JobKey, VcName),
    view: &TaskAttemptView,
) -> Result<Option<LogLocation>, ApiError> {
    let reader = match call.reader() {
        JobReader::User(user) => Some(user),
        JobReader::Root => None,
        JobReader::Guest => return Err(ApiError::Guest),
    };
    Ok(view.uid.clone().map(|uid| LogLocation {
        uid,
        node: view.address.clone(),
        job,
        vc,
        reader,
    }))
}

/// What the node of a task attempt keeps of its use; nothing if it is not known where that is.
pub(super) async fn used_elsewhere(call: &Call, place: &LogLocation) -> Result<TaskUse, ApiError> {
    let Some(address) = other(call, place) else {
        return Ok(TaskUse::default());
    };
    let token = &link_token(call, place, FORWARD_TTL)?;
    let key = &key(call);
    elsewhere(call, address, (token, key)).used().await
}

/// `GET …/attempts/:task/logs`: addresses that work without a login, for a while
pub(crate) async fn locations(call: Call, jobs: &dyn Jobs, logs: &dyn Logs) -> HandlerResult {
    let target = LogTarget::of(&call, jobs).await?;
    let files = list(&call, logs, &target.place).await?;
    if files.is_empty() {
        return Err(port::PortError::NoLog.into());
    }
    let config = &call.config;
    let token = link_token(&call, &target.place, call.config.log_link_ttl)?;
    let query = link_query(&call, &target, &token)?;
    let node = target.view.address.as_deref().unwrap_or("node");
    let port = config.port;
    let locations = files.into_iter().map(|LogFileInfo { name, .. }| {
        let uri = format!("{LINK_ROOT}/{node}:{port}/api/v1/logs/{name}?{query}");
        LinkedLog { name, uri }
    });
    HttpReply::json(&LinkedLogs {
        locations: locations.collect(),
    })
}

/// Upstream's parameters. Only `token` and `tail-mode` mean anything.
fn link_query(call: &Call, target: &LogTarget, token: &str) -> Result<String, ApiError> {
    let key = call.job_key()?;
    let mut query = form_urlencoded::Serializer::new(String::new());
    query
        .append_pair("token", token)
        .append_pair("username", key.user.as_str())
        .append_pair("taskrole", target.task.role.as_str())
        .append_pair("framework-name", &framework_name(&key))
        .append_pair("pod-uid", target.place.uid.as_str());
    if call.query.is_true("tail-mode") {
        query.append_pair("tail-mode", "true");
    }
    Ok(query.finish())
}

/// `GET /log-manager/…`: where the links lead
pub(crate) async fn linked(call: Call, jobs: &dyn Jobs, logs: &dyn Logs) -> HandlerResult {
    let place = linked_place(&call, jobs)?;
    let wanted = wanted(&call)?;
    send(&call, (jobs, logs), (&place, wanted)).await
}

/// `GET /log-manager/…/logs`: which files a link's log has; nodes ask each other.
pub(crate) async fn linked_files(call: Call, jobs: &dyn Jobs, logs: &dyn Logs) -> HandlerResult {
    let place = linked_place(&call, jobs)?;
    HttpReply::json(&list(&call, logs, &place).await?)
}

/// `GET /log-manager/…/proof`: that this node's certificate is a member's
pub(crate) async fn proof(call: Call) -> HandlerResult {
    let missing = || ApiError::NoApi("proof".to_owned());
    let shown = call.certificate.ok_or_else(missing)?;
    let key = call.config.log_link_key.borrow().clone();
    let nonce = call.query.text("nonce").unwrap_or_default();
    let text = CertificateProof::new(key, shown).text(nonce);
    let wrong = || ApiError::Parameters("nonce must be 32 hexadecimal digits".to_owned());
    Ok(HttpReply::plain(text.ok_or_else(wrong)?))
}

pub(super) fn linked_place(call: &Call, jobs: &dyn Jobs) -> Result<LogLocation, ApiError> {
    let token = call.query.text("token").unwrap_or_default();
    let place = log_link::open(&call.config.log_link_key.borrow(), token, clock::now_s())?;
    place.check(jobs)?;
    Ok(place)
}

fn link_token(call: &Call, place: &LogLocation, ttl: Duration) -> Result<String, ApiError> {
    let config = &call.config;
    let expires = clock::now_s().saturating_add(ttl.as_secs());
    log_link::sign(&config.log_link_key.borrow(), place, expires)
}

/// The files of a log, wherever it lies.
async fn list(
    call: &Call,
    logs: &dyn Logs,
    place: &LogLocation,
) -> Result<Vec<LogFileInfo>, ApiError> {
    match (logs.files(&place.uid).await, other(call, place)) {
        (Err(port::PortError::NoLog), Some(address)) => {
            let token = &link_token(call, place, FORWARD_TTL)?;
            let key = &key(call);
            elsewhere(call, address, (token, key)).files().await
        }
        (files, _) => Ok(files?),
    }
}

/// The node to ask for a log that is not here. Whoever was asked by a node asks no other.
fn other<'a>(call: &Call, place: &'a LogLocation) -> Option<&'a str> {
    let forwarded = elsewhere::is_forwarded(&call.headers);
    place.node.as_deref().filter(|_| !forwarded)
}

/// The key by which members know each other's certificates, if they have any.
fn key(call: &Call) -> Option<LogLinkKey> {
    let tls = call.config.tls.as_ref();
    tls.map(|_| call.config.log_link_key.borrow().clone())
}

fn elsewhere<'a>(
    call: &Call,
    address: &'a str,
    (token, key): (&'a str, &'a Option<LogLinkKey>),
) -> OtherGateway<'a> {
    OtherGateway {
        address,
        port: call.config.port,
        token,
        key: key.as_ref(),
    }
}

/// `GET /api/muster/v1/jobs/…/logs`
pub(crate) async fn files(call: Call, jobs: &dyn Jobs, logs: &dyn Logs) -> HandlerResult {
    let target = LogTarget::of(&call, jobs).await?;
    HttpReply::json(&list(&call, logs, &target.place).await?)
}

/// `GET /api/muster/v1/jobs/…/logs/:file`
pub(crate) async fn file(call: Call, jobs: &dyn Jobs, logs: &dyn Logs) -> HandlerResult {
    let target = LogTarget::of(&call, jobs).await?;
    let wanted = wanted(&call)?;
    send(&call, (jobs, logs), (&target.place, wanted)).await
}

/// A part of a whole log, wherever it lies.
pub(crate) struct WholePart {
    /// The first byte, counted from the first that was ever written.
    pub(crate) start: u64,
    pub(crate) content: ReplyContent,
}

/// The files of the log of the task attempt that the path names.
pub(crate) async fn all_files(
    call: &Call,
    (jobs, logs): (&dyn Jobs, &dyn Logs),
) -> Result<Vec<LogFileInfo>, ApiError> {
    let place = LogTarget::of(call, jobs).await?.place;
    list(call, logs, &place).await
}

/// A part of the whole log called `file` of the task attempt that the path names; followed until the task ends,
/// or its reader may not see the job any more, if so wished.
pub(crate) async fn whole_part(
    call: &Call,
    (jobs, logs): (&dyn Jobs, &dyn Logs),
    (file, range, follow): (&str, LogRange, bool),
) -> Result<WholePart, ApiError> {
    let place = LogTarget::of(call, jobs).await?.place;
    let name = file_name(file)?;
    let wish = LogWish {
        range,
        follow,
        whole: true,
    };
    let read = logs.read(&place.uid, name, wish).await;
    let here = logs.files(&place.uid).await.is_ok();
    let part = match (read, other(call, &place)) {
        (Err(port::PortError::NoLog), Some(address)) if !here => {
            let token = &link_token(call, &place, FORWARD_TTL)?;
            let key = &key(call);
            let there = elsewhere(call, address, (token, key));
            let (query, header) = whole_query(range, follow);
            let reply = there.file(name, &query, &header).await?;
            let start = reply.headers.get(START).and_then(|it| it.to_str().ok());
            WholePart {
                start: start.and_then(|it| it.parse().ok()).unwrap_or(0),
                content: reply.content,
            }
        }
        (part, _) => {
            let part = part?;
            WholePart {
                start: part.start,
                content: ReplyContent::Stream(part.body),
            }
        }
    };
    match part.content {
        ReplyContent::Stream(body) if follow => {
            let hidden = jobs.until_hidden(&place.job_reader(), &place.vc, &place.job.user);
            let content = ReplyContent::Stream(while_seen(body, hidden));
            Ok(WholePart { content, ..part })
        }
        _ => Ok(part),
    }
}

/// The query and the `Range` header by which another node is asked for a part of a whole log.
fn whole_query(range: LogRange, follow: bool) -> (String, String) {
    let follow = if follow { "&follow=true" } else { "" };
    let (tail, header) = match range {
        LogRange::All => (String::new(), String::new()),
        LogRange::Tail(bytes) => (format!("&tail={bytes}"), String::new()),
        LogRange::Bytes { start, end } => {
            let end = end.map_or_else(String::new, |end| end.to_string());
            (String::new(), format!("bytes={start}-{end}"))
        }
    };
    (format!("{WHOLE}=true{tail}{follow}"), header)
}

/// `GET /api/muster/v1/jobs/…/logs/:file/places`
pub(crate) async fn places(call: Call, jobs: &dyn Jobs, logs: &dyn Logs) -> HandlerResult {
    // Whether there is such a job is told to those who see it alone.
    let place = LogTarget::of(&call, jobs).await?.place;
    let asked = (call.params.text("file"), log_question(&call)?);
    HttpReply::json(&places_of(&call, logs, (&place, asked)).await?)
}

/// `GET /log-manager/…/logs/:file/places`: the same by a link; nodes ask each other.
pub(crate) async fn linked_places(call: Call, jobs: &dyn Jobs, logs: &dyn Logs) -> HandlerResult {
    let place = linked_place(&call, jobs)?;
    let asked = (call.params.text("file"), log_question(&call)?);
    HttpReply::json(&places_of(&call, logs, (&place, asked)).await?)
}

/// What a question finds in the whole log called `file` of the task attempt that the path names.
pub(crate) async fn found_places(
    call: &Call,
    (jobs, logs): (&dyn Jobs, &dyn Logs),
    asked: (&str, LogQuestion),
) -> Result<LogPlaces, ApiError> {
    let place = LogTarget::of(call, jobs).await?.place;
    places_of(call, logs, (&place, asked)).await
}

async fn places_of(
    call: &Call,
    logs: &dyn Logs,
    (place, (file, question)): (&LogLocation, (&str, LogQuestion)),
) -> Result<LogPlaces, ApiError> {
    let name = file_name(file)?;
    let found = logs.places(&place.uid, name, question.clone()).await;
    let here = logs.files(&place.uid).await.is_ok();
    match (found, other(call, place)) {
        (Err(port::PortError::NoLog), Some(address)) if !here => {
            let token = &link_token(call, place, FORWARD_TTL)?;
            let key = &key(call);
            let there = elsewhere(call, address, (token, key));
            there.places(name, &question_query(&question)).await
        }
        (found, _) => Ok(found?),
    }
}

fn question_query(question: &LogQuestion) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    match question {
        LogQuestion::Time(at_ms) => {
            query.append_pair("at", &at_ms.to_string());
        }
        LogQuestion::Text { text, from, line } => {
            query.append_pair("find", text);
            query.append_pair("from", &from.to_string());
            if let Some(line) = line {
                query.append_pair("line", &line.to_string());
            }
        }
    }
    query.finish()
}

/// What the query looks for.
fn log_question(call: &Call) -> Result<LogQuestion, ApiError> {
    let wrong = |rule: &str| ApiError::Parameters(rule.to_owned());
    match (call.query.text("find"), call.query.text("at")) {
        (Some(text), None) => text_question(call, text),
        (None, Some(at)) => Ok(LogQuestion::Time(moment_ms(at)?)),
        _ => Err(wrong(
            "either find, a text, or at, a time, is required, and not both",
        )),
    }
}

/// Lines with this text, from where the query says on.
pub(crate) fn text_question(call: &Call, text: &str) -> Result<LogQuestion, ApiError> {
    if text.len() > FIND_BYTES_MAX {
        let rule = format!("find must be at most {FIND_BYTES_MAX} bytes long");
        return Err(ApiError::Parameters(rule));
    }
    Ok(LogQuestion::Text {
        text: text.to_owned(),
        from: call.number("from")?.unwrap_or(0),
        line: call.number("line")?,
    })
}

/// A time of a query: milliseconds since the epoch, or as `2026-11-29T17:04:05Z`, also without seconds or the Z.
pub(crate) fn moment_ms(text: &str) -> Result<u64, ApiError> {
    if let Ok(ms) = text.parse() {
        return Ok(ms);
    }
    let text = text.trim();
    let minutes = text.len() == "2026-11-29T17:04".len();
    let whole = if minutes {
        format!("{text}:00")
    } else {
        text.to_owned()
    };
    let parsed = humantime::parse_rfc3339_weak(&whole).ok();
    let since = parsed.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let ms = since.and_then(|since| u64::try_from(since.as_millis()).ok());
    ms.ok_or_else(|| {
        ApiError::Parameters(format!(
            "at must be a time in UTC as 2026-11-29T17:04:05Z, or milliseconds since the epoch, not {text:?}"
        ))
    })
}

fn wanted(call: &Call) -> Result<WantedLog, ApiError> {
    let tail = call.query.number("tail").map_err(|text| {
        ApiError::Parameters(format!("tail must be a number of bytes, not {text:?}"))
    })?;
    let range = call.range();
    let tail = tail.or_else(|| call.query.is_true("tail-mode").then_some(TAIL_BYTES));
    Ok(match (call.query.is_true("follow"), range, tail) {
        (true, Some(range), _) => WantedLog::Follow(range),
        (true, None, Some(tail)) => WantedLog::Follow(LogRange::Tail(tail)),
        (true, None, None) => WantedLog::Follow(LogRange::All),
        (false, Some(range), _) => WantedLog::Part(range),
        (false, None, Some(tail)) => WantedLog::Whole(LogRange::Tail(tail)),
        (false, None, None) => WantedLog::Whole(LogRange::All),
    })
}

/// What a client wants of a log, and so which status it expects.
#[derive(Clone, Copy)]
enum WantedLog {
    /// A plain answer, 200.
    Whole(LogRange),
    /// What its `Range` header named, 206.
    Part(LogRange),
    /// That and what is still to come, 200. There is no 206 of an unknown end.
    Follow(LogRange),
}

async fn send(
    call: &Call,
    (jobs, logs): (&dyn Jobs, &dyn Logs),
    (place, wanted): (&LogLocation, WantedLog),
) -> HandlerResult {
    let name = file_name(call.params.text("file"))?;
    let (range, follow) = match wanted {
        WantedLog::Whole(range) | WantedLog::Part(range) => (range, false),
        WantedLog::Follow(range) => (range, true),
    };
    let wish = LogWish {
        range,
        follow,
        whole: call.query.is_true(WHOLE),
    };
    let read = logs.read(&place.uid, name, wish).await;
    let here = logs.files(&place.uid).await.is_ok();
    let part = match (read, other(call, place)) {
        (Err(port::PortError::NoLog), Some(address)) if !here => {
            let token = &link_token(call, place, FORWARD_TTL)?;
            let key = &key(call);
            let there = elsewhere(call, address, (token, key));
            let range = call.header(&RANGE);
            return there.file(name, &part_query(&call.query), range).await;
        }
        (part, _) => part?,
    };
    let start = HeaderValue::from(part.start);
    let reply = match wanted {
        WantedLog::Part(_) => partial(part)?,
        WantedLog::Whole(_) => HttpReply::text_stream(part.body, part.length),
        WantedLog::Follow(_) => {
            let hidden = jobs.until_hidden(&place.job_reader(), &place.vc, &place.job.user);
            HttpReply::text_stream(while_seen(part.body, hidden), part.length)
        }
    };
    Ok(reply
        .with(ACCEPT_RANGES, HeaderValue::from_static("bytes"))
        .with(START, start))
}

/// A log that is followed for hours breaks off when its reader does not see the job any more.
pub(crate) fn while_seen(body: ByteStream, hidden: HiddenFuture) -> ByteStream {
    let refused = || std::io::Error::other("the reader may not see the job any more");
    let cut = stream::once(hidden).map(move |()| Some(Err(refused())));
    let body = body.map(Some).chain(stream::once(async { None }));
    let both = stream::select(body, cut);
    Box::pin(
        both.take_while(|part| ready(part.is_some()))
            .filter_map(ready),
    )
}

/// Which part of a file is wanted, as another node's gateway takes it.
fn part_query(query: &Query) -> String {
    let mut parts = form_urlencoded::Serializer::new(String::new());
    for name in ["follow", "tail", "tail-mode", WHOLE] {
        if let Some(value) = query.text(name) {
            parts.append_pair(name, value);
        }
    }
    parts.finish()
}

/// A log's name is one file, never a path.
fn file_name(name: &str) -> Result<&str, ApiError> {
    let plain = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
    if plain && !name.is_empty() && !name.starts_with('.') {
        Ok(name)
    } else {
        Err(port::PortError::NoLog.into())
    }
}

fn partial(part: LogSlice) -> HandlerResult {
    let length = part
        .length
        .unwrap_or_else(|| part.size.saturating_sub(part.start));
    if length == 0 {
        return Err(ApiError::Range { size: part.size });
    }
    let last = part.start.saturating_add(length - 1);
    let range = format!("bytes {}-{last}/{}", part.start, part.size);
    Ok(HttpReply::text_stream(part.body, Some(length))
        .with_status(StatusCode::PARTIAL_CONTENT)
        .with(CONTENT_RANGE, ascii(range)))
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use super::{ApiError, LinkedLogs, LogFileInfo, LogPlaces, StatusCode};
    use crate::openapi::{RouteDoc, TEXT, any};
    use crate::port::PortError;

    /// A file of a log, or a part of one.
    fn reads(sentence: &'static str) -> RouteDoc {
        RouteDoc::new(sentence)
            .query::<u64>("tail", "The last so many bytes.")
            .query::<bool>("tail-mode", "The last 16384 bytes.")
            .query::<bool>("follow", "The answer goes on until the task has ended.")
            .query::<bool>("whole", "All files of the log as one.")
            .header("Range", "One range of bytes: 206.")
            .checks_parameters()
            .fails([ApiError::Range { size: 0 }])
            .fails([PortError::NoLog, PortError::Forbidden(any())])
            .answer::<String>(StatusCode::OK, TEXT)
            .answer::<String>(StatusCode::PARTIAL_CONTENT, TEXT)
    }

    /// Looks in a log.
    fn looks(sentence: &'static str) -> RouteDoc {
        RouteDoc::new(sentence)
            .query::<String>("find", "Finds lines with this text, in capitals or not.")
            .query::<u64>("from", "The byte where the search begins.")
            .query::<u64>("line", "The number of the line there, if it is known.")
            .query::<String>("at", "In place of find: what was written at this time.")
            .checks_parameters()
            .fails([PortError::NoLog, PortError::Forbidden(any())])
            .json::<LogPlaces>()
    }

    pub(crate) fn places() -> RouteDoc {
        looks("Finds lines, or a time, in all files of a task attempt's log.").of_task()
    }

    pub(crate) fn linked_places() -> RouteDoc {
        by_link(looks(
            "Finds lines, or a time, in a log that a link leads to.",
        ))
    }

    fn by_link(doc: RouteDoc) -> RouteDoc {
        doc.query::<String>("token", "What the link was made with.")
            .fails([ApiError::LogLink])
            .fails([
                PortError::NoLog,
                PortError::Forbidden(any()),
                PortError::InvalidToken,
                PortError::Unavailable(any()),
            ])
    }

    pub(crate) fn locations() -> RouteDoc {
        RouteDoc::new(
            "Lists the files of a task attempt's log, with links that need no login for a while.",
        )
        .of_task()
        .query::<bool>("tail-mode", "The links lead to the last 16384 bytes.")
        .fails([PortError::NoLog])
        .json::<LinkedLogs>()
    }

    pub(crate) fn linked() -> RouteDoc {
        by_link(reads("Reads a log that a link leads to."))
    }

    pub(crate) fn linked_files() -> RouteDoc {
        by_link(RouteDoc::new(
            "Lists the files of a log that a link leads to.",
        ))
        .json::<Vec<LogFileInfo>>()
    }

    pub(crate) fn proof() -> RouteDoc {
        RouteDoc::new("Proves that this node's certificate is a member's.")
            .query::<String>("nonce", "32 hexadecimal digits.")
            .checks_parameters()
            .answer::<String>(StatusCode::OK, TEXT)
    }

    pub(crate) fn files() -> RouteDoc {
        RouteDoc::new("Lists the files of a task attempt's log.")
            .of_task()
            .fails([PortError::NoLog])
            .json::<Vec<LogFileInfo>>()
    }

    pub(crate) fn file() -> RouteDoc {
        reads("Reads a file of a task attempt's log.").of_task()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_is_never_a_path() {
        for name in ["all", "stdout.1", "runtime.log", "user_x-1"] {
            assert!(file_name(name).is_ok(), "{name}");
        }
        for name in ["", "..", ".hidden", "a/b", "a\\b", "a\0", "\u{e9}", "a b"] {
            assert!(file_name(name).is_err(), "{name}");
        }
    }
}
