//! Why a command was not carried out, and what its user may do next.

use std::borrow::Cow;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use http::StatusCode;
use muster_model::remark::Remark;
use muster_tls::Fingerprint;
use serde::Deserialize;

use super::console::printable;
use super::status::CliStatus;

/// Anything below the HTTP level; hyper's and io's errors come as this.
pub(super) type TransportCause = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// Arguments that clap cannot judge alone.
    #[error("{0}")]
    Usage(String),
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("no agent answers at {endpoint}")]
    Connect {
        endpoint: String,
        source: TransportCause,
    },
    /// Nothing was sent.
    #[error("the certificate of {host} is not taken: {why}; it is {seen}")]
    Certificate {
        host: String,
        seen: Fingerprint,
        why: String,
    },
    #[error("the agent at {endpoint} took the request but gave no answer in {seconds} s")]
    Silent { endpoint: String, seconds: u64 },
    /// The agent may have acted on the request.
    #[error("the connection to the agent broke off while {what}")]
    Broken {
        what: String,
        source: TransportCause,
    },
    #[error("{what}: {message}")]
    Refused {
        /// What was asked.
        what: String,
        status: StatusCode,
        /// OpenPAI's word for it: `NoJobError`. Empty where the answer had none.
        code: String,
        message: String,
        /// The newest version of a document, where another one was edited.
        newest: Option<u64>,
    },
    /// Somebody else edited a document first.
    #[error("{what}: {message}")]
    Outdated {
        what: String,
        message: String,
        /// The command that prints the newest version.
        show: String,
    },
    /// A long operation that ended badly after it was accepted.
    #[error("{what}: {message}")]
    Failed { what: String, message: String },
    #[error("{what}: the agent's answer is not understood")]
    Garbled {
        what: String,
        source: TransportCause,
    },
    #[error("cannot write the output")]
    Output(#[source] io::Error),
}

impl CliError {
    /// A file that was read, and cannot be used for all of this.
    pub(super) fn unusable(file: &Path, problems: &[impl Display]) -> Self {
        let (file, problems) = (file.display(), in_lines(problems));
        Self::Usage(format!("{file} cannot be used:\n{problems}"))
    }

    /// A result that cannot be written.
    pub(super) fn unwritable(error: impl Into<TransportCause>) -> Self {
        Self::Output(io::Error::other(error))
    }

    pub(super) fn status(&self) -> CliStatus {
        match self {
            Self::Usage(_) | Self::Read { .. } => CliStatus::Usage,
            Self::Connect { .. }
            | Self::Certificate { .. }
            | Self::Silent { .. }
            | Self::Broken { .. } => CliStatus::Unreachable,
            Self::Refused { .. }
            | Self::Outdated { .. }
            | Self::Failed { .. }
            | Self::Garbled { .. } => CliStatus::Refused,
            // A closed pipe (`muster job list | head`) is its reader's wish, not a fault.
            Self::Output(source) if source.kind() == io::ErrorKind::BrokenPipe => CliStatus::Ok,
            Self::Output(_) | Self::Write { .. } => CliStatus::Negative,
        }
    }

    /// Whether the same request may work in a moment: the agent restarts or is overloaded.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Silent { .. } | Self::Broken { .. } => true,
            Self::Refused { status, .. } => status.is_server_error(),
            _ => false,
        }
    }

    /// Whether the cluster to be joined had no time.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "JoinBusyError")
    }

    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == StatusCode::NOT_FOUND)
    }

    /// Whether the name is taken already.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == StatusCode::CONFLICT)
    }

    /// Whether somebody else changed it since it was read.
    pub(super) fn is_changed(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == StatusCode::PRECONDITION_FAILED)
    }

    /// Whether the token is not valid, or there is none.
    pub(super) fn is_no_login(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == StatusCode::UNAUTHORIZED)
    }

    /// Whether the user has not the right to do it.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { status, .. }
            if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(status))
    }

    /// Whether the agent is overloaded: nothing was changed, and the same request may work in a moment.
    pub(super) fn is_overload(&self) -> bool {
        matches!(self, Self::Refused { status, .. }
            if [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS].contains(status))
    }

    /// Whether the agent was asked too often.
    pub(super) fn is_too_often(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == StatusCode::TOO_MANY_REQUESTS)
    }

    /// Whether a log is shorter than where it was to be read from.
    pub(super) fn is_past_the_end(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == StatusCode::RANGE_NOT_SATISFIABLE)
    }

    /// What to do next, where something can be done.
    pub(super) fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Outdated { show, .. } => {
                let hint = format!("print the newest with `{show}`, and make your change there");
                Some(hint.into())
            }
            error => error.fixed_hint().map(Cow::Borrowed),
        }
    }

    fn fixed_hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect { source, .. } => Some(connect_hint(source.as_ref())),
            Self::Certificate { .. } => Some(
                "compare it with what `sudo muster node show` tells on that machine; if it is the \
                 same, give it as --fingerprint or MUSTER_FINGERPRINT, or its file as --cacert",
            ),
            Self::Silent { .. } => Some("see what it does: journalctl -u muster"),
            Self::Broken { .. } => Some("try again; if it stays so, see why: journalctl -u muster"),
            // The message says itself which command to use.
            Self::Refused { message, .. } if message.contains("`muster vc list`") => None,
            Self::Refused { message, .. } if message.contains("token is not found among") => {
                Some("`muster token list` shows every token")
            }
            Self::Refused { message, .. } if message.contains("correct password") => {
                Some("give the password until now; an admin can set another one without it")
            }
            Self::Refused { message, .. } if message.contains("take the admin right away") => {
                Some("take it away with `muster user set NAME --admin false`")
            }
            Self::Refused { status, code, .. } => refusal_hint(*status, code),
            Self::Garbled { .. } => {
                Some("compare `muster --version` here and where the agent runs")
            }
            _ => None,
        }
    }
}

fn connect_hint(source: &(dyn std::error::Error + 'static)) -> &'static str {
    match source.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::PermissionDenied) => {
            "the socket is root's: use sudo, or log in with `muster login URL`"
        }
        _ => {
            "start it with `systemctl start muster` or `muster agent`, or name its socket with \
             --socket; log in to an agent elsewhere with `muster login URL`"
        }
    }
}

fn refusal_hint(status: StatusCode, code: &str) -> Option<&'static str> {
    match (code, status.as_u16()) {
        ("InvalidProtocolError", _) => Some("check it with `muster job validate FILE`"),
        ("NoJobError", _) => Some("`muster job list` shows every job; write JOB as user~name"),
        ("ConflictJobError", _) => Some("a job's name is used once: choose another"),
        ("NoImageError", _) => Some("`muster image list` shows every image"),
        ("InvalidDocumentError", _) => Some("nothing was changed; correct it and apply it again"),
        ("NoDocumentError", _) => Some("`history` of the same command shows every version"),
        ("NoPartError", _) => Some("`muster node health` shows the parts of a machine"),
        ("NoMemberError", _) => Some("`muster cluster members` shows every member"),
        ("NoTokenError", _) => Some("`muster cluster token list` shows every token for joining"),
        ("NoUserError", _) => Some("`muster user list` shows every user"),
        ("ConflictUserError", _) => Some("change the user with `muster user set`"),
        ("NoGroupError", _) => Some("`muster group list` shows every group"),
        ("ConflictGroupError", _) => Some("change the group with `muster group set`"),
        ("NoVirtualClusterError", _) => Some("`muster vc list` shows every virtual cluster"),
        ("ReadOnlyStorageError", _) => {
            Some("`muster storage list` shows which storages may be written")
        }
        ("LoginExpiredError" | "LoginHandleError", _) => {
            Some("begin again with `muster login URL`, and use the new code in time")
        }
        ("LoginDeniedError", _) => Some(
            "begin again with `muster login URL`; if you did not refuse it yourself, ask who runs the \
             identity provider",
        ),
        ("IdentityProviderError", _) => {
            Some("begin again with `muster login URL`; if it stays so, ask an admin of the cluster")
        }
        ("PasswordLoginError", _) => Some("log in with `muster login URL --device`"),
        (_, 412) => Some("somebody else changed it meanwhile: look at it, and try again"),
        ("HttpsRequiredError", _) => Some(
            "give --url https://... and --fingerprint or --cacert; see `muster node show` there",
        ),
        ("JoinBusyError", _) => {
            Some("see there: muster cluster status; is TCP port 7740 open to this machine?")
        }
        (_, 401) => Some(
            "log in with `muster login URL`, or give a valid token with --token or MUSTER_TOKEN",
        ),
        (_, 403) => Some("use a token that has the right, or root's socket on the machine"),
        _ => None,
    }
}

/// An error with what is behind it.
pub(super) fn explained(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Problems of a file, each in a line.
pub(super) fn in_lines(problems: &[impl Display]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    printable(&lines.join("\n"))
}

/// Several errors, each in a line of its own.
pub(super) fn lines(errors: &[Remark]) -> String {
    errors.iter().map(|error| format!("\n  {error}")).collect()
}

/// The message of a refusal as people read it. A job's schema problems come as OpenPAI's JSON
/// list, which is made one line each.
pub(super) fn readable(message: &str) -> String {
    #[derive(Deserialize)]
    struct RemoteProblem {
        #[serde(rename = "dataPath", default)]
        path: String,
        message: String,
    }
    match serde_json::from_str::<Vec<RemoteProblem>>(message) {
        Ok(problems) => problems
            .iter()
            .map(|problem| format!("\n  {} {}", problem.path, problem.message))
            .collect(),
        Err(_) => message.to_owned(),
    }
}
