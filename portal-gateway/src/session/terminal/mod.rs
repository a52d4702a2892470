//! A command's session whose terminal is on a page of the portal.
//!
//! The terminal itself is kept here (`screen`): the page is sent what has changed of it, at most
//! thirty times a second, and sends keys. Output is taken at a bounded rate, whatever the page does, so that a program
//! that writes without end neither fills memory nor keeps a key from reaching it. A page that is slow is shown less
//! often: it says which messages it has shown, and has no more than two before it.

mod control;
mod input;
mod row;
mod screen;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use futures::{SinkExt as _, StreamExt as _};
use muster_model::session::{
    FRAME_BYTES_MAX, FRAME_HEAD_BYTES, SessionChannel, SessionEnd, TerminalSize, frame_head,
    read_frame_head,
};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;

use self::input::{InputModes, TerminalInput};
use self::screen::WebScreen;
use super::command::NODE_GONE;
use super::{ClientInput, ClientMessages, ClientSink};
use crate::port::SessionIo;
use crate::websocket::ClientSocket;

/// How much later than the one before an update is sent.
const UPDATE_EVERY: Duration = Duration::from_millis(33);
/// Bytes of output that are taken in that time.
const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Messages that a page has not shown yet, at most.
const UNSEEN_MAX: u64 = 2;
/// Bytes of one piece of input.
const PIECE_BYTES: usize = 4 << 10;
/// Pieces of input that wait for a program to read them.
const PIECES_MAX: usize = 256;
/// How long a program may leave that much unread before what comes is left out.
const INPUT_PATIENCE: Duration = Duration::from_secs(10);

/// Passes everything on until the command has ended, or the page has gone. `opened`: the session, or why there is none.
pub(crate) async fn pass_on(
    socket: ClientSocket,
    opened: Result<Box<dyn SessionIo>, String>,
    size: TerminalSize,
) {
    let (mut sink, stream) = socket.split();
    let end = match opened {
        Err(why) => why,
        Ok(session) => {
            let messages = ClientMessages::new(stream);
            match shown_to_its_end(&mut sink, messages, (session, size)).await {
                Some(end) => end,
                None => return,
            }
        }
    };
    // A page that is gone does not hear it.
    let _ = send(&mut sink, json!({"end": end}).to_string()).await;
    let _ = sink.close().await;
}

/// How the command has ended, in a sentence; none if the page has gone.
async fn shown_to_its_end(
    sink: &mut ClientSink,
    messages: ClientMessages,
    (session, size): (Box<dyn SessionIo>, TerminalSize),
) -> Option<String> {
    let (reader, writer) = tokio::io::split(session);
    let (queue, queued) = mpsc::channel(PIECES_MAX);
    let state = SharedTerminal {
        screen: Mutex::new(WebScreen::new(size)),
        sent: AtomicU64::new(0),
        seen: AtomicU64::new(0),
        is_asked: AtomicBool::new(false),
        lost_bytes: AtomicU64::new(0),
        woken: Notify::new(),
        queue,
    };
    let mut output = SessionOutput {
        reader,
        bytes: BytesMut::new(),
    };
    tokio::select! {
        end = show(&mut output, sink, &state) => end,
        () = take_input(messages, &state) => None,
        () = write(queued, writer) => None,
    }
}

/// What both directions of a session share.
struct SharedTerminal {
    screen: Mutex<WebScreen>,
    /// Messages to the page, and those that it has shown.
    sent: AtomicU64,
    seen: AtomicU64,
    /// Whether the page is to be asked whether it is there.
    is_asked: AtomicBool,
    /// Bytes of input that were left out and not told of yet.
    lost_bytes: AtomicU64,
    /// Rings when something of this has changed.
    woken: Notify,
    /// Frames for the session.
    queue: mpsc::Sender<Vec<u8>>,
}

impl SharedTerminal {
    fn screen(&self) -> std::sync::MutexGuard<'_, WebScreen> {
        // A terminal that has panicked is shown as it is.
        self.screen
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether there is something to send, and the page has shown enough to be sent it.
    fn may_send(&self) -> bool {
        let unseen = self.sent.load(Ordering::Relaxed);
        let unseen = unseen.saturating_sub(self.seen.load(Ordering::Relaxed));
        self.is_asked.load(Ordering::Relaxed) || unseen < UNSEEN_MAX && self.has_news()
    }

    fn has_news(&self) -> bool {
        self.lost_bytes.load(Ordering::Relaxed) > 0 || self.screen().has_news()
    }

    /// The next message for the page.
    fn message(&self) -> String {
        self.is_asked.store(false, Ordering::Relaxed);
        self.sent.fetch_add(1, Ordering::Relaxed);
        let update = self.screen().update();
        let mut message = json!(update);
        let lost = self.lost_bytes.swap(0, Ordering::Relaxed);
        if lost > 0 {
            message["note"] = json!(format!(
                "The program does not read what is typed. {lost} bytes were left out."
            ));
        }
        message.to_string()
    }

    fn modes(&self) -> InputModes {
        let screen = self.screen();
        InputModes {
            application_keys: screen.has_application_keys(),
            bracketed_paste: screen.is_paste_bracketed(),
        }
    }
}

async fn send(sink: &mut ClientSink, text: String) -> Result<(), ()> {
    sink.send(Message::Text(text.into())).await.map_err(|_| ())
}

/// Shows what the command writes, until it has ended: returns how. None if the page has gone.
async fn show<R: AsyncRead + Unpin>(
    output: &mut SessionOutput<R>,
    sink: &mut ClientSink,
    state: &SharedTerminal,
) -> Option<String> {
    let mut left = OUTPUT_BYTES_MAX;
    let mut next = Instant::now();
    loop {
        let may_send = state.may_send();
        tokio::select! {
            read = output.read(), if left > 0 => {
                left = left.saturating_sub(read.unwrap_or(0));
                let end = match read {
                    Some(_) => output.show_on(state),
                    None => Some(lost()),
                };
                if let Some(end) = end {
                    // What came last is seen before the end is told.
                    send(sink, state.message()).await.ok()?;
                    return Some(end);
                }
            }
            () = sleep_until(next), if may_send || left == 0 => {
                left = OUTPUT_BYTES_MAX;
                next = Instant::now() + UPDATE_EVERY;
                if may_send {
                    send(sink, state.message()).await.ok()?;
                }
            }
            () = state.woken.notified() => {}
        }
    }
}

/// The frames of a session.
struct SessionOutput<R> {
    reader: R,
    /// What has come, and is no whole frame yet.
    bytes: BytesMut,
}

impl<R: AsyncRead + Unpin> SessionOutput<R> {
    /// Reads on. How many bytes have come; none at the end. What has come stays if this is dropped.
    async fn read(&mut self) -> Option<usize> {
        self.bytes.reserve(FRAME_BYTES_MAX);
        let read = self.reader.read_buf(&mut self.bytes).await;
        read.ok().filter(|count| *count > 0)
    }

    /// Writes all frames that are whole on the screen. Returns how the command has ended, if it has.
    fn show_on(&mut self, state: &SharedTerminal) -> Option<String> {
        while let Some(head) = self.bytes.first_chunk::<FRAME_HEAD_BYTES>() {
            let Some((channel, length)) = read_frame_head(*head) else {
                return Some(lost());
            };
            if self.bytes.len() < FRAME_HEAD_BYTES + length {
                return None;
            }
            self.bytes.advance(FRAME_HEAD_BYTES);
            let payload = self.bytes.split_to(length);
            match channel {
                SessionChannel::Stdout | SessionChannel::Stderr => {
                    let answer = state.screen().write(&payload);
                    if !answer.is_empty() {
                        // A program that does not read its input hears no answer either.
                        let _ = state.queue.try_send(framed(SessionChannel::Stdin, &answer));
                    }
                }
                SessionChannel::Status => return Some(end(&payload)),
                SessionChannel::Stdin | SessionChannel::Resize | SessionChannel::Close => {}
            }
        }
        None
    }
}

fn end(status: &[u8]) -> String {
    match SessionEnd::of_json(status) {
        Some(SessionEnd::Exited(code)) => format!("The shell has ended with exit code {code}."),
        Some(SessionEnd::Failed(why)) => format!("The shell was cut off: {why}."),
        None => lost(),
    }
}

fn lost() -> String {
    format!("The shell is lost: {NODE_GONE}.")
}

fn framed(channel: SessionChannel, payload: &[u8]) -> Vec<u8> {
    [&frame_head(channel, payload.len())[..], payload].concat()
}

/// Takes what the page sends, until it has gone.
async fn take_input(mut messages: ClientMessages, state: &SharedTerminal) {
    loop {
        match messages.next().await {
            ClientInput::Gone => return,
            ClientInput::Silence => state.is_asked.store(true, Ordering::Relaxed),
            ClientInput::Message(Message::Text(text)) => {
                // What is no message of the script is none of ours.
                let Ok(input) = serde_json::from_str::<TerminalInput>(&text) else {
                    continue;
                };
                obey(&input, state).await;
            }
            ClientInput::Message(_) => continue,
        }
        state.woken.notify_one();
    }
}

async fn obey(input: &TerminalInput, state: &SharedTerminal) {
    if *input == TerminalInput::Seen {
        state.seen.fetch_add(1, Ordering::Relaxed);
    }
    if let Some(size) = input.size() {
        let size = state.screen().resize(size);
        let payload = json!(size).to_string();
        queue(state, framed(SessionChannel::Resize, payload.as_bytes())).await;
    }
    let bytes = input.bytes(state.modes());
    let mut left = bytes.len();
    for piece in bytes.chunks(PIECE_BYTES) {
        if !queue(state, framed(SessionChannel::Stdin, piece)).await {
            state.lost_bytes.fetch_add(left as u64, Ordering::Relaxed);
            return;
        }
        left -= piece.len();
    }
}

/// Has a frame written in its turn. Whether there was room for it.
async fn queue(state: &SharedTerminal, frame: Vec<u8>) -> bool {
    matches!(
        timeout(INPUT_PATIENCE, state.queue.send(frame)).await,
        Ok(Ok(()))
    )
}

/// Writes what is queued.
async fn write<W: AsyncWrite + Unpin>(mut queued: mpsc::Receiver<Vec<u8>>, mut writer: W) {
    while let Some(frame) = queued.recv().await {
        let written = async {
            writer.write_all(&frame).await?;
            writer.flush().await
        };
        if written.await.is_err() {
            break;
        }
    }
    // The node is gone, which what it writes ends with.
    std::future::pending::<()>().await;
}
