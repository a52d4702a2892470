//! gRPC's frames: one message there, one message or a refusal back.

use std::convert::Infallible;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream::{self, Iter};
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Response};
use prost::Message;

/// What a call is answered with: an encoded message.
pub(super) type CallResult = Result<Vec<u8>, CallRefusal>;
/// A body whose frames are known.
pub(super) type FixedBody = StreamBody<Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

/// Before each message: whether it is compressed, and its length.
const HEADER_BYTES: usize = 5;
const STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Why there is no answer, by gRPC's codes.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallRefusal {
    Malformed = 3,
    Absent = 5,
    Exists = 6,
    Runs = 9,
    Unknown = 12,
}

impl From<prost::DecodeError> for CallRefusal {
    fn from(_: prost::DecodeError) -> Self {
        Self::Malformed
    }
}

/// The only message of a call.
pub(super) fn message(body: &[u8]) -> Option<&[u8]> {
    body.get(HEADER_BYTES..)
}

/// An answer of this message.
pub(super) fn of(message: &impl Message) -> CallResult {
    Ok(message.encode_to_vec())
}

pub(super) fn response(answer: CallResult) -> Response<FixedBody> {
    let status = match &answer {
        Ok(_) => 0,
        Err(refusal) => *refusal as u16,
    };
    let mut frames = Vec::new();
    if let Ok(message) = answer {
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let mut data = BytesMut::with_capacity(HEADER_BYTES + message.len());
        data.put_u8(0);
        data.put_u32(length);
        data.put_slice(&message);
        frames.push(Ok(Frame::data(data.freeze())));
    }
    let trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from(status))]);
    frames.push(Ok(Frame::trailers(trailers)));
    let mut response = Response::new(StreamBody::new(stream::iter(frames)));
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
