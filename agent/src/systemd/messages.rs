//! Messages to the service manager, as sd_notify(3) has them.

use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};

/// A service manager that takes nothing for so long is told no more of it.
const SEND_LIMIT: Duration = Duration::from_secs(1);
/// How long it may take to carry out what it was told, in milliseconds.
const BARRIER_LIMIT_MS: u16 = 2000;

/// Where the service manager listens.
#[derive(Debug)]
pub(super) struct Channel {
    socket: UnixDatagram,
    address: UnixAddr,
}

impl Channel {
    /// The address is a path, or `@` and an abstract name.
    pub(super) fn open(address: &OsStr) -> io::Result<Self> {
        let address = match address.as_bytes() {
            [b'@', name @ ..] => UnixAddr::new_abstract(name)?,
            [b'/', ..] => UnixAddr::new(address)?,
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(SEND_LIMIT))?;
        Ok(Self { socket, address })
    }

    /// Tells it something; a failure is logged, for there is nobody else to tell.
    pub(super) fn send(&self, message: &str) {
        self.send_with(message, None);
    }

    /// Has it keep a socket for the agent's next start. It is not to close it for what arrives.
    pub(super) fn keep(&self, name: &str, socket: BorrowedFd<'_>) {
        self.send_with(&format!("FDSTORE=1\nFDPOLL=0\nFDNAME={name}"), Some(socket));
    }

    /// Has it close what it keeps under that name, and waits until it has.
    pub(super) fn forget(&self, name: &str) {
        self.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}"));
        if let Err(error) = self.barrier() {
            tracing::warn!(%error, "the service manager does not say that it closed a socket");
        }
    }

    /// Waits until all messages before are done with: then the other end of the pipe is closed.
    fn barrier(&self) -> io::Result<()> {
        let (ours, theirs) = io::pipe()?;
        self.send_with("BARRIER=1", Some(theirs.as_fd()));
        drop(theirs);
        let mut wait = [PollFd::new(ours.as_fd(), PollFlags::empty())];
        match poll(&mut wait, PollTimeout::from(BARRIER_LIMIT_MS))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }

    fn send_with(&self, message: &str, descriptor: Option<BorrowedFd<'_>>) {
        let descriptors = descriptor.map(|one| [one.as_raw_fd()]);
        let rights = descriptors
            .as_ref()
            .map(|all| ControlMessage::ScmRights(all));
        let sent = sendmsg(
            self.socket.as_raw_fd(),
            &[IoSlice::new(message.as_bytes())],
            rights.as_slice(),
            MsgFlags::MSG_NOSIGNAL,
            Some(&self.address),
        );
        if let Err(error) = sent {
            tracing::warn!(%error, message, "the service manager could not be told");
        }
    }
}
