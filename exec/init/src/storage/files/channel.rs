//! Frames between the agent and this process.

use std::io::{self, Read, Stdin, Stdout, Write};

use serde::Serialize;

use super::problem::{FileProblem, FileProblemKind};
use super::request::FileRequest;
use crate::frame::{self, Decoder, InitFrame};

/// To the helper, first: a [`FileRequest`] as JSON.
pub const REQUEST: u16 = 1;
/// Both ways: bytes.
pub const DATA: u16 = 2;
/// To the helper: all bytes have come.
pub const END: u16 = 3;
/// From the helper: a [`FileHead`](super::FileHead) as JSON, before any byte goes in either direction.
pub const HEAD: u16 = 4;
/// From the helper: a part of a list of [`FileEntry`](super::FileEntry)s as JSON.
pub const ENTRIES: u16 = 5;
/// From the helper: it works on something that takes long.
pub const BEAT: u16 = 6;
/// From the helper, last: what was done, as JSON.
pub const DONE: u16 = 7;
/// From the helper, last: a [`FileProblem`] as JSON.
pub const FAILED: u16 = 8;
/// Most bytes in a frame of data.
pub const DATA_BYTES_MAX: usize = 256 << 10;

/// The agent's end of the pipes.
pub(super) struct FileChannel {
    from: Box<dyn Read>,
    into: Box<dyn Write>,
    decoder: Decoder,
    buffer: Vec<u8>,
}

impl FileChannel {
    pub(super) fn new(from: Stdin, into: Stdout) -> Self {
        Self::over(Box::new(from), Box::new(into))
    }

    pub(super) fn over(from: Box<dyn Read>, into: Box<dyn Write>) -> Self {
        Self {
            from,
            into,
            decoder: Decoder::default(),
            buffer: vec![0; DATA_BYTES_MAX],
        }
    }

    /// The request, which is the first frame.
    pub(super) fn request(&mut self) -> Result<FileRequest, FileProblem> {
        let failed = |message: String| FileProblem {
            kind: FileProblemKind::Failed,
            message,
        };
        let frame = self.next()?.filter(|frame| frame.kind == REQUEST);
        let frame = frame.ok_or_else(|| failed("no request came".to_owned()))?;
        serde_json::from_slice(&frame.body).map_err(|error| failed(error.to_string()))
    }

    /// The next frame; none at the end of stdin.
    pub(super) fn next(&mut self) -> io::Result<Option<InitFrame>> {
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(io::Error::other)? {
                return Ok(Some(frame));
            }
            let count = self.from.read(&mut self.buffer)?;
            if count == 0 {
                return Ok(None);
            }
            self.decoder.push(&self.buffer[..count]);
        }
    }

    pub(super) fn send(&mut self, kind: u16, body: &[u8]) -> io::Result<()> {
        let bytes = frame::encode(kind, body).map_err(io::Error::other)?;
        self.into.write_all(&bytes)?;
        self.into.flush()
    }

    pub(super) fn send_json(&mut self, kind: u16, value: &impl Serialize) -> io::Result<()> {
        self.send(kind, &serde_json::to_vec(value)?)
    }
}

/// The bytes that the agent sends, as a reader.
pub(super) struct DataReader<'a> {
    channel: &'a mut FileChannel,
    part: Vec<u8>,
    at: usize,
    is_over: bool,
}

impl<'a> DataReader<'a> {
    pub(super) const fn new(channel: &'a mut FileChannel) -> Self {
        Self {
            channel,
            part: Vec::new(),
            at: 0,
            is_over: false,
        }
    }
}

impl Read for DataReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.part.len() && !self.is_over {
            match self.channel.next()? {
                Some(frame) if frame.kind == DATA => (self.part, self.at) = (frame.body, 0),
                _ => self.is_over = true,
            }
        }
        let left = &self.part[self.at..];
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

/// Bytes for the agent, as a writer.
pub(super) struct DataWriter<'a>(pub(super) &'a mut FileChannel);

impl Write for DataWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = &bytes[..bytes.len().min(DATA_BYTES_MAX)];
        self.0.send(DATA, part)?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
