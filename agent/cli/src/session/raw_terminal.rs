//! The terminal of this process, while its keys belong to a task.

use std::io::{IsTerminal as _, stdin, stdout};
use std::os::fd::AsFd as _;

use muster_model::session::TerminalSize;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

use crate::error::CliError;

/// Has every key go to the task, also Ctrl-C, until this is dropped.
#[derive(Debug)]
pub(crate) struct RawTerminal(Termios);

impl RawTerminal {
    /// Takes the terminal; none where stdin is none.
    pub(crate) fn take() -> Result<Option<Self>, CliError> {
        let stdin = stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let failed = |error| CliError::Usage(format!("cannot change the terminal: {error}"));
        let before = tcgetattr(stdin.as_fd()).map_err(failed)?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(stdin.as_fd(), SetArg::TCSADRAIN, &raw).map_err(failed)?;
        Ok(Some(Self(before)))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(stdin().as_fd(), SetArg::TCSADRAIN, &self.0);
    }
}

/// The size of the terminal that output goes to; none where it goes to none.
pub(crate) fn size() -> Option<TerminalSize> {
    let (width, height) = terminal_size::terminal_size_of(stdout())?;
    Some(TerminalSize {
        width: width.0,
        height: height.0,
    })
}
