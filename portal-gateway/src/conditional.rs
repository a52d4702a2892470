//! Conditional requests: a client that has the answer already is told so, and gets no body.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, Method, StatusCode};

use crate::reply::{HttpReply, ReplyContent, ascii};

/// What a tag ends with that stands for the compressed body: another coding is another representation.
const GZIP: &str = "-gzip";

/// The tags that a client has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownTags(Vec<String>);

impl KnownTags {
    /// Those of a request that only reads.
    pub(crate) fn of(method: &Method, headers: &HeaderMap) -> Self {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Self::default();
        }
        let values = headers.get_all(IF_NONE_MATCH).into_iter();
        let values = values.filter_map(|value| value.to_str().ok());
        let tags = values.flat_map(|value| value.split(',')).map(opaque);
        Self(tags.filter(|tag| !tag.is_empty()).collect())
    }

    /// The answer, or that the client has it.
    pub(crate) fn answer(&self, reply: HttpReply) -> HttpReply {
        let tag = reply.headers.get(ETAG).and_then(|tag| tag.to_str().ok());
        let Some(tag) = tag.map(opaque) else {
            return reply;
        };
        if !reply.is_conditional {
            return reply;
        }
        let is_known = self.0.iter().any(|known| *known == tag || known == "*");
        if !is_known || reply.status != StatusCode::OK {
            return reply;
        }
        let mut headers = reply.headers;
        headers.remove(CONTENT_TYPE);
        headers.remove(CONTENT_LENGTH);
        HttpReply {
            status: StatusCode::NOT_MODIFIED,
            headers,
            content: ReplyContent::Whole(bytes::Bytes::new()),
            is_conditional: true,
        }
    }
}

/// A tag without its quotes, whatever the coding it stands for: web servers in between make tags weak.
fn opaque(tag: &str) -> String {
    let tag = tag.trim();
    let tag = tag.strip_prefix("W/").unwrap_or(tag);
    let tag = tag.trim_matches('"');
    tag.strip_suffix(GZIP).unwrap_or(tag).to_owned()
}

/// Has the tag say that it stands for the compressed body.
pub(crate) fn compressed(headers: &mut HeaderMap) {
    let tag = headers.get(ETAG).and_then(|tag| tag.to_str().ok());
    let bare = tag.and_then(|tag| tag.strip_prefix('"')?.strip_suffix('"'));
    if let Some(tag) = bare.map(|tag| format!("\"{tag}{GZIP}\"")) {
        headers.insert(ETAG, ascii(tag));
    }
}
