//! A socket that never blocks and carries frames, for single-threaded loops over `poll`.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::frame::{Decoder, InitFrame, InitFrameError};

/// Unsent bytes after which a sender is expected to hold back.
pub const BACKLOG_BYTES_HIGH: usize = 256 << 10;

const READ_BYTES: usize = 16 << 10;
/// Reads per call of `receive`, so that a fast sender cannot fill the memory.
const READS_MAX: usize = 64;

/// One end of a connected socket.
#[derive(Debug)]
pub struct FramedSocket {
    stream: UnixStream,
    decoder: Decoder,
    unsent: Vec<u8>,
}

impl FramedSocket {
    /// Takes a connected stream.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            decoder: Decoder::default(),
            unsent: Vec::new(),
        })
    }

    /// Connects to the socket `name` in the open directory `dir`.
    pub fn connect(dir: BorrowedFd<'_>, name: &str) -> io::Result<Self> {
        Self::new(UnixStream::connect(path_in(dir, name))?)
    }

    /// Sends as much as the socket takes now and keeps the rest.
    pub fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.unsent.extend_from_slice(frame);
        self.send_unsent()
    }

    /// Sends more of what was kept.
    pub fn send_unsent(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Bytes kept because the socket did not take them yet.
    pub fn backlog(&self) -> usize {
        self.unsent.len()
    }

    /// Receives what is there, at most 1 MiB at once. `false`: the other end closed, and all it
    /// sent was received.
    pub fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [0; READ_BYTES];
        for _ in 0..READS_MAX {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => self.decoder.push(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// The next whole frame that was received.
    pub fn next_frame(&mut self) -> Result<Option<InitFrame>, InitFrameError> {
        self.decoder.next_frame()
    }

    /// What to ask `poll` for.
    pub fn interest(&self) -> PollFlags {
        match self.unsent.is_empty() {
            true => PollFlags::POLLIN,
            false => PollFlags::POLLIN | PollFlags::POLLOUT,
        }
    }

    /// Sleeps until the socket has news or `deadline` has come. `false`: it has come.
    pub fn wait(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(self.stream.as_fd(), self.interest())];
        !left.is_zero() && !matches!(poll(&mut fds, timeout(left)), Ok(0))
    }
}

impl AsFd for FramedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A timeout for `poll` that never ends before `left` has passed.
pub fn timeout(left: Duration) -> PollTimeout {
    PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
}

/// Listens on the socket `name` in the open directory `dir`, which every user may connect to.
/// What was there by that name is replaced.
pub fn listen(dir: BorrowedFd<'_>, name: &str) -> io::Result<UnixListener> {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    let path = path_in(dir, name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o666))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A path that is short however deep `dir` lies: socket addresses end at 108 bytes.
fn path_in(dir: BorrowedFd<'_>, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
}
