//! Frames of a session, read from a stream and written to one.

use std::io;

use muster_model::session::{FRAME_HEAD_BYTES, SessionChannel, frame_head, read_frame_head};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Reads the next frame into `payload`. None at the end of the stream.
///
/// # Errors
/// Those of the stream; [`io::ErrorKind::InvalidData`] for what is no frame.
pub(super) async fn read<R: AsyncRead + Unpin>(
    stream: &mut R,
    payload: &mut Vec<u8>,
) -> io::Result<Option<SessionChannel>> {
    let mut head = [0; FRAME_HEAD_BYTES];
    match stream.read(&mut head[..1]).await? {
        0 => return Ok(None),
        _ => stream.read_exact(&mut head[1..]).await?,
    };
    let nonsense = || io::Error::new(io::ErrorKind::InvalidData, "no frame of a session");
    let (channel, length) = read_frame_head(head).ok_or_else(nonsense)?;
    payload.resize(length, 0);
    stream.read_exact(payload).await?;
    Ok(Some(channel))
}

/// Writes a frame.
///
/// # Errors
/// Those of the stream.
pub(super) async fn write<W: AsyncWrite + Unpin>(
    stream: &mut W,
    channel: SessionChannel,
    payload: &[u8],
) -> io::Result<()> {
    stream
        .write_all(&frame_head(channel, payload.len()))
        .await?;
    stream.write_all(payload).await?;
    stream.flush().await
}
