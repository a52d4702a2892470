//! What a handler gives back, before it becomes an HTTP response.

use bytes::Bytes;
use http::header::{
    ALLOW, CONNECTION, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    ETAG, HeaderName, LOCATION, RETRY_AFTER, UPGRADE, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use muster_model::id::VcName;
use muster_model::sight::HiddenJobs;
use muster_model::view::Age;
use schemars::JsonSchema;
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3;

use crate::error::ApiError;
use crate::port::ByteStream;
use crate::wire::{hex, metric_text};

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const YAML: HeaderValue = HeaderValue::from_static("text/yaml; charset=utf-8");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");
/// What there are routes for.
pub(crate) const METHODS: &str = "GET,HEAD,PUT,PATCH,POST,DELETE";
/// Names virtual clusters whose jobs are missing in a listing, for nobody answers who knows them.
const AWAY: HeaderName = HeaderName::from_static("x-muster-away");
/// Says how many seconds old what is told of virtual clusters is, for their leaders do not answer.
const AGE: HeaderName = HeaderName::from_static("x-muster-age");
/// Names virtual clusters whose jobs of others are missing in a listing, for its user does not see them.
const HIDDEN: HeaderName = HeaderName::from_static("x-muster-hidden");
const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const RATE_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RATE_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// What was done.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DoneMessage {
    message: String,
}

/// What a handler answers.
pub(crate) type HandlerResult = Result<HttpReply, ApiError>;

/// A body: whole, or a stream that is sent as it comes.
pub(crate) enum ReplyContent {
    Whole(Bytes),
    /// A page for people. Unlike the API, pages of other origins may not read it: it is open,
    /// and a browser inside the network would read it out for a page from outside.
    Page(Bytes),
    Stream(ByteStream),
    /// What a web tool of a task answers, as it comes. Pages of other origins may not read it either.
    Foreign(ByteStream),
}

/// An answer.
pub(crate) struct HttpReply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) content: ReplyContent,
    /// Whether its tag changes with everything that the client is shown. That of a user does not: what
    /// they may do, their groups say.
    pub(crate) is_conditional: bool,
}

impl HttpReply {
    fn new(kind: HeaderValue, content: ReplyContent) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, kind);
        Self {
            status: StatusCode::OK,
            headers,
            content,
            is_conditional: false,
        }
    }

    /// JSON, 200.
    pub(crate) fn json(value: &impl Serialize) -> Result<Self, ApiError> {
        let text = serde_json::to_vec(value).map_err(|e| ApiError::Answer(e.to_string()))?;
        Ok(Self::new(JSON, ReplyContent::Whole(text.into())))
    }

    /// A sentence on what was done, as JSON, 200.
    pub(crate) fn message(message: &str) -> Result<Self, ApiError> {
        let message = message.to_owned();
        Self::json(&DoneMessage { message })
    }

    /// JSON that was written before, 200.
    pub(crate) fn json_text(text: Bytes) -> Self {
        Self::new(JSON, ReplyContent::Whole(text))
    }

    /// JSON under the content type of YAML, as upstream sends a job's config.
    pub(crate) fn json_as_yaml(value: &serde_json::Value) -> Self {
        Self::new(YAML, ReplyContent::Whole(value.to_string().into()))
    }

    /// Plain text.
    pub(crate) fn text(text: &'static str) -> Self {
        Self::new(
            TEXT,
            ReplyContent::Whole(Bytes::from_static(text.as_bytes())),
        )
    }

    /// Figures in Prometheus' text format.
    pub(crate) fn metrics(text: String) -> Self {
        let kind = HeaderValue::from_static(metric_text::CONTENT_TYPE);
        Self::new(kind, ReplyContent::Page(text.into()))
    }

    /// Plain text of our own making.
    pub(crate) fn plain(text: String) -> Self {
        Self::new(TEXT, ReplyContent::Whole(text.into()))
    }

    /// A page that may hold nothing but markup and style.
    pub(crate) fn page(html: String) -> Self {
        let policy = HeaderValue::from_static(
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; \
             base-uri 'none'; form-action 'none'",
        );
        Self::new(HTML, ReplyContent::Page(html.into()))
            .with(CONTENT_SECURITY_POLICY, policy)
            .with(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"))
    }

    /// A page of the portal. Its frame says what it may load.
    pub(crate) fn html(html: String) -> Self {
        Self::new(HTML, ReplyContent::Page(html.into()))
    }

    /// A page as text.
    pub(crate) fn open_text(text: String) -> Self {
        Self::new(TEXT, ReplyContent::Page(text.into()))
    }

    /// What a page shows, as JSON.
    pub(crate) fn open_json(value: &impl Serialize) -> Result<Self, ApiError> {
        let text = serde_json::to_string_pretty(value);
        let text = text.map_err(|e| ApiError::Answer(e.to_string()))?;
        Ok(Self::new(JSON, ReplyContent::Page(text.into())))
    }

    /// Text as it comes, of a known length or open.
    pub(crate) fn text_stream(body: ByteStream, length: Option<u64>) -> Self {
        let reply = Self::new(TEXT, ReplyContent::Stream(body))
            .with(CONTENT_DISPOSITION, HeaderValue::from_static("inline"));
        match length {
            Some(length) => reply.with(CONTENT_LENGTH, length.into()),
            None => reply,
        }
    }

    /// Bytes as they come, of a known length or open.
    pub(crate) fn bytes_stream(body: ByteStream, length: Option<u64>) -> Self {
        let kind = HeaderValue::from_static("application/octet-stream");
        let reply = Self::new(kind, ReplyContent::Stream(body))
            .with(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
        match length {
            Some(length) => reply.with(CONTENT_LENGTH, length.into()),
            None => reply,
        }
    }

    /// One JSON text a line, as they come.
    pub(crate) fn ndjson_stream(body: ByteStream) -> Self {
        Self::new(NDJSON, ReplyContent::Stream(body))
    }

    /// Server-sent events, as they come. A web server in between is not to hold them back.
    pub(crate) fn event_stream(body: ByteStream) -> Self {
        Self::new(EVENTS, ReplyContent::Stream(body)).with(
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        )
    }

    /// What a web tool of a task answers.
    pub(crate) fn foreign(status: StatusCode, headers: HeaderMap, body: ByteStream) -> Self {
        Self {
            status,
            headers,
            content: ReplyContent::Foreign(body),
            is_conditional: false,
        }
    }

    /// Another protocol takes HTTP's place on the connection, 101.
    pub(crate) fn switching(protocol: HeaderValue) -> Self {
        Self::empty(StatusCode::SWITCHING_PROTOCOLS)
            .with(CONNECTION, HeaderValue::from_static("Upgrade"))
            .with(UPGRADE, protocol)
    }

    /// No body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            content: ReplyContent::Whole(Bytes::new()),
            is_conditional: false,
        }
    }

    /// No body: what was asked for is at `place`, for now.
    pub(crate) fn temporary_redirect(place: HeaderValue) -> Self {
        Self::empty(StatusCode::TEMPORARY_REDIRECT).with(LOCATION, place)
    }

    /// Adds a strong tag of all that the client is shown, for conditional requests.
    pub(crate) fn tagged(self) -> Self {
        let ReplyContent::Whole(body) = &self.content else {
            return self;
        };
        // A cryptographic digest of a long list would take a large part of the whole request.
        let mut digest = Xxh3::new();
        for name in [AWAY, AGE, HIDDEN] {
            digest.update(
                self.headers
                    .get(&name)
                    .map_or(&b""[..], HeaderValue::as_bytes),
            );
            digest.update(b"\n");
        }
        digest.update(body);
        let tag = format!("\"{}\"", hex(&digest.digest128().to_be_bytes()));
        let mut reply = self.with(ETAG, ascii(tag));
        reply.is_conditional = true;
        reply
    }

    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Names virtual clusters whose part of a listing is missing, if there are any.
    pub(crate) fn without(self, away: &[VcName]) -> Self {
        if away.is_empty() {
            return self;
        }
        let names: Vec<_> = away.iter().map(VcName::as_str).collect();
        self.with(AWAY, ascii(names.join(", ")))
    }

    /// Says how old the answer is, if it is not what leaders say now: `ape=42, bee=unknown`.
    pub(crate) fn aged<'a>(self, ages: impl IntoIterator<Item = &'a Age>) -> Self {
        let age = |Age { vc, seconds }: &Age| match seconds {
            Some(seconds) => format!("{vc}={seconds}"),
            None => format!("{vc}=unknown"),
        };
        let ages: Vec<_> = ages.into_iter().map(age).collect();
        match ages.is_empty() {
            true => self,
            false => self.with(AGE, ascii(ages.join(", "))),
        }
    }

    /// Names virtual clusters whose jobs of others are left out, and who sees them: `lab=private`.
    pub(crate) fn hiding(self, hidden: &[HiddenJobs]) -> Self {
        let named = |it: &HiddenJobs| format!("{}={}", it.vc, it.visibility.as_str());
        let all: Vec<_> = hidden.iter().map(named).collect();
        match all.is_empty() {
            true => self,
            false => self.with(HIDDEN, ascii(all.join(", "))),
        }
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// How a failure looks.
    pub(crate) fn failure(error: &ApiError) -> Self {
        let text = error.body().to_string();
        let reply = match error {
            ApiError::Method(_) => Self::new(JSON, ReplyContent::Whole(text.into()))
                .with(ALLOW, HeaderValue::from_static(METHODS)),
            ApiError::TooMany { limit, reset_s } => too_many(error, *limit, *reset_s),
            ApiError::Range { size } => Self::new(JSON, ReplyContent::Whole(text.into())).with(
                http::header::CONTENT_RANGE,
                ascii(format!("bytes */{size}")),
            ),
            _ => Self::new(JSON, ReplyContent::Whole(text.into())),
        };
        let reply = reply.with_status(error.code().0);
        match error.retry_s() {
            Some(retry_s) => reply.with(RETRY_AFTER, retry_s.into()),
            None => reply,
        }
    }
}

/// Upstream's limiter answers with bare text that it calls HTML.
fn too_many(error: &ApiError, limit: u32, reset_s: u64) -> HttpReply {
    HttpReply::new(HTML, ReplyContent::Whole(error.to_string().into()))
        .with(RATE_LIMIT, limit.into())
        .with(RATE_REMAINING, 0.into())
        .with(RATE_RESET, (crate::clock::now_s() + reset_s).into())
}

/// A header value of our own making. What cannot be one is left empty.
pub(crate) fn ascii(text: String) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(text)).unwrap_or(HeaderValue::from_static(""))
}
