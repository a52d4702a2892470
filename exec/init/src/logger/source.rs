//! One of the container's output pipes and the file it goes to.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};

use super::rotating_file::RotatingFile;

/// What a pipe is asked to hold, so that a burst of output does not wait for the disk.
const PIPE_BYTES: i32 = 1 << 20;

/// A pipe, until it ends, and its file.
#[derive(Debug)]
pub(crate) struct OutputPipe {
    pipe: Option<File>,
    pub(crate) file: RotatingFile,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipeRead {
    Bytes(usize),
    Nothing,
    End,
}

impl OutputPipe {
    pub(crate) fn new(pipe: OwnedFd, file: RotatingFile) -> io::Result<Self> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        // The size is a hint: it fails on anything but a pipe, and over the user's limit.
        let _ = fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        Ok(Self {
            pipe: Some(pipe.into()),
            file,
        })
    }

    pub(crate) const fn has_ended(&self) -> bool {
        self.pipe.is_none()
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// One read that does not wait.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> PipeRead {
        loop {
            let Some(pipe) = &mut self.pipe else {
                return PipeRead::End;
            };
            match pipe.read(buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => return PipeRead::Bytes(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return PipeRead::Nothing,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.pipe = None,
            }
        }
    }
}

/// Takes over a descriptor that the parent left open for us. Errors if it did not.
pub(crate) fn take_inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the number is checked to be open just below, through a borrow that ends there.
    #[allow(unsafe_code)]
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    // SAFETY: it is open, it was inherited for this purpose, and each number is taken once,
    // before this process opened anything under it.
    #[allow(unsafe_code)]
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
