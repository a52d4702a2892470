//! Terminals of sessions.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use russh::Pty;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, Termios, Winsize, tcgetattr, tcsetattr,
    tcsetwinsize,
};

/// What a client asks for.
#[derive(Debug)]
pub(crate) struct TerminalRequest {
    /// What programs are told as TERM.
    pub(crate) term: String,
    pub(crate) window: Winsize,
    pub(crate) modes: Vec<(Pty, u32)>,
}

/// A new terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// The side of the server, which does not block.
    pub(crate) master: OwnedFd,
    /// The side of the program.
    pub(crate) program: File,
    /// Where the program finds it.
    pub(crate) path: PathBuf,
}

/// Columns, rows, width and height in pixels.
pub(crate) fn window(sizes: [u32; 4]) -> Winsize {
    let [columns, rows, width, height] = sizes.map(|size| u16::try_from(size).unwrap_or(u16::MAX));
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: width,
        ws_ypixel: height,
    }
}

impl Terminal {
    /// Opens one.
    ///
    /// # Errors
    /// When the container has none.
    pub(crate) fn open(request: &TerminalRequest) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
        let no_control = OFlags::NOCTTY.bits().cast_signed();
        let program = File::options()
            .read(true)
            .write(true)
            .custom_flags(no_control)
            .open(&path)?;
        let mut attributes = tcgetattr(&program)?;
        set_modes(&mut attributes, &request.modes);
        tcsetattr(&program, OptionalActions::Now, &attributes)?;
        tcsetwinsize(&master, request.window)?;
        fcntl_setfl(&master, fcntl_getfl(&master)? | OFlags::NONBLOCK)?;
        Ok(Self {
            master,
            program,
            path,
        })
    }
}

/// The modes of the client's own terminal that concern programs (RFC 4254, section 8). Characters are left as Linux
/// has them.
fn set_modes(attributes: &mut Termios, modes: &[(Pty, u32)]) {
    for (mode, value) in modes {
        let on = *value != 0;
        match mode {
            Pty::ICRNL => attributes.input_modes.set(InputModes::ICRNL, on),
            Pty::INLCR => attributes.input_modes.set(InputModes::INLCR, on),
            Pty::IGNCR => attributes.input_modes.set(InputModes::IGNCR, on),
            Pty::IXON => attributes.input_modes.set(InputModes::IXON, on),
            Pty::IXANY => attributes.input_modes.set(InputModes::IXANY, on),
            Pty::IUTF8 => attributes.input_modes.set(InputModes::IUTF8, on),
            Pty::ISIG => attributes.local_modes.set(LocalModes::ISIG, on),
            Pty::ICANON => attributes.local_modes.set(LocalModes::ICANON, on),
            Pty::ECHO => attributes.local_modes.set(LocalModes::ECHO, on),
            Pty::ECHOE => attributes.local_modes.set(LocalModes::ECHOE, on),
            Pty::ECHOK => attributes.local_modes.set(LocalModes::ECHOK, on),
            Pty::ECHOCTL => attributes.local_modes.set(LocalModes::ECHOCTL, on),
            Pty::ECHOKE => attributes.local_modes.set(LocalModes::ECHOKE, on),
            Pty::IEXTEN => attributes.local_modes.set(LocalModes::IEXTEN, on),
            Pty::OPOST => attributes.output_modes.set(OutputModes::OPOST, on),
            Pty::ONLCR => attributes.output_modes.set(OutputModes::ONLCR, on),
            _ => {}
        }
    }
}
