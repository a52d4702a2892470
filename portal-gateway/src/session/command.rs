//! A command's session: a message is a channel and bytes, as in Kubernetes' `v5.channel.k8s.io`.

use std::io;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{SinkExt as _, StreamExt as _};
use muster_model::session::{
    FRAME_BYTES_MAX, FRAME_HEAD_BYTES, SessionChannel, SessionEnd, frame_head, read_frame_head,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio_tungstenite::tungstenite::Message;

use super::{ClientInput, ClientMessages, ClientSink, ping};
use crate::port::SessionIo;
use crate::websocket::ClientSocket;

/// Said where the node is gone that ran the command.
pub(super) const NODE_GONE: &str =
    "the connection to the task's node broke; whether the command goes on there is not known";

/// Passes everything on until the command has ended, or the client has gone.
pub(crate) async fn pass_on(socket: ClientSocket, session: Box<dyn SessionIo>) {
    let (sink, stream) = socket.split();
    let sink = Mutex::new(sink);
    let (mut reader, mut writer) = tokio::io::split(session);
    let typed = typed(ClientMessages::new(stream), &mut writer, &sink);
    let written = written(&mut reader, &sink);
    tokio::select! {
        () = written => {}
        () = typed => return,
    }
    // A client that is gone does not hear it.
    let _ = sink.lock().await.close().await;
}

/// What a client types, until it has gone.
async fn typed<W: AsyncWrite + Unpin>(
    mut messages: ClientMessages,
    writer: &mut W,
    sink: &Mutex<ClientSink>,
) {
    loop {
        let sent = match messages.next().await {
            ClientInput::Gone => return,
            ClientInput::Silence => ping(sink).await.map_err(io::Error::other),
            ClientInput::Message(Message::Binary(bytes)) => forward(&bytes, writer).await,
            // Answers to pings, and what is no message of this protocol.
            ClientInput::Message(_) => Ok(()),
        };
        if sent.is_err() {
            // The node is gone, which what it writes ends with.
            std::future::pending::<()>().await;
        }
    }
}

async fn forward<W: AsyncWrite + Unpin>(message: &Bytes, writer: &mut W) -> io::Result<()> {
    let Some((number, payload)) = message.split_first() else {
        return Ok(());
    };
    let Some(channel) = SessionChannel::of(*number) else {
        return Ok(());
    };
    if payload.is_empty() {
        return Ok(());
    }
    for part in payload.chunks(FRAME_BYTES_MAX) {
        writer.write_all(&frame_head(channel, part.len())).await?;
        writer.write_all(part).await?;
    }
    writer.flush().await
}

/// What the command writes, until its end was told.
async fn written<R: AsyncRead + Unpin>(reader: &mut R, sink: &Mutex<ClientSink>) {
    loop {
        let (is_end, message) = match frame(reader).await {
            Ok((SessionChannel::Status, message)) => (true, message),
            Ok((_, message)) => (false, message),
            Err(_) => (true, broken()),
        };
        let sent = sink.lock().await.send(Message::Binary(message)).await;
        if is_end || sent.is_err() {
            return;
        }
    }
}

/// The next frame as a message.
async fn frame<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<(SessionChannel, Bytes)> {
    let mut head = [0; FRAME_HEAD_BYTES];
    reader.read_exact(&mut head).await?;
    let (channel, length) = read_frame_head(head).ok_or_else(|| io::Error::other("no frame"))?;
    let mut message = BytesMut::zeroed(1 + length);
    message[0] = channel.number();
    reader.read_exact(&mut message[1..]).await?;
    Ok((channel, message.freeze()))
}

fn broken() -> Bytes {
    let mut message = BytesMut::new();
    message.put_u8(SessionChannel::Status.number());
    message.put(
        SessionEnd::Failed(NODE_GONE.to_owned())
            .to_json()
            .as_bytes(),
    );
    message.freeze()
}
