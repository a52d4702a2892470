//! What the page of a log loads besides itself: the log as it is written, and the log as a file.
//!
//! A stream is one of server-sent events: `data` is markup that goes behind what the page shows, `id` says where
//! the next event begins (the byte in the whole log, and how a terminal stands there), so that a browser that has
//! lost its connection goes on without losing or doubling anything. `missing` counts bytes that are not kept any
//! more, and after `end` nothing follows.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::try_unfold;
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, HeaderName};
use tokio::time::timeout;

use super::task_log::FILE_DEFAULT;
use super::terminal::{Terminal, settled};
use crate::call::Call;
use crate::error::ApiError;
use crate::handle::logs;
use crate::port::{ByteStream, Jobs, LogRange, Logs};
use crate::reply::{HandlerResult, HttpReply, ReplyContent, ascii};

/// A stream without news says so often that it lives.
const BEAT: Duration = Duration::from_secs(15);
/// How soon a browser comes back, in milliseconds.
const RETRY_MS: u32 = 1000;
/// Where a browser that comes back goes on.
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// `GET …/log/stream?file=&from=`
pub(crate) async fn follow(call: Call, jobs: &dyn Jobs, logs: &dyn Logs) -> HandlerResult {
    let last = call.header(&LAST_EVENT);
    let from = match last {
        "" => call.query.text("from").unwrap_or("0"),
        last => last,
    };
    let (place, state) = resumption(from)?;
    let file = call.query.text("file").unwrap_or(FILE_DEFAULT);
    let range = LogRange::Bytes {
        start: place,
        end: None,
    };
    let part = logs::whole_part(&call, (jobs, logs), (file, range, true)).await?;
    let missing = part.start.saturating_sub(place);
    let mut begun = format!("retry: {RETRY_MS}\n\n");
    if missing > 0 {
        write_missing(&mut begun, missing);
    }
    let events = LogEvents {
        body: bytes_of(part.content),
        terminal: Terminal::resumed(if missing > 0 { "" } else { state }),
        held: Vec::new(),
        place: part.start,
        begun: Some(begun),
        has_ended: false,
    };
    Ok(HttpReply::event_stream(events.into_stream()))
}

fn write_missing(text: &mut String, bytes: u64) {
    // Writing to a string does not fail.
    let _ = write!(text, "event: missing\ndata: {bytes}\n\n");
}

/// The byte and the terminal's state that an event's `id` names.
fn resumption(id: &str) -> Result<(u64, &str), ApiError> {
    let (place, state) = id.split_once('.').unwrap_or((id, ""));
    let place = place.parse().map_err(|_| {
        ApiError::Parameters(format!(
            "from must be a number of bytes, or the id of an event, not {id:?}"
        ))
    })?;
    Ok((place, state))
}

fn bytes_of(content: ReplyContent) -> ByteStream {
    match content {
        ReplyContent::Stream(body) | ReplyContent::Foreign(body) => body,
        ReplyContent::Whole(whole) | ReplyContent::Page(whole) => one(whole),
    }
}

fn one(bytes: Bytes) -> ByteStream {
    Box::pin(futures::stream::iter([Ok(bytes)]))
}

/// A log as events.
struct LogEvents {
    body: ByteStream,
    terminal: Terminal,
    /// What has come and is not whole yet.
    held: Vec<u8>,
    /// The first byte of that.
    place: u64,
    /// What comes first.
    begun: Option<String>,
    has_ended: bool,
}

impl LogEvents {
    fn into_stream(self) -> ByteStream {
        Box::pin(try_unfold(self, |mut events| async move {
            Ok(events.next().await?.map(|text| (text.into(), events)))
        }))
    }

    async fn next(&mut self) -> io::Result<Option<String>> {
        if let Some(begun) = self.begun.take() {
            return Ok(Some(begun));
        }
        if self.has_ended {
            return Ok(None);
        }
        loop {
            match timeout(BEAT, self.body.next()).await {
                Err(_) => return Ok(Some(":\n\n".to_owned())),
                Ok(Some(bytes)) => {
                    self.held.extend_from_slice(&bytes?);
                    let whole = settled(&self.held);
                    if whole > 0 {
                        return Ok(Some(self.event(whole)));
                    }
                }
                Ok(None) => {
                    self.has_ended = true;
                    let last = self.event(self.held.len());
                    return Ok(Some(last + "event: end\ndata:\n\n"));
                }
            }
        }
    }

    /// The event of the first so many bytes that have come.
    fn event(&mut self, count: usize) -> String {
        let rest = self.held.split_off(count);
        let bytes = std::mem::replace(&mut self.held, rest);
        let html = self.terminal.write(&bytes).into_string();
        self.place += bytes.len() as u64;
        let mut text = format!("id: {}.{}\n", self.place, self.terminal.state());
        for line in html.split('\n') {
            text.push_str("data: ");
            text.push_str(line);
            text.push('\n');
        }
        text.push('\n');
        text
    }
}

/// `GET …/log/download?file=&from=&to=`: a whole log, or the bytes from one to another
pub(crate) async fn download(call: Call, jobs: &dyn Jobs, logs: &dyn Logs) -> HandlerResult {
    let file = call.query.text("file").unwrap_or(FILE_DEFAULT);
    let range = match (call.number("from")?, call.number("to")?) {
        (None, None) => LogRange::All,
        (from, to) => LogRange::Bytes {
            start: from.unwrap_or(0),
            end: to,
        },
    };
    let part = logs::whole_part(&call, (jobs, logs), (file, range, false)).await?;
    let key = call.job_key()?;
    let [role, index, task] = ["role", "index", "task"].map(|name| call.params.text(name));
    let name = format!("{}-{role}-{index}-{task}-{file}.log", key.name);
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(plain).collect();
    let reply = HttpReply::text_stream(bytes_of(part.content), None);
    let disposition = match name.is_empty() {
        true => HeaderValue::from_static("attachment"),
        false => ascii(format!("attachment; filename=\"{name}\"")),
    };
    Ok(reply.with(CONTENT_DISPOSITION, disposition))
}
