//! Frames as bytes.
//!
//! All little endian: magic u16, protocol u16, kind u16, length of the body u32, the first 8
//! bytes of the cluster's id, generation u32, checksum u32, then the body in postcard. The
//! checksum covers header and body and is looked at before anything but magic, protocol and
//! length is believed. Decoding never panics, and allocates no more than what it has read pays
//! for: a length that a frame claims is compared with its bound and with the bytes that are
//! there.

mod body;
mod error;

pub use error::FrameError;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::{FRAME_BYTES_MAX, MeshFrame};
use crate::key::ClusterId;

/// Bytes before a frame's body.
pub const HEADER_BYTES: usize = 26;
/// Starts every frame.
pub const MAGIC: u16 = 0x754d;
/// The form of the header. Bodies are versioned by their kind.
pub const PROTOCOL: u16 = 1;

const KIND_AT: usize = 4;
const LENGTH_AT: usize = 6;
const CLUSTER_AT: usize = 10;
const GENERATION_AT: usize = 18;
const CHECKSUM_AT: usize = 22;

/// Writes a frame. Vectors longer than their bound are written all the same; the receiver
/// refuses them.
pub fn encode(frame: &MeshFrame, cluster: ClusterId, generation: u32) -> Vec<u8> {
    let mut header = Vec::with_capacity(wire_len(frame));
    header.extend_from_slice(&MAGIC.to_le_bytes());
    header.extend_from_slice(&PROTOCOL.to_le_bytes());
    header.extend_from_slice(&body::FrameKind::of(frame).number().to_le_bytes());
    header.extend_from_slice(&[0; 4]);
    header.extend_from_slice(&cluster_bytes(cluster));
    header.extend_from_slice(&generation.to_le_bytes());
    header.extend_from_slice(&[0; 4]);
    let mut bytes = body::append(frame, header);
    seal(&mut bytes);
    bytes
}

/// Reads a frame of this cluster and generation.
///
/// # Errors
/// Whatever is wrong with the bytes, by kind, so that it can be counted.
pub fn decode(bytes: &[u8], cluster: ClusterId, generation: u32) -> Result<MeshFrame, FrameError> {
    let body = checked_body(bytes)?;
    if field(bytes, CLUSTER_AT) != cluster_bytes(cluster) {
        return Err(FrameError::OtherCluster);
    }
    match u32::from_le_bytes(field(bytes, GENERATION_AT)) {
        older if older < generation => return Err(FrameError::OlderGeneration(older)),
        newer if newer > generation => return Err(FrameError::NewerGeneration(newer)),
        _ => {}
    }
    let number = u16::from_le_bytes(field(bytes, KIND_AT));
    let kind = body::FrameKind::from_number(number).ok_or(FrameError::UnknownKind(number))?;
    body::read(kind, body)
}

/// Bytes of the frame as [`encode`] writes it, without writing it.
pub fn wire_len(frame: &MeshFrame) -> usize {
    HEADER_BYTES + body::len(frame)
}

/// Writes length and checksum of a frame anew. For those who change an encoded frame on purpose:
/// a damage behind the checksum is one that only the body's decoder can find.
pub fn seal(bytes: &mut [u8]) {
    let Some(length) = bytes.len().checked_sub(HEADER_BYTES) else {
        return;
    };
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    bytes[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&length.to_le_bytes());
    let checksum = checksum(bytes);
    bytes[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// The body of an undamaged frame of this protocol.
fn checked_body(bytes: &[u8]) -> Result<&[u8], FrameError> {
    if bytes.len() < HEADER_BYTES {
        return Err(FrameError::TooShort(bytes.len()));
    }
    if bytes.len() > FRAME_BYTES_MAX {
        return Err(FrameError::Limit("bytes of a frame"));
    }
    if u16::from_le_bytes(field(bytes, 0)) != MAGIC {
        return Err(FrameError::Magic);
    }
    match u16::from_le_bytes(field(bytes, 2)) {
        PROTOCOL => {}
        other => return Err(FrameError::Protocol(other)),
    }
    let body = &bytes[HEADER_BYTES..];
    let claimed = u32::from_le_bytes(field(bytes, LENGTH_AT));
    if usize::try_from(claimed) != Ok(body.len()) {
        return Err(FrameError::Length(claimed));
    }
    if u32::from_le_bytes(field(bytes, CHECKSUM_AT)) != checksum(bytes) {
        return Err(FrameError::Checksum);
    }
    Ok(body)
}

/// Over header and body of a frame that has a header.
fn checksum(bytes: &[u8]) -> u32 {
    let header = xxh3_64(&bytes[..CHECKSUM_AT]);
    let [a, b, c, d, ..] = xxh3_64_with_seed(&bytes[HEADER_BYTES..], header).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// As many bytes of the header as asked for; the header is known to be there.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

/// As much of a cluster's id as frames carry.
fn cluster_bytes(cluster: ClusterId) -> [u8; 8] {
    field(&cluster.0, 0)
}
