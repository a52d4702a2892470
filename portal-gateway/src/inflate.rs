//! Compressed bodies of requests, as upstream takes them.

use std::io::Read;

use bytes::Bytes;
use flate2::read::{MultiGzDecoder, ZlibDecoder};

use crate::error::ApiError;

/// How a body is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentEncoding {
    /// Not at all.
    Plain,
    Gzip,
    /// zlib's format, which HTTP calls deflate.
    Deflate,
}

impl ContentEncoding {
    /// What a `Content-Encoding` header says; empty without one.
    pub(crate) fn of(header: &str) -> Result<Self, ApiError> {
        match header.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(Self::Plain),
            "gzip" | "x-gzip" => Ok(Self::Gzip),
            "deflate" => Ok(Self::Deflate),
            _ => Err(ApiError::Encoding(header.to_owned())),
        }
    }

    /// The body as it was, of at most `max` bytes: a few packed ones may hold gigabytes.
    pub(crate) async fn unpack(self, body: Bytes, max: usize) -> Result<Bytes, ApiError> {
        if self == Self::Plain {
            return Ok(body);
        }
        // Megabytes take milliseconds, too long for an async thread.
        let unpacked = tokio::task::spawn_blocking(move || self.inflate(&body, max)).await;
        unpacked.map_err(|error| ApiError::Inflate(error.to_string()))?
    }

    fn inflate(self, body: &[u8], max: usize) -> Result<Bytes, ApiError> {
        match self {
            Self::Plain => Ok(Bytes::copy_from_slice(body)),
            Self::Gzip => bounded(MultiGzDecoder::new(body), max),
            Self::Deflate => bounded(ZlibDecoder::new(body), max),
        }
    }
}

fn bounded(reader: impl Read, max: usize) -> Result<Bytes, ApiError> {
    let mut whole = Vec::new();
    let read = reader.take(max as u64 + 1).read_to_end(&mut whole);
    read.map_err(|error| ApiError::Inflate(error.to_string()))?;
    if whole.len() > max {
        return Err(ApiError::TooLarge { limit: max });
    }
    Ok(whole.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn gzip(plain: &[u8]) -> Bytes {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap().into()
    }

    fn deflate(plain: &[u8]) -> Bytes {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap().into()
    }

    async fn unpacked(header: &str, body: Bytes, max: usize) -> Result<Bytes, ApiError> {
        ContentEncoding::of(header)?.unpack(body, max).await
    }

    #[tokio::test]
    async fn bodies_are_unpacked_within_their_bound() {
        let plain = Bytes::from(vec![b'x'; 5000]);
        for (header, body) in [
            ("", plain.clone()),
            ("identity", plain.clone()),
            ("gzip", gzip(&plain)),
            ("X-Gzip", gzip(&plain)),
            ("deflate", deflate(&plain)),
        ] {
            let body = unpacked(header, body, 5000).await.unwrap();
            assert_eq!(body, plain, "{header}");
        }
        for packed in [("gzip", gzip(&plain)), ("deflate", deflate(&plain))] {
            let error = unpacked(packed.0, packed.1, 4999).await.unwrap_err();
            assert!(
                matches!(error, ApiError::TooLarge { limit: 4999 }),
                "{error}"
            );
        }
        let error = unpacked("gzip", plain.clone(), 5000).await.unwrap_err();
        assert!(matches!(error, ApiError::Inflate(_)), "{error}");
        for header in ["br", "gzip, gzip", "zstd"] {
            let error = unpacked(header, plain.clone(), 5000).await.unwrap_err();
            assert!(matches!(error, ApiError::Encoding(_)), "{header}: {error}");
        }
    }
}
