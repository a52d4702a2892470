//! Frames in their order: one stream that lives as long as its link, with each frame behind its
//! length.
//!
//! On the wire: [`HEAD`], then for each frame its length as u32, little endian, and its bytes. A
//! stream that begins otherwise is one frame, and ends with it.

use bytes::Bytes;
use quinn::{
    Connection, ConnectionError, ReadError, ReadExactError, ReadToEndError, RecvStream, SendStream,
    WriteError,
};

use crate::frame::FRAME_BYTES_MAX;

/// Starts the stream, and no frame. A change of the form is another head.
pub(super) const HEAD: [u8; 4] = *b"MOR1";
/// Streams that a frame is written to before it is given up.
const TRIES: usize = 2;
/// Above documents, which have 0: when both wait inside the transport, this goes out first.
const PRIORITY: i32 = 1;

/// The stream that this node writes to, once there is one.
#[derive(Debug, Default)]
pub(super) struct Ordered(Option<SendStream>);

impl Ordered {
    /// Writes a frame. If the peer stopped the stream the frame is the first of a new one; a peer
    /// that stops that too does not want it.
    pub(super) async fn send(
        &mut self,
        connection: &Connection,
        frame: &Bytes,
    ) -> Result<(), ConnectionError> {
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let length = Bytes::copy_from_slice(&length.to_le_bytes());
        for _ in 0..TRIES {
            let (head, stream) = match &mut self.0 {
                Some(stream) => (Bytes::new(), stream),
                None => (
                    Bytes::from_static(&HEAD),
                    self.0.insert(open(connection).await?),
                ),
            };
            let mut parts = [head, length.clone(), frame.clone()];
            match stream.write_all_chunks(&mut parts).await {
                Ok(()) => break,
                Err(WriteError::ConnectionLost(why)) => return Err(why),
                Err(_) => self.0 = None,
            }
        }
        Ok(())
    }
}

async fn open(connection: &Connection) -> Result<SendStream, ConnectionError> {
    let stream = connection.open_uni().await?;
    // It fails for a stream that is closed already: the first write finds that out.
    let _ = stream.set_priority(PRIORITY);
    Ok(stream)
}

/// What a stream turns out to be.
pub(super) enum StreamOpening {
    /// One frame, with its first bytes.
    Frame(Vec<u8>),
    /// Frames in their order.
    Ordered,
}

/// Reads as much of a stream as tells what it is.
pub(super) async fn opening(stream: &mut RecvStream) -> Result<StreamOpening, ReadError> {
    let mut head = [0; HEAD.len()];
    let read = fill(stream, &mut head).await?;
    if head == HEAD {
        return Ok(StreamOpening::Ordered);
    }
    Ok(StreamOpening::Frame(head[..read].to_vec()))
}

/// Fills `buffer` as far as the stream goes; says how far that is.
async fn fill(stream: &mut RecvStream, buffer: &mut [u8]) -> Result<usize, ReadError> {
    match stream.read_exact(buffer).await {
        Ok(()) => Ok(buffer.len()),
        Err(ReadExactError::FinishedEarly(read)) => Ok(read),
        Err(ReadExactError::ReadError(why)) => Err(why),
    }
}

/// Reads the rest of the one frame that begins with `bytes`.
pub(super) async fn to_end(
    stream: &mut RecvStream,
    mut bytes: Vec<u8>,
) -> Result<Bytes, ReadToEndError> {
    while let Some(chunk) = stream.read_chunk(FRAME_BYTES_MAX, true).await? {
        if bytes.len() + chunk.bytes.len() > FRAME_BYTES_MAX {
            return Err(ReadToEndError::TooLong);
        }
        bytes.extend_from_slice(&chunk.bytes);
    }
    Ok(bytes.into())
}

/// Reads the next frame of a stream that keeps order; none when it has ended. Half a frame is
/// none. The length is looked at before there is room for it.
pub(super) async fn next(stream: &mut RecvStream) -> Result<Option<Bytes>, ReadToEndError> {
    let mut length = [0; 4];
    if fill(stream, &mut length).await? < length.len() {
        return Ok(None);
    }
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES_MAX {
        return Err(ReadToEndError::TooLong);
    }
    let mut frame = vec![0; length];
    let whole = fill(stream, &mut frame).await? == length;
    Ok(whole.then(|| frame.into()))
}
