//! A session in a running task: what is asked for, and the frames of the stream that carries it.
//!
//! The channels and the form of an end are those of Kubernetes' `v5.channel.k8s.io`, which clients of `kubectl
//! exec` speak. There, a WebSocket message is a channel and bytes; between nodes, a frame has its length as well.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::id::{AttemptUid, JobKey, TaskId};

/// The WebSocket subprotocol.
pub const SUBPROTOCOL: &str = "v5.channel.k8s.io";
/// Bytes of one frame, at most.
pub const FRAME_BYTES_MAX: usize = 64 << 10;
/// Bytes of a command with its arguments, at most.
pub const COMMAND_BYTES_MAX: usize = 128 << 10;
/// Bytes before the payload of a frame: channel and length.
pub const FRAME_HEAD_BYTES: usize = 5;
/// The program that a terminal is taken for where the client does not say.
pub const TERM_DEFAULT: &str = "xterm-256color";
/// Bytes of the name of a terminal, at most.
const TERM_BYTES_MAX: usize = 64;

/// What a session is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionWish {
    /// A command in the task's container. The stream carries frames.
    Exec(ExecWish),
    /// A connection to a TCP port on which a process of the task listens. The stream carries its bytes.
    Port(u16),
}

impl fmt::Display for SessionWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec(wish) if wish.command.is_empty() => f.write_str("a shell"),
            Self::Exec(wish) => {
                let text = wish.command.join(" ");
                match text.char_indices().nth(COMMAND_CHARS_SHOWN) {
                    Some((end, _)) => write!(f, "{:?} …", &text[..end]),
                    None => write!(f, "{text:?}"),
                }
            }
            Self::Port(port) => write!(f, "port {port}"),
        }
    }
}

/// Characters of a command that logs show.
const COMMAND_CHARS_SHOWN: usize = 200;

/// A command in a task's container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecWish {
    /// The program and its arguments. Empty for a shell of the image.
    pub command: Vec<String>,
    /// Whether it has an input; otherwise it reads nothing.
    pub stdin: bool,
    /// Its terminal, if it has one: then its errors go where its output goes.
    pub terminal: Option<TerminalWish>,
}

impl ExecWish {
    /// Why it cannot be carried out, whatever the task is; None if it can.
    pub fn problem(&self) -> Option<String> {
        if self.command.first().is_some_and(String::is_empty) {
            return Some("command: the name of the program is empty".to_owned());
        }
        if self.command.iter().any(|text| text.contains('\0')) {
            return Some("command: an argument may not hold the character NUL".to_owned());
        }
        let bytes: usize = self.command.iter().map(|text| text.len() + 1).sum();
        if bytes > COMMAND_BYTES_MAX {
            return Some(format!(
                "command: it is {bytes} bytes long; {COMMAND_BYTES_MAX} are the most. Send what is longer by stdin."
            ));
        }
        let term = self.terminal.as_ref().map(|terminal| &*terminal.term)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
        if term.is_empty() || term.len() > TERM_BYTES_MAX || !term.bytes().all(is_plain) {
            return Some(format!(
                "term: {term:?} is no name of a terminal, such as {TERM_DEFAULT}"
            ));
        }
        None
    }
}

/// A terminal that a command has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalWish {
    /// What it is, for `TERM`.
    pub term: String,
    /// Its first size.
    pub size: TerminalSize,
}

/// The size of a terminal, in characters. Kubernetes' clients write the names in capitals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Lines.
    pub height: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self {
            width: 80,
            height: 24,
        }
    }
}

/// What a node is asked that runs a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRequest {
    /// The job.
    pub job: JobKey,
    /// The task.
    pub task: TaskId,
    /// The attempt that runs.
    pub uid: AttemptUid,
    /// What is wanted.
    pub wish: SessionWish,
    /// The user who asks, and from where, for the node's log.
    pub user: String,
    /// The address that the user came from.
    pub address: String,
}

/// What the node answers before anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionAnswer {
    /// The session has begun.
    Open,
    /// What was asked for is wrong: the reason names the field and the remedy.
    Invalid(String),
    /// As the task stands, there can be no session.
    NotNow(String),
    /// The node cannot do it now. The same may work later.
    Unavailable(String),
}

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChannel {
    /// Bytes for the command's input.
    Stdin,
    /// Bytes of its output.
    Stdout,
    /// Bytes of its errors.
    Stderr,
    /// How it ended: the last frame. JSON, see [`SessionEnd`].
    Status,
    /// The new size of its terminal: JSON, see [`TerminalSize`].
    Resize,
    /// The end of the channel that the one byte of payload names: of the input.
    Close,
}

impl SessionChannel {
    /// Its number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Stdin => 0,
            Self::Stdout => 1,
            Self::Stderr => 2,
            Self::Status => 3,
            Self::Resize => 4,
            Self::Close => 255,
        }
    }

    /// The channel of a number; None if there is no such channel.
    pub const fn of(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Stdin),
            1 => Some(Self::Stdout),
            2 => Some(Self::Stderr),
            3 => Some(Self::Status),
            4 => Some(Self::Resize),
            255 => Some(Self::Close),
            _ => None,
        }
    }
}

/// The head of a frame between nodes: what it is about, and how many bytes follow.
pub fn frame_head(channel: SessionChannel, payload_bytes: usize) -> [u8; FRAME_HEAD_BYTES] {
    // A payload is bounded by FRAME_BYTES_MAX.
    let [a, b, c, d] = u32::try_from(payload_bytes)
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    [channel.number(), a, b, c, d]
}

/// Reads the head of a frame. None if it is none: an unknown channel, or a payload that is too long.
pub fn read_frame_head(head: [u8; FRAME_HEAD_BYTES]) -> Option<(SessionChannel, usize)> {
    let [channel, a, b, c, d] = head;
    let bytes = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
    let channel = SessionChannel::of(channel)?;
    (bytes <= FRAME_BYTES_MAX).then_some((channel, bytes))
}

/// How a command of a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// By itself, with this exit status; 128+N for signal N.
    Exited(u32),
    /// It was cut off: the reason.
    Failed(String),
}

/// Kubernetes' word for an end with a status other than 0.
const NON_ZERO: &str = "NonZeroExitCode";
/// What the status is called there.
const EXIT_CODE: &str = "ExitCode";

impl SessionEnd {
    /// The end as Kubernetes' `Status` object.
    pub fn to_json(&self) -> String {
        let status = match self {
            Self::Exited(0) => json!({"metadata": {}, "status": "Success"}),
            Self::Exited(code) => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("command terminated with non-zero exit code: exit status {code}"),
                "reason": NON_ZERO,
                "details": {"causes": [{"reason": EXIT_CODE, "message": code.to_string()}]},
            }),
            Self::Failed(why) => json!({
                "metadata": {},
                "status": "Failure",
                "message": why,
                "reason": "InternalError",
            }),
        };
        status.to_string()
    }

    /// Reads such an object; None if it is none.
    pub fn of_json(text: &[u8]) -> Option<Self> {
        let status: Value = serde_json::from_slice(text).ok()?;
        if status["status"] == "Success" {
            return Some(Self::Exited(0));
        }
        let causes = status["details"]["causes"].as_array();
        let code = causes.into_iter().flatten().find_map(|cause| {
            let is_code = cause["reason"] == EXIT_CODE;
            is_code.then(|| cause["message"].as_str()?.parse().ok())?
        });
        match code {
            Some(code) => Some(Self::Exited(code)),
            None => Some(Self::Failed(status["message"].as_str()?.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_as_they_were_written() {
        for end in [
            SessionEnd::Exited(0),
            SessionEnd::Exited(137),
            SessionEnd::Failed("the node stops".to_owned()),
        ] {
            assert_eq!(SessionEnd::of_json(end.to_json().as_bytes()), Some(end));
        }
        assert_eq!(SessionEnd::of_json(b"{}"), None);
        assert_eq!(SessionEnd::of_json(b"no JSON"), None);
    }

    /// As client-go reads it: `status`, and the cause `ExitCode` of a `NonZeroExitCode`.
    #[test]
    fn an_end_is_what_clients_of_kubernetes_read() {
        let status: Value = serde_json::from_str(&SessionEnd::Exited(3).to_json()).unwrap();
        assert_eq!(status["status"], "Failure");
        assert_eq!(status["reason"], "NonZeroExitCode");
        assert_eq!(
            status["details"]["causes"],
            json!([{"reason": "ExitCode", "message": "3"}])
        );
    }

    #[test]
    fn heads_of_frames_are_bounded() {
        for number in 0..=255 {
            let Some(channel) = SessionChannel::of(number) else {
                assert_eq!(read_frame_head([number, 0, 0, 0, 1]), None);
                continue;
            };
            assert_eq!(channel.number(), number);
            let head = frame_head(channel, FRAME_BYTES_MAX);
            assert_eq!(read_frame_head(head), Some((channel, FRAME_BYTES_MAX)));
            let head = frame_head(channel, FRAME_BYTES_MAX + 1);
            assert_eq!(read_frame_head(head), None);
        }
    }

    #[test]
    fn what_cannot_be_run_is_told_with_its_field() {
        let wish = |command: &[&str], term: Option<&str>| ExecWish {
            command: command.iter().map(|&text| text.to_owned()).collect(),
            stdin: false,
            terminal: term.map(|term| TerminalWish {
                term: term.to_owned(),
                size: TerminalSize::default(),
            }),
        };
        let long = "x".repeat(COMMAND_BYTES_MAX);
        for (wish, problem) in [
            (wish(&["", "a"], None), "command: the name"),
            (wish(&["a", "b\0"], None), "NUL"),
            (wish(&["a", &long], None), "are the most"),
            (wish(&["a"], Some("")), "term:"),
            (wish(&["a"], Some("xterm; rm")), "term:"),
        ] {
            let told = wish.problem().unwrap();
            assert!(told.contains(problem), "{told}");
        }
        for wish in [wish(&[], None), wish(&["a", ""], Some("xterm-256color"))] {
            assert_eq!(wish.problem(), None);
        }
    }

    #[test]
    fn logs_show_the_begin_of_a_command() {
        let wish = |text: &str| {
            SessionWish::Exec(ExecWish {
                command: vec!["echo".to_owned(), text.to_owned()],
                ..ExecWish::default()
            })
        };
        assert_eq!(wish("a\nb").to_string(), "\"echo a\\nb\"");
        let long = wish(&"ü".repeat(300)).to_string();
        assert!(long.ends_with("ü\" …"), "{long}");
        assert_eq!(SessionWish::Port(8888).to_string(), "port 8888");
    }
}
