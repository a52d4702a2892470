//! The messages on a task's two sockets: with the agent, and with its logger.
//!
//! Frozen once released: the codec does not notice a changed struct. A change is a new kind.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::exit_report::{ExitReport, RuntimeFailure, TaskPhase};
use crate::frame::{self, InitFrame, InitFrameError};

macro_rules! direction {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident($body:ty) = $kind:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$vdoc])* $variant($body),)*
        }

        impl $name {
            /// The message as one frame.
            pub fn encode(&self) -> Result<Vec<u8>, InitFrameError> {
                match self {
                    $(Self::$variant(body) => {
                        let bytes = postcard::to_stdvec(body)
                            .map_err(|source| InitFrameError::Body { kind: $kind, source })?;
                        frame::encode($kind, &bytes)
                    })*
                }
            }

            /// The message in a frame; `None` for a kind that is not known here.
            pub fn decode(frame: &InitFrame) -> Result<Option<Self>, InitFrameError> {
                match frame.kind {
                    $($kind => postcard::from_bytes(&frame.body)
                        .map(|body| Some(Self::$variant(body)))
                        .map_err(|source| InitFrameError::Body { kind: $kind, source }),)*
                    _ => Ok(None),
                }
            }
        }
    };
}

direction! {
    /// From muster-init to the agent.
    ToAgent {
        /// First on every connection.
        Hello(InitHello) = 1,
        /// The commands can be run; waits for Go.
        Ready(Ready) = 2,
        /// The commands cannot be run. An exit follows.
        SetupFailed(RuntimeFailure) = 3,
        /// It came one step further.
        Progress(ProgressMessage) = 4,
        /// Every process is gone and every byte of output is with the logger.
        Exit(ExitReport) = 5,
        /// The commands failed, and the container is kept. Said once more after each hello. An exit follows.
        Held(HeldMessage) = 6,
    }
}

direction! {
    /// From the agent to muster-init.
    ToInit {
        /// What to run. Ignored once there is a setup.
        Setup(TaskSetup) = 16,
        /// Run it. Ignored when it runs already.
        Go(Go) = 17,
        /// End it. A repeated stop may shorten the grace, never lengthen it.
        Stop(StopMessage) = 18,
        /// It may run until then. Ignored once the lease before is over.
        Lease(LeaseMessage) = 19,
        /// Keep the container for this time if the commands fail. Sent before the setup.
        Hold(HoldMessage) = 20,
    }
}

direction! {
    /// From muster-init to its logger.
    ToLogger {
        /// Whole lines for the runtime log.
        RuntimeLog(RuntimeLog) = 32,
        /// Write everything that was output until now, then answer.
        Flush(Flush) = 33,
        /// Keep the exit on disk, then answer.
        StoreExit(ExitReport) = 34,
    }
}

direction! {
    /// From the logger to muster-init.
    FromLogger {
        /// The output until the Flush is in the files.
        Flushed(Flushed) = 48,
        /// The exit is on disk, or cannot be stored.
        ExitStored(ExitStored) = 49,
    }
}

/// Who speaks, and how far its task is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitHello {
    /// [`frame::PROTOCOL`] of the speaker.
    pub protocol: u16,
    /// How far its task is.
    pub phase: TaskPhase,
    /// When the first command began, milliseconds since the epoch; 0 if none did.
    pub launched_ms: u64,
}

/// See [`ToAgent::Ready`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The shell that will run the commands.
    pub shell: String,
}

/// See [`ToAgent::Progress`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressMessage {
    /// The phase that began.
    pub phase: TaskPhase,
    /// When, milliseconds since the epoch.
    pub at_ms: u64,
}

/// What to run. Holds secrets in clear: it travels over the task's own socket only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSetup {
    /// Environment of every command, over the container's own.
    pub environment: BTreeMap<String, String>,
    /// Scripts to run before the user's, each in a shell of its own.
    pub pre_commands: Vec<String>,
    /// The user's commands.
    pub script: String,
    /// Scripts to run after a success, each in a shell of its own.
    pub post_commands: Vec<String>,
    /// Where to run; the image's working directory if absent.
    pub workdir: Option<String>,
    /// Time from SIGTERM to SIGKILL when nobody named one, in milliseconds.
    pub grace_ms: u64,
    /// The run lease that it holds by, if it does.
    pub lease: Option<LeaseMessage>,
}

impl fmt::Debug for TaskSetup {
    /// Leaves out everything that may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("variables", &self.environment.len())
            .field("pre_commands", &self.pre_commands.len())
            .field("script_bytes", &self.script.len())
            .field("post_commands", &self.post_commands.len())
            .field("workdir", &self.workdir)
            .field("grace_ms", &self.grace_ms)
            .field("lease", &self.lease)
            .finish()
    }
}

/// See [`ToInit::Go`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Go {}

/// See [`ToInit::Stop`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopMessage {
    /// Time from SIGTERM to SIGKILL, in milliseconds.
    pub grace_ms: u64,
}

/// See [`ToInit::Hold`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldMessage {
    /// Milliseconds from the end of the commands.
    pub hold_ms: u64,
}

/// See [`ToAgent::Held`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldMessage {
    /// How the commands ended: what the exit will be.
    pub report: ExitReport,
    /// Until then at most, milliseconds since the epoch.
    pub until_ms: u64,
}

/// See [`ToInit::Lease`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseMessage {
    /// When every process must be gone: milliseconds of this machine's clock since boot.
    pub ends_ms: u64,
    /// The task is told to end so long before, in milliseconds.
    pub grace_ms: u64,
}

/// See [`ToLogger::RuntimeLog`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeLog {
    /// Lines with their ends.
    pub lines: Vec<u8>,
}

/// See [`ToLogger::Flush`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flush {}

/// See [`FromLogger::Flushed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flushed {
    /// Bytes of output that could not be written, over the task's life.
    pub dropped_bytes: u64,
}

/// See [`FromLogger::ExitStored`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitStored {
    /// Why it could not be stored; empty if it was.
    pub problem: String,
}

#[cfg(test)]
mod tests;
