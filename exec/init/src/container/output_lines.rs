//! The output of a pre- or post-command, cut into lines for the runtime log.

use std::io::{self, ErrorKind, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// A longer line is cut.
const LINE_BYTES_MAX: usize = 8 << 10;
const READ_BYTES: usize = 16 << 10;

/// A pipe read in lines.
#[derive(Debug)]
pub(crate) struct OutputLines {
    pipe: PipeReader,
    /// What came after the last whole line.
    rest: Vec<u8>,
}

impl OutputLines {
    pub(crate) fn new(pipe: PipeReader) -> io::Result<Self> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self {
            pipe,
            rest: Vec::new(),
        })
    }

    /// Reads once and gives the whole lines to `take`.
    pub(crate) fn read(&mut self, take: impl FnOnce(Vec<&[u8]>)) -> LineRead {
        let mut buffer = [0; READ_BYTES];
        let count = match self.pipe.read(&mut buffer) {
            Ok(0) => return LineRead::End,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => return LineRead::Some,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return LineRead::Nothing,
            Err(_) => return LineRead::End,
        };
        self.rest.extend_from_slice(&buffer[..count]);
        let whole = match self.rest.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if self.rest.len() > LINE_BYTES_MAX => self.rest.len(),
            None => return LineRead::Some,
        };
        let rest = self.rest.split_off(whole);
        take(cut(&self.rest).collect());
        self.rest = rest;
        LineRead::Some
    }

    /// The last line, if it had no end.
    pub(crate) fn into_rest(self) -> Option<Vec<u8>> {
        (!self.rest.is_empty()).then_some(self.rest)
    }
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineRead {
    Some,
    Nothing,
    End,
}

impl AsFd for OutputLines {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

fn cut(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.strip_suffix(b"\n")
        .unwrap_or(text)
        .split(|byte| *byte == b'\n')
        .flat_map(|line| {
            line.chunks(LINE_BYTES_MAX)
                .chain(line.is_empty().then_some(line))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_their_ends_and_at_the_limit() {
        let long = [b'x'; LINE_BYTES_MAX + 1];
        let text = [b"a\n\nb\n".as_slice(), &long, b"\n"].concat();
        let lines: Vec<&[u8]> = cut(&text).collect();
        assert_eq!(lines, [b"a".as_slice(), b"", b"b", &long[1..], b"x"]);
    }
}
