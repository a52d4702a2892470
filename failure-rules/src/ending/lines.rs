//! The end of a log as lines, without what terminals and launchers add to them.

use std::ops::Range;

use super::ENDING_BYTES_MAX;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;
/// Launchers may run in launchers.
const PREFIXES_MAX: usize = 3;
/// A longer one is text of the program.
const PREFIX_BYTES_MAX: usize = 64;

/// A line of the text. A progress bar's carriage returns end lines too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndLine {
    /// Where it begins in the text.
    pub(super) start: usize,
    /// Where it ends, without its line break.
    pub(super) end: usize,
    /// Where it lies in the log, with its prefix.
    pub(super) origin: Range<usize>,
    /// The process that printed it, if its prefix says so.
    pub(super) rank: Option<u32>,
}

impl EndLine {
    pub(super) const fn body(&self) -> Range<usize> {
        self.start..self.end
    }
}

/// The text of the end of `log`, and its lines.
pub(super) fn read(log: &[u8]) -> (Vec<u8>, Vec<EndLine>) {
    let from = start(log);
    let mut text = Vec::with_capacity(log.len() - from);
    let mut lines = Vec::new();
    let mut at = from;
    while at < log.len() {
        let length = memchr::memchr2(b'\n', b'\r', &log[at..]);
        let end = length.map_or(log.len(), |length| at + length);
        let start = text.len();
        let rank = push_body(&log[at..end], &mut text);
        lines.push(EndLine {
            start,
            end: text.len(),
            origin: at..end,
            rank,
        });
        text.push(b'\n');
        at = match &log[end..] {
            [b'\r', b'\n', ..] => end + 2,
            _ => end + 1,
        };
    }
    (text, lines)
}

/// Where the end begins, at the start of a line.
fn start(log: &[u8]) -> usize {
    let from = log.len().saturating_sub(ENDING_BYTES_MAX);
    if from == 0 {
        return 0;
    }
    memchr::memchr(b'\n', &log[from..]).map_or(from, |length| from + length + 1)
}

/// Adds a line without colours and prefixes. Answers the process that the prefixes name.
fn push_body(line: &[u8], text: &mut Vec<u8>) -> Option<u32> {
    let start = text.len();
    push_plain(line, text);
    let mut rank = None;
    let mut skip = 0;
    for _ in 0..PREFIXES_MAX {
        let Some((length, named)) = prefix(&text[start + skip..]) else {
            break;
        };
        skip += length;
        rank = named.or(rank);
    }
    text.drain(start..start + skip);
    rank
}

/// Adds a line without the control sequences of terminals.
fn push_plain(line: &[u8], text: &mut Vec<u8>) {
    let mut rest = line;
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        text.extend_from_slice(&rest[..at]);
        rest = &rest[at + sequence_length(&rest[at..])..];
    }
    text.extend_from_slice(rest);
}

/// The length of the control sequence that `text` begins with.
fn sequence_length(text: &[u8]) -> usize {
    match text.get(1) {
        Some(b'[') => {
            let last = text[2..]
                .iter()
                .position(|byte| (0x40..=0x7e).contains(byte));
            last.map_or(text.len(), |at| at + 3)
        }
        Some(b']') => {
            let last = text.iter().position(|byte| *byte == BELL);
            last.map_or(2, |at| at + 1)
        }
        Some(_) => 2,
        None => 1,
    }
}

/// The length of the prefix that a launcher put before a line, and the process that it names: `[rank0]: `,
/// `[1,0]<stderr>:`, `(train pid=7) `, `(raylet) `.
fn prefix(line: &[u8]) -> Option<(usize, Option<u32>)> {
    if let Some(length) = time_stamp(line) {
        return Some((length, None));
    }
    let (open, close) = match line.first()? {
        b'[' => (1, b']'),
        b'(' => (1, b')'),
        _ => return None,
    };
    let window = &line[..line.len().min(PREFIX_BYTES_MAX)];
    let end = memchr::memchr(close, window)?;
    let inner = std::str::from_utf8(&line[open..end]).ok()?;
    let rank = match close {
        b']' => bracketed(inner)?,
        _ => process(inner)?,
    };
    let mut length = end + 1;
    for stream in [&b"<stderr>"[..], b"<stdout>"] {
        if line[length..].starts_with(stream) {
            length += stream.len();
        }
    }
    if line.get(length) == Some(&b':') {
        length += 1;
    }
    if line.get(length) == Some(&b' ') {
        length += 1;
    }
    Some((length, rank))
}

/// The length of a time that a log's keeper put before a line, with its space: `2026-01-01T00:00:00.123Z `.
fn time_stamp(line: &[u8]) -> Option<usize> {
    let window = &line[..line.len().min(PREFIX_BYTES_MAX)];
    let is_digit = |at: usize| window.get(at).is_some_and(u8::is_ascii_digit);
    let is = |at: usize, byte: u8| window.get(at) == Some(&byte);
    let is_time =
        is_digit(0) && is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':');
    let end = memchr::memchr(b' ', window).filter(|_| is_time)?;
    Some(end + 1)
}

/// `rank0`, `default3`, `worker-0`, `1,0`, `node-0:4711`.
fn bracketed(inner: &str) -> Option<Option<u32>> {
    let number = |digits: &str| digits.parse::<u32>().ok();
    if let Some((job, rank)) = inner.split_once(',') {
        let (_, rank) = (number(job)?, number(rank)?);
        return Some(Some(rank));
    }
    if let Some((host, pid)) = inner.split_once(':') {
        let is_host = host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        let is_named = is_host && host.bytes().any(|byte| byte.is_ascii_alphabetic());
        return (is_named && number(pid).is_some()).then_some(None);
    }
    let word = inner.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let letters = word.trim_end_matches(['-', '_']);
    let is_word = letters.bytes().all(|byte| byte.is_ascii_lowercase()) && !letters.is_empty();
    is_word
        .then(|| number(&inner[word.len()..]))
        .flatten()
        .map(Some)
}

/// `raylet`, `pid=7`, `train pid=7, ip=192.0.2.2`.
fn process(inner: &str) -> Option<Option<u32>> {
    let is_process = inner == "raylet" || inner.starts_with("pid=") || inner.contains(" pid=");
    is_process.then_some(None)
}
