//! The stylesheet and the script of all pages, and the script of terminals. Their names carry a hash of what is in them, so that browsers
//! keep them until they change.

use std::sync::LazyLock;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use md5::{Digest as _, Md5};

use crate::call::Call;
use crate::error::ApiError;
use crate::reply::{HandlerResult, HttpReply, ReplyContent};
use crate::wire::hex;

const STYLE: &str = include_str!("../../assets/portal.css");
const SCRIPT: &str = include_str!("../../assets/portal.js");
const TERMINAL: &str = include_str!("../../assets/terminal.js");
/// Digits of the hash in a name.
const HASH_DIGITS: usize = 12;

static STYLE_PATH: LazyLock<String> = LazyLock::new(|| path("portal", STYLE, "css"));
static SCRIPT_PATH: LazyLock<String> = LazyLock::new(|| path("portal", SCRIPT, "js"));
static TERMINAL_PATH: LazyLock<String> = LazyLock::new(|| path("terminal", TERMINAL, "js"));

fn path(name: &str, text: &str, kind: &str) -> String {
    let hash = hex(&Md5::digest(text));
    format!("/assets/{name}.{}.{kind}", &hash[..HASH_DIGITS])
}

/// Where the stylesheet is.
pub(super) fn style() -> &'static str {
    &STYLE_PATH
}

/// Where the script is.
pub(super) fn script() -> &'static str {
    &SCRIPT_PATH
}

/// Where the script of terminals is.
pub(super) fn terminal() -> &'static str {
    &TERMINAL_PATH
}

/// `GET /assets/:file`
pub(crate) async fn one(call: Call) -> HandlerResult {
    let file = call.params.text("file");
    let path = format!("/assets/{file}");
    let (text, kind) = match path {
        _ if path == style() => (STYLE, "text/css; charset=utf-8"),
        _ if path == script() => (SCRIPT, "text/javascript; charset=utf-8"),
        _ if path == terminal() => (TERMINAL, "text/javascript; charset=utf-8"),
        _ => return Err(ApiError::NoApi(path)),
    };
    let mut reply = HttpReply::empty(StatusCode::OK)
        .with(CONTENT_TYPE, HeaderValue::from_static(kind))
        .with(
            CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=31536000, immutable"),
        );
    reply.content = ReplyContent::Whole(Bytes::from_static(text.as_bytes()));
    Ok(reply)
}
