//! Frames: how messages follow each other on a socket.
//!
//! A frame is magic (4 bytes), protocol, kind (2 bytes each), length (4 bytes), all little
//! endian, then the body. A receiver skips kinds it does not know, so that an agent may be
//! newer or older than the muster-init of a task.

/// What every frame begins with.
pub const MAGIC: [u8; 4] = *b"mstr";
/// The only protocol so far. It changes only if frames themselves change.
pub const PROTOCOL: u16 = 1;
/// The longest body a receiver takes. A setup, the longest message, holds a script of at most
/// 1 MiB and an environment.
pub const BODY_BYTES_MAX: usize = 4 << 20;

const HEADER_BYTES: usize = 12;

/// What is wrong with received or to be sent bytes. The connection they came from is useless.
#[derive(Debug, thiserror::Error)]
pub enum InitFrameError {
    /// Not our frames, or we lost step.
    #[error("a frame begins with {0:02x?} instead of the magic")]
    Magic([u8; 4]),
    /// Frames of another form.
    #[error("protocol {0} is not spoken here")]
    Protocol(u16),
    /// Over [`BODY_BYTES_MAX`].
    #[error("a body of {0} bytes is longer than {BODY_BYTES_MAX}")]
    TooLong(usize),
    /// A known kind whose body does not decode or encode.
    #[error("the body of a message of kind {kind} is malformed")]
    Body {
        /// The kind.
        kind: u16,
        /// What the codec says.
        #[source]
        source: postcard::Error,
    },
}

/// One received frame.
#[derive(Debug, PartialEq, Eq)]
pub struct InitFrame {
    /// What the body is.
    pub kind: u16,
    /// The message, encoded.
    pub body: Vec<u8>,
}

/// The bytes of a frame.
pub fn encode(kind: u16, body: &[u8]) -> Result<Vec<u8>, InitFrameError> {
    let length = u32::try_from(body.len())
        .ok()
        .filter(|_| body.len() <= BODY_BYTES_MAX)
        .ok_or(InitFrameError::TooLong(body.len()))?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&PROTOCOL.to_le_bytes());
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(body);
    Ok(bytes)
}

/// Cuts a byte stream into frames.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    /// Takes what came next from the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame, or `None` until more bytes came.
    pub fn next_frame(&mut self) -> Result<Option<InitFrame>, InitFrameError> {
        let Some((kind, length)) = self.header()? else {
            return Ok(None);
        };
        let end = HEADER_BYTES + length;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let body = self.bytes[HEADER_BYTES..end].to_vec();
        self.bytes.drain(..end);
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
        Ok(Some(InitFrame { kind, body }))
    }

    fn header(&self) -> Result<Option<(u16, usize)>, InitFrameError> {
        let Some(header) = self.bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let [m0, m1, m2, m3, p0, p1, k0, k1, l0, l1, l2, l3] = *header;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(InitFrameError::Magic([m0, m1, m2, m3]));
        }
        let protocol = u16::from_le_bytes([p0, p1]);
        if protocol != PROTOCOL {
            return Err(InitFrameError::Protocol(protocol));
        }
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > BODY_BYTES_MAX {
            return Err(InitFrameError::TooLong(length));
        }
        Ok(Some((u16::from_le_bytes([k0, k1]), length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_cut_of_the_stream() {
        let stream = [encode(1, b"one").unwrap(), encode(9, b"").unwrap()].concat();
        for cut in 0..=stream.len() {
            let mut decoder = Decoder::default();
            let mut frames = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                decoder.push(part);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    frames.push((frame.kind, frame.body));
                }
            }
            assert_eq!(frames, [(1, b"one".to_vec()), (9, Vec::new())], "{cut}");
        }
    }

    #[test]
    fn bad_headers_are_errors_before_any_body_came() {
        let good = encode(1, b"").unwrap();
        let change = |at: usize, to: u8| {
            let mut bytes = good.clone();
            bytes[at] = to;
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            decoder.next_frame()
        };
        assert!(matches!(change(0, b'x'), Err(InitFrameError::Magic(_))));
        assert!(matches!(change(4, 2), Err(InitFrameError::Protocol(2))));
        assert!(matches!(change(11, 1), Err(InitFrameError::TooLong(_))));
        assert!(encode(1, &vec![0; BODY_BYTES_MAX + 1]).is_err());
    }
}
