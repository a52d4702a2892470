//! Errors that programs print when they end: Python's and Java's exceptions, and what native programs abort with.

use std::ops::Range;

use super::EndError;
use super::lines::EndLine;
use super::report::Reports;

const TRACEBACK: &[u8] = b"Traceback (most recent call last):";
/// Another error may stand in the middle of a traceback, printed by another thread.
const INTERRUPTION_LINES_MAX: usize = 12;
/// Lines of other processes in the middle of a traceback at most.
const FOREIGN_LINES_MAX: usize = 2000;
/// Lines that a message takes at most.
const MESSAGE_LINES_MAX: usize = 60;
/// Lines of them that are not indented: what a program prints next may be no part of it.
const PLAIN_LINES_MAX: usize = 6;
/// Lines of the paragraph after it.
const PARAGRAPH_LINES_MAX: usize = 8;
/// Lines between the errors of a chain.
const CHAIN_GAP_MAX: usize = 4;
const DIRECT_CAUSE: &[u8] = b"The above exception was the direct cause of the following exception:";
const WHILE_HANDLED: &[u8] = b"During handling of the above exception, another exception occurred:";

/// Names of errors that report how another program ended, whatever raised them.
const REPORTING_ERRORS: [&str; 3] = [
    "ChildFailedError",
    "CalledProcessError",
    "ProcessExitedException",
];
/// Beginnings of lines that no message goes on with.
const NEW_RECORDS: [&[u8]; 4] = [b"terminate called", b"*** ", b"===", b"---"];

/// An error, and what it says of its place.
#[derive(Clone, Debug)]
pub(super) struct ErrorRead {
    pub(super) found: EndError,
    /// With what its message may go on with.
    pub(super) lines: Range<usize>,
    /// Those that are the error's for sure: lines after the message's first one are indented.
    pub(super) sure_lines: Range<usize>,
    pub(super) rank: Option<u32>,
    /// It reports how a worker ended.
    pub(super) is_of_launcher: bool,
    /// It ended a thread or was ignored; the program went on.
    pub(super) is_aside: bool,
    /// A part of a framework noted it in its log, and went on. It ended the command only if nothing else did.
    pub(super) is_noted: bool,
}

/// All errors, in order. An error that came from others is one with them.
pub(super) fn read(text: &[u8], lines: &[EndLine], reports: &Reports) -> Vec<ErrorRead> {
    let reader = ErrorReader {
        text,
        lines,
        reports,
    };
    let mut errors: Vec<ErrorRead> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(error) = reader.at(at) else {
            at += 1;
            continue;
        };
        at = error.lines.end.max(at + 1);
        match errors.last_mut() {
            Some(before) if reader.is_chained(before, &error) => before.go_on_with(error),
            _ => errors.push(error),
        }
    }
    errors
}

/// A program's last line, if it is an error's message without a traceback.
pub(super) fn alone(text: &[u8], line: &EndLine) -> Option<EndError> {
    let body = &text[line.body()];
    let is_error = ["Error", "Exception"]
        .iter()
        .any(|end| error_name(body).ends_with(end));
    (is_error && is_named_error(body)).then(|| EndError {
        message: line.body(),
        whole: line.body(),
        causes: Vec::new(),
        rank: line.rank,
    })
}

impl ErrorRead {
    /// The later error of a chain is the one that ended the program.
    fn go_on_with(&mut self, later: Self) {
        let mut causes = vec![self.found.message.clone()];
        causes.append(&mut self.found.causes);
        self.found = EndError {
            whole: self.found.whole.start..later.found.whole.end,
            causes,
            ..later.found
        };
        self.lines.end = later.lines.end;
        self.sure_lines.end = later.sure_lines.end;
        self.is_of_launcher = later.is_of_launcher;
    }
}

struct ErrorReader<'a> {
    text: &'a [u8],
    lines: &'a [EndLine],
    reports: &'a Reports,
}

impl<'a> ErrorReader<'a> {
    fn body(&self, line: usize) -> &'a [u8] {
        &self.text[self.lines[line].body()]
    }

    /// The error that begins with a line.
    fn at(&self, line: usize) -> Option<ErrorRead> {
        let body = self.body(line);
        if memchr::memmem::find(body, TRACEBACK).is_some() {
            return self.traceback(line);
        }
        if body.starts_with(b"  File \"") && !self.reports.is_of_report(line) {
            return self.syntax_error(line);
        }
        if is_native(body) || self.is_of_java(line) {
            return Some(self.error(line..line, line));
        }
        None
    }

    /// A traceback and its message. None if it has no message: a warning, or an end that is cut off.
    fn traceback(&self, header: usize) -> Option<ErrorRead> {
        let base = indent(self.body(header));
        let rank = self.lines[header].rank;
        let mut line = header + 1;
        let (mut skipped, mut foreign) = (0, 0);
        let is_same = |line: usize| rank.is_none() || self.lines[line].rank == rank;
        while line < self.lines.len() {
            let body = self.body(line);
            if is_same(line) && memchr::memmem::find(body, TRACEBACK).is_some() {
                return None;
            }
            let is_frame = is_same(line) && indent(body) > base && !body.trim_ascii().is_empty();
            if is_frame {
                skipped = 0;
            } else if is_same(line) && is_named_error(body) {
                return Some(self.error(header..line, line));
            } else if skipped == INTERRUPTION_LINES_MAX || foreign == FOREIGN_LINES_MAX {
                return None;
            } else if is_same(line) {
                skipped += 1;
            } else {
                foreign += 1;
            }
            line += 1;
        }
        None
    }

    /// An error that Python found before it ran the program: a place, the source, and the message, with no header.
    fn syntax_error(&self, first: usize) -> Option<ErrorRead> {
        let mut lines = first + 1..self.lines.len().min(first + 5);
        let message = lines.find(|line| indent(self.body(*line)) == 0)?;
        let names: [&[u8]; 3] = [b"SyntaxError: ", b"IndentationError: ", b"TabError: "];
        let is_one = names
            .iter()
            .any(|name| self.body(message).starts_with(name));
        is_one.then(|| self.error(first..message, message))
    }

    /// An exception of Java: its name, and at once its stack.
    fn is_of_java(&self, line: usize) -> bool {
        let body = self.body(line);
        let body = body.strip_prefix(b"Caused by: ").unwrap_or(body);
        let is_thread = body.starts_with(b"Exception in thread \"");
        let is_stack =
            |line: usize| line < self.lines.len() && self.body(line).starts_with(b"\tat ");
        (is_thread || is_named_error(body)) && is_stack(line + 1)
    }

    fn error(&self, frames: Range<usize>, message: usize) -> ErrorRead {
        let end = self.message_end(message);
        let first = self.lines[frames.start].start;
        let body = self.body(message);
        let start = self.lines[message].start + indent(body);
        let message_range = start..self.lines[self.paragraph_end(message, end) - 1].end;
        let is_of_launcher = REPORTING_ERRORS.contains(&error_name(body));
        let is_plain = |line: &usize| indent(self.body(*line)) == 0;
        let sure_end = (message + 1..end).find(is_plain).unwrap_or(end);
        let before = frames.start.checked_sub(1).map(|line| self.body(line));
        let is_aside = before.is_some_and(is_heading_aside);
        let is_noted = before.is_some_and(is_note_of_dask);
        let rank = self.lines[message].rank;
        ErrorRead {
            found: EndError {
                whole: first..message_range.end,
                message: message_range,
                causes: Vec::new(),
                rank,
            },
            lines: frames.start..end,
            sure_lines: frames.start..sure_end,
            rank,
            is_of_launcher,
            is_aside,
            is_noted,
        }
    }

    /// The line after the message's last one.
    fn message_end(&self, first: usize) -> usize {
        let limit = self.lines.len().min(first + MESSAGE_LINES_MAX);
        let mut plain = 0;
        let ends = |line: &usize| {
            plain += usize::from(indent(self.body(*line)) == 0);
            plain > PLAIN_LINES_MAX || !self.goes_on(first, *line)
        };
        (first + 1..limit).find(ends).unwrap_or(limit)
    }

    /// Whether a line can belong to the message that begins with another one.
    fn goes_on(&self, message: usize, line: usize) -> bool {
        let Some(found) = self.lines.get(line) else {
            return false;
        };
        let body = self.body(line);
        found.rank == self.lines[message].rank
            && !body.trim_ascii().is_empty()
            && memchr::memmem::find(body, TRACEBACK).is_none()
            && body.trim_ascii() != DIRECT_CAUSE
            && body.trim_ascii() != WHILE_HANDLED
            && !self.reports.is_of_report(line)
            && !is_record(body)
            && !is_native(body)
            && !is_heading_aside(body)
    }

    /// The line after the paragraph that follows a message's first one: some say there what is wrong.
    fn paragraph_end(&self, message: usize, end: usize) -> usize {
        let is_blank = |line: usize| self.body(line).trim_ascii().is_empty();
        let first = end + 1;
        if end >= self.lines.len() || !is_blank(end) || !self.goes_on(message, first) {
            return end;
        }
        let limit = self.lines.len().min(first + PARAGRAPH_LINES_MAX);
        let ends = |line: &usize| !self.goes_on(message, *line);
        (first..limit).find(ends).unwrap_or(limit)
    }

    /// Whether an error came from the one before it.
    fn is_chained(&self, before: &ErrorRead, later: &ErrorRead) -> bool {
        let between = before.lines.end..later.lines.start;
        let header = self.body(later.lines.start);
        let is_stack = |line: usize| self.body(line).starts_with(b"\t");
        if header.starts_with(b"Caused by: ") && between.clone().all(is_stack) {
            return true;
        }
        let is_aside = before.is_aside || later.is_aside;
        if before.rank != later.rank || between.len() > CHAIN_GAP_MAX || is_aside {
            return false;
        }
        let says = |words: &[u8]| {
            between
                .clone()
                .any(|line| self.body(line).trim_ascii() == words)
        };
        // A worker's traceback is quoted right after the error that its parent raised for it.
        let is_quoted = between.is_empty()
            && (header.starts_with(b"Original Traceback") || is_quoting(self, before));
        is_quoted || says(DIRECT_CAUSE) || says(WHILE_HANDLED) || header.starts_with(b"Caused by: ")
    }
}

/// Whether the message of an error announces the traceback that follows it.
fn is_quoting(reader: &ErrorReader<'_>, before: &ErrorRead) -> bool {
    let last = before.lines.end.checked_sub(1);
    last.is_some_and(|line| reader.body(line).trim_ascii_end().ends_with(b":"))
}

/// Spaces before the text. The lines of an exception group begin with bars.
fn indent(body: &[u8]) -> usize {
    let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'|' | b'+');
    body.iter().take_while(is_space).count()
}

/// The name that a message begins with, without its module: `OSError` of `builtins.OSError: text`.
fn error_name(body: &[u8]) -> &str {
    let body = body.trim_ascii_start();
    let is_of_name =
        |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$');
    let length = body.iter().take_while(is_of_name).count();
    let path = std::str::from_utf8(&body[..length]).unwrap_or_default();
    path.rsplit('.').next().unwrap_or_default()
}

/// Whether a line is a name and nothing, a colon or a name in parentheses: how Python ends a traceback.
fn is_named_error(body: &[u8]) -> bool {
    let body = &body[indent(body)..];
    let is_of_name =
        |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$');
    let length = body.iter().take_while(is_of_name).count();
    let begins = body
        .first()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let name = error_name(body);
    let is_class = name
        .trim_start_matches('_')
        .starts_with(|letter: char| letter.is_ascii_uppercase());
    let after = &body[length..];
    let ends = after.trim_ascii().is_empty() || after.starts_with(b":") || after.starts_with(b"(");
    begins && ends && (is_class || length > name.len())
}

/// Whether a line announces an error that ended a thread, or that Python ignored.
fn is_heading_aside(body: &[u8]) -> bool {
    let is_java = body.starts_with(b"Exception in thread \"");
    let starts: [&[u8]; 2] = [b"Exception in thread ", b"Exception ignored "];
    !is_java && starts.iter().any(|start| body.starts_with(start))
}

/// Whether a part of Dask notes an error in its log: `2026-11-30 16:02:13,621 - distributed.nanny - ERROR - `. When a
/// program ends with an error of its own, Dask's parts lose each other, and note that after it. What the scheduler says of
/// a task that failed is no such note: the program's own error may follow it at once.
fn is_note_of_dask(body: &[u8]) -> bool {
    let has = |words: &[u8]| memchr::memmem::find(body, words).is_some();
    has(b" - distributed.") && has(b" - ERROR -") && !has(b" marked as failed because ")
}

/// What native programs print when they abort.
fn is_native(body: &[u8]) -> bool {
    let starts: [&[u8]; 4] = [
        b"terminate called after throwing",
        b"Fatal Python error: ",
        b"panic: ",
        b"thread 'main' panicked at",
    ];
    starts.iter().any(|start| body.starts_with(start)) || is_glog(body, b"F")
}

/// A line of glog, absl or torch with one of these levels: `E1127 21:09:46.501214 ...`.
fn is_glog(body: &[u8], levels: &[u8]) -> bool {
    let [level, digits @ ..] = body else {
        return false;
    };
    let is_date =
        digits.len() > 7 && digits[..4].iter().all(u8::is_ascii_digit) && digits[4] == b' ';
    levels.contains(level) && is_date && digits[5].is_ascii_digit()
}

/// Whether a line begins a record of a log, or a block of its own.
fn is_record(body: &[u8]) -> bool {
    let is_dated = body.len() > 10
        && body[..4].iter().all(u8::is_ascii_digit)
        && body[4] == b'-'
        && body[7] == b'-';
    let is_bracketed = body.starts_with(b"[20") && body.get(5) == Some(&b'-');
    is_dated
        || is_bracketed
        || is_glog(body, b"IWEF")
        || NEW_RECORDS.iter().any(|start| body.starts_with(start))
}

/// Lines of stacks that native programs and Java print beside their errors.
pub(super) struct StackLines(Vec<bool>);

impl StackLines {
    pub(super) fn of(text: &[u8], lines: &[EndLine]) -> Self {
        let is_of_stack = |line: &EndLine| {
            let body = &text[line.body()];
            let start = body.trim_ascii_start();
            start.starts_with(b"@ ")
                || start.starts_with(b"at ") && body != start
                || start.starts_with(b"frame #")
                || start.starts_with(b"*** Check failure stack trace")
                || start.starts_with(b"File \"") && body != start
                || (start.starts_with(b"[ ") || start.starts_with(b"#"))
                    && memchr::memmem::find(start, b"0x").is_some()
                || start.starts_with(b"... ") && start.ends_with(b" more")
                || is_glog(body, b"IW")
        };
        Self(lines.iter().map(is_of_stack).collect())
    }

    pub(super) fn contains(&self, line: usize) -> bool {
        self.0.get(line).copied().unwrap_or_default()
    }
}
