//! A connection to a port of a task.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::client::{AgentSocket, broken};
use crate::error::CliError;

/// Bytes of one message.
const MESSAGE_BYTES: usize = 64 << 10;

/// Passes bytes on until both directions have ended. `what` names the connection in errors.
pub(crate) async fn pass_on<R, W>(
    what: &str,
    socket: AgentSocket,
    (mut reader, mut writer): (R, W),
) -> Result<(), CliError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (mut sink, mut stream) = socket.split();
    let there = async {
        let mut bytes = vec![0; MESSAGE_BYTES];
        loop {
            let count = reader.read(&mut bytes).await;
            let count = count.map_err(|error| broken(what, error))?;
            let message = Message::Binary(Bytes::copy_from_slice(&bytes[..count]));
            let sent = sink.send(message).await;
            sent.map_err(|error| broken(what, error))?;
            if count == 0 {
                return Ok::<_, CliError>(());
            }
        }
    };
    let back = async {
        let mut is_open = true;
        loop {
            match stream.next().await {
                Some(Ok(Message::Binary(bytes))) if bytes.is_empty() => {
                    is_open = false;
                    let ended = writer.shutdown().await;
                    ended.map_err(|error| broken(what, error))?;
                }
                Some(Ok(Message::Binary(bytes))) => {
                    let written = async {
                        writer.write_all(&bytes).await?;
                        writer.flush().await
                    };
                    written.await.map_err(|error| broken(what, error))?;
                }
                Some(Ok(Message::Close(_))) | None => {
                    return match is_open {
                        true => Err(broken(what, Error::ConnectionClosed)),
                        false => Ok(()),
                    };
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(broken(what, error)),
            }
        }
    };
    tokio::try_join!(there, back).map(drop)
}
