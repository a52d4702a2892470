//! Sessions of clients: WebSocket messages on one side, the stream of a session on the other.

mod command;
mod connection;
mod terminal;

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use tokio::time::{Instant, interval};
use tokio_tungstenite::tungstenite::{Error, Message};

pub(crate) use command::pass_on as pass_command;
pub(crate) use connection::pass_on as pass_connection;
pub(crate) use terminal::pass_on as pass_terminal;

use crate::websocket::ClientSocket;

/// How often a silent client is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How long a client may say nothing, not even that it is there.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The two halves of a client's socket.
type ClientSink = futures::stream::SplitSink<ClientSocket, Message>;
type ClientStream = futures::stream::SplitStream<ClientSocket>;

/// What a client sends next; None if it has gone. Asks it from time to time whether it is there.
struct ClientMessages {
    stream: ClientStream,
    heard: Instant,
    ping: tokio::time::Interval,
}

/// What came from a client.
enum ClientInput {
    Message(Message),
    /// It has been silent: it is to be asked whether it is there.
    Silence,
    Gone,
}

impl ClientMessages {
    fn new(stream: ClientStream) -> Self {
        Self {
            stream,
            heard: Instant::now(),
            ping: interval(PING_EVERY),
        }
    }

    async fn next(&mut self) -> ClientInput {
        tokio::select! {
            message = self.stream.next() => match message {
                None | Some(Err(_) | Ok(Message::Close(_))) => ClientInput::Gone,
                Some(Ok(message)) => {
                    self.heard = Instant::now();
                    ClientInput::Message(message)
                }
            },
            _ = self.ping.tick() => match self.heard.elapsed() > SILENCE_MAX {
                true => ClientInput::Gone,
                false => ClientInput::Silence,
            },
        }
    }
}

/// Asks a client whether it is there.
async fn ping(sink: &tokio::sync::Mutex<ClientSink>) -> Result<(), Error> {
    sink.lock()
        .await
        .send(Message::Ping(Vec::new().into()))
        .await
}
