//! A command in a task, from its first byte to its end.

use std::convert::Infallible;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use muster_model::session::{FRAME_BYTES_MAX, SessionChannel, SessionEnd, TerminalSize};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::raw_terminal::size;
use crate::client::{AgentSocket, broken};
use crate::error::CliError;

type AgentSink = SplitSink<AgentSocket, Message>;

/// What a command reads here, and where what it writes goes.
pub(crate) struct CommandStreams<I, W> {
    /// Its input, if it has one.
    pub(crate) stdin: Option<I>,
    /// Takes its output, and its errors if the second argument says so.
    pub(crate) write: W,
    /// Whether the size of its terminal follows this process's.
    pub(crate) has_terminal: bool,
}

/// Passes everything on until the command has ended, and tells how. `what` names it in errors.
pub(crate) async fn attend<I, W>(
    what: &str,
    socket: AgentSocket,
    streams: CommandStreams<I, W>,
) -> Result<SessionEnd, CliError>
where
    I: AsyncRead + Unpin,
    W: FnMut(Bytes, bool) -> Result<(), CliError>,
{
    let (sink, stream) = socket.split();
    let typed = typed(sink, streams.stdin, streams.has_terminal);
    tokio::select! {
        biased;
        end = written(what, stream, streams.write) => end,
        // What is typed ends with the connection, whose end the other side tells.
        never = typed => match never {},
    }
}

/// Sends what is typed, and its end.
async fn typed<I: AsyncRead + Unpin>(
    mut sink: AgentSink,
    mut stdin: Option<I>,
    has_terminal: bool,
) -> Infallible {
    let mut bytes = vec![0; FRAME_BYTES_MAX - 1];
    let mut resized = has_terminal
        .then(|| signal(SignalKind::window_change()).ok())
        .flatten();
    loop {
        let message = tokio::select! {
            read = read(&mut stdin, &mut bytes) => match read {
                0 => {
                    stdin = None;
                    message(SessionChannel::Close, &[SessionChannel::Stdin.number()])
                }
                count => message(SessionChannel::Stdin, &bytes[..count]),
            },
            size = next_size(&mut resized) => {
                let text = serde_json::to_vec(&size).unwrap_or_default();
                message(SessionChannel::Resize, &text)
            }
        };
        if sink.send(message).await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Bytes of the input; 0 at its end. Waits for ever where there is none.
async fn read<I: AsyncRead + Unpin>(stdin: &mut Option<I>, bytes: &mut [u8]) -> usize {
    match stdin {
        Some(stdin) => stdin.read(bytes).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// The size of the terminal once it has changed.
async fn next_size(resized: &mut Option<Signal>) -> TerminalSize {
    loop {
        let changed = match resized {
            Some(signal) => signal.recv().await,
            None => None,
        };
        if changed.is_none() {
            return std::future::pending().await;
        }
        if let Some(size) = size() {
            return size;
        }
    }
}

fn message(channel: SessionChannel, payload: &[u8]) -> Message {
    let mut bytes = BytesMut::with_capacity(1 + payload.len());
    bytes.put_u8(channel.number());
    bytes.put(payload);
    Message::Binary(bytes.freeze())
}

/// Hands out what the command writes, until its end was told.
async fn written<W>(
    what: &str,
    mut stream: SplitStream<AgentSocket>,
    mut write: W,
) -> Result<SessionEnd, CliError>
where
    W: FnMut(Bytes, bool) -> Result<(), CliError>,
{
    loop {
        let mut bytes = match stream.next().await {
            Some(Ok(Message::Binary(bytes))) => bytes,
            Some(Ok(Message::Close(_))) | None => {
                return Err(broken(what, Error::ConnectionClosed));
            }
            Some(Ok(_)) => continue,
            Some(Err(error)) => return Err(broken(what, error)),
        };
        if bytes.is_empty() {
            continue;
        }
        let channel = SessionChannel::of(bytes.split_to(1)[0]);
        match channel {
            Some(SessionChannel::Stdout) => write(bytes, false)?,
            Some(SessionChannel::Stderr) => write(bytes, true)?,
            Some(SessionChannel::Status) => {
                let garbled = || CliError::Garbled {
                    what: what.to_owned(),
                    source: "the end of the command".into(),
                };
                return SessionEnd::of_json(&bytes).ok_or_else(garbled);
            }
            _ => {}
        }
    }
}
