//! gzip for whole bodies. A stream is never compressed: it would wait for more to come.
//!
//! A page may hold a secret of its session and a text of an address beside it. The size of the
//! compressed page would tell the secret letter by letter (the attack BREACH), so the form key,
//! the one secret that stays the same, is masked anew in each answer.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use http::{HeaderMap, HeaderValue};

use crate::conditional;
use crate::reply::{HttpReply, ReplyContent};

/// Shorter bodies fit in one packet anyway.
const BYTES_MIN: usize = 1024;

/// Compresses the body if that helps and the client takes it.
pub(crate) async fn gzip(mut reply: HttpReply, asked: bool) -> HttpReply {
    let (ReplyContent::Whole(body) | ReplyContent::Page(body)) = &reply.content else {
        return reply;
    };
    let is_page = matches!(reply.content, ReplyContent::Page(_));
    if body.len() < BYTES_MIN {
        return reply;
    }
    reply
        .headers
        .append(VARY, HeaderValue::from_static("Accept-Encoding"));
    if !asked {
        return reply;
    }
    let plain = body.clone();
    // Thousands of jobs take tens of milliseconds, too long for an async thread.
    let packed = tokio::task::spawn_blocking(move || pack(&plain)).await;
    if let Ok(Ok(packed)) = packed {
        reply.content = match is_page {
            true => ReplyContent::Page(packed),
            false => ReplyContent::Whole(packed),
        };
        reply
            .headers
            .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        conditional::compressed(&mut reply.headers);
    }
    reply
}

/// Whether a client takes gzip.
pub(crate) fn accepted(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|one| {
            let mut parts = one.split(';').map(str::trim);
            let named = parts
                .next()
                .is_some_and(|name| name.eq_ignore_ascii_case("gzip") || name == "*");
            named && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
        })
}

fn pack(plain: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    encoder.write_all(plain)?;
    encoder.finish().map(Bytes::from)
}
