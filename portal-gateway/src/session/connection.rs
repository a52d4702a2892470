//! A connection to a task: binary messages are its bytes, and an empty one is the end of its direction.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio_tungstenite::tungstenite::Message;

use super::{ClientInput, ClientMessages, ClientSink, ping};
use crate::port::SessionIo;
use crate::websocket::ClientSocket;

/// Bytes of one message.
const MESSAGE_BYTES: usize = 64 << 10;

/// Passes everything on until both directions have ended, or one side has gone.
pub(crate) async fn pass_on(socket: ClientSocket, session: Box<dyn SessionIo>) {
    let (sink, stream) = socket.split();
    let sink = Mutex::new(sink);
    let (mut reader, mut writer) = tokio::io::split(session);
    let ended = DirectionsEnded::default();
    let passed = tokio::select! {
        passed = to_task(ClientMessages::new(stream), &mut writer, (&sink, &ended)) => passed,
        passed = to_client(&mut reader, (&sink, &ended)) => passed,
    };
    if passed.is_ok() {
        // A client that is gone does not hear it.
        let _ = sink.lock().await.close().await;
    }
}

/// How many directions have ended.
#[derive(Default)]
struct DirectionsEnded(AtomicU8);

impl DirectionsEnded {
    /// Counts one, and tells whether that is both.
    fn count(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) == 1
    }
}

/// Passes on what the client sends. Returns once both directions have ended.
async fn to_task<W: AsyncWrite + Unpin>(
    mut messages: ClientMessages,
    writer: &mut W,
    (sink, ended): (&Mutex<ClientSink>, &DirectionsEnded),
) -> io::Result<()> {
    let mut is_open = true;
    loop {
        match messages.next().await {
            ClientInput::Gone => return Err(io::ErrorKind::ConnectionAborted.into()),
            ClientInput::Silence => ping(sink).await.map_err(io::Error::other)?,
            ClientInput::Message(Message::Binary(bytes)) if is_open => {
                if bytes.is_empty() {
                    writer.shutdown().await?;
                    is_open = false;
                    if ended.count() {
                        return Ok(());
                    }
                    continue;
                }
                writer.write_all(&bytes).await?;
                writer.flush().await?;
            }
            ClientInput::Message(_) => {}
        }
    }
}

/// Passes on what the task sends, likewise.
async fn to_client<R: AsyncRead + Unpin>(
    reader: &mut R,
    (sink, ended): (&Mutex<ClientSink>, &DirectionsEnded),
) -> io::Result<()> {
    let mut bytes = vec![0; MESSAGE_BYTES];
    loop {
        let count = reader.read(&mut bytes).await?;
        let message = Bytes::copy_from_slice(&bytes[..count]);
        let sent = sink.lock().await.send(Message::Binary(message)).await;
        sent.map_err(io::Error::other)?;
        if count == 0 {
            return match ended.count() {
                true => Ok(()),
                // The other direction goes on.
                false => std::future::pending().await,
            };
        }
    }
}
