//! What the end of a log says of how its command ended: which error ended it, which errors came before, and what a
//! launcher, a shell or make reported of the programs that it ran.
//!
//! A launcher's report is not the cause. The error that ended the command is the last one that the program printed
//! itself and did not outlive; its launcher's traceback and summary are cut off before. The pass is linear, looks at
//! the last 512 KiB only, and passes over colours, progress bars and the prefixes that launchers put before lines.

mod error;
mod lines;
mod report;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::Regex;

use self::error::{ErrorRead, StackLines};
use self::lines::EndLine;
pub(crate) use self::report::{EndReport, Launcher, ReportedEnd};

/// The end of a log whose lines are told apart, in bytes.
pub(crate) const ENDING_BYTES_MAX: usize = 512 << 10;
/// An error that more lines of the program follow was outlived: the command ended for another reason.
const OUTLIVED_LINES: usize = 4;
/// The last lines of a program that printed no error of a known shape.
const CLOSING_LINES: usize = 25;
/// Lines of the end in which messages that name their cause by themselves are looked for.
const END_LINES: usize = 400;
/// What programs and scripts say of a failure before they end.
static FAREWELL: LazyLock<Regex> = LazyLock::new(|| {
    let words =
        r"(?i)\b(?:fail(?:ed|ure)?|errors?|abort(?:ed|ing)?|giving up|exiting|died|crashed)\b";
    match Regex::new(words) {
        Ok(regex) => regex,
        Err(error) => unreachable!("the words are part of the program: {error}"),
    }
});
/// From here on codes are those of timeout, shells and signals.
const CODES_OF_SHELLS: i32 = 120;
/// An error before this many lines is not looked at.
const PAST_LINES: usize = 60;
/// Errors beside the deciding one that are looked at.
const OTHERS_MAX: usize = 32;

/// The end of a log, told apart. Ranges are those of [`Ending::text`].
#[derive(Debug, Default)]
pub(crate) struct Ending {
    text: Vec<u8>,
    lines: Vec<EndLine>,
    /// The error that ended the command, if it has a known shape.
    pub(crate) error: Option<EndError>,
    /// Errors that other processes printed at the end, and outlived ones. The last one first.
    pub(crate) others: Vec<EndError>,
    /// The last lines of the program that belong to no error and no report. In order.
    pub(crate) closing: Vec<Range<usize>>,
    /// What was reported first of the programs that ended.
    pub(crate) report: Option<EndReport>,
    /// Where the end begins.
    pub(crate) end: Range<usize>,
}

/// An error with what it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndError {
    /// Its message with its first line, which begins with the error's name.
    pub(crate) message: Range<usize>,
    /// With the traceback.
    pub(crate) whole: Range<usize>,
    /// Messages of the errors that it came from, the nearest first.
    pub(crate) causes: Vec<Range<usize>>,
    /// Which process printed it, as far as its lines say so.
    pub(crate) rank: Option<u32>,
}

impl Ending {
    /// Reads the end of the `log` of a command that ended with a code. Lines that `harmless` matches are passed over.
    pub(crate) fn read(log: &[u8], exit_code: i32, harmless: &[Regex]) -> Self {
        let (text, lines) = lines::read(log);
        let mut ending = Self {
            text,
            lines,
            ..Self::default()
        };
        let reports = report::read(&ending.text, &ending.lines);
        let errors = error::read(&ending.text, &ending.lines, &reports);
        ending.decide((exit_code, harmless), reports, errors);
        ending
    }

    /// The end of the log without colours, carriage returns and prefixes.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The whole lines of the log that a range of the text came from, as a range of the log.
    pub(crate) fn origin(&self, range: &Range<usize>) -> Range<usize> {
        let line_at = |at: usize| {
            let after = self.lines.partition_point(|line| line.start <= at);
            self.lines.get(after.saturating_sub(1))
        };
        let last = range.end.saturating_sub(1).max(range.start);
        let start = line_at(range.start).map_or(0, |line| line.origin.start);
        let end = line_at(last).map_or(0, |line| line.origin.end);
        start..end.max(start)
    }

    fn decide(
        &mut self,
        (exit_code, harmless): (i32, &[Regex]),
        reports: report::Reports,
        errors: Vec<ErrorRead>,
    ) {
        let plain = self.plain_lines(harmless, &reports, &errors);
        // A program's last word on its failure is no sign that it went on.
        let says_failure = |line: &&usize| FAREWELL.is_match(self.body(**line));
        let going_on = plain.iter().filter(|line| !says_failure(line));
        let going_on: Vec<usize> = going_on.take(OUTLIVED_LINES + 1).copied().collect();
        // An error that nothing handles ends Python with 1. With a small code of its own, a program went on.
        let is_own_code = (2..CODES_OF_SHELLS).contains(&exit_code) && reports.is_empty();
        let lines_after = if is_own_code { 0 } else { OUTLIVED_LINES };
        let last_plain = EndLimits {
            error: going_on.get(lines_after).copied(),
            others: plain.get(PAST_LINES).copied(),
        };
        (self.error, self.others) = tell_apart(&errors, &reports, last_plain);
        self.closing = self.closing_lines(&plain);
        if self.error.is_none() {
            let last = plain.first().map(|line| &self.lines[*line]);
            self.error = last.and_then(|line| error::alone(&self.text, line));
        }
        let outlived_before = going_on.get(OUTLIVED_LINES).copied();
        let is_outlived = |line: usize| outlived_before.is_some_and(|limit| line < limit);
        let ends = |line: usize, code: i32| self.ends_with(line, code, &plain);
        self.report = reports.first_after(is_outlived, ends);
        let from = self.lines.len().saturating_sub(END_LINES);
        let start = self.lines.get(from).map_or(0, |line| line.start);
        self.end = start..self.text.len();
    }

    fn body(&self, line: usize) -> &[u8] {
        &self.text[self.lines[line].body()]
    }

    /// The last lines that are of no error, no report and no stack, the last one first. More of them than are answered
    /// decide nothing, and there may be many thousands.
    fn plain_lines(
        &self,
        harmless: &[Regex],
        reports: &report::Reports,
        errors: &[ErrorRead],
    ) -> Vec<usize> {
        let quiet = StackLines::of(&self.text, &self.lines);
        let mut is_of_error = vec![false; self.lines.len()];
        for error in errors {
            is_of_error[error.sure_lines.clone()].fill(true);
        }
        let is_plain = |line: &usize| {
            let body = self.body(*line);
            !body.trim_ascii().is_empty()
                && !reports.is_of_report(*line)
                && !quiet.contains(*line)
                && !is_of_error[*line]
                && !harmless.iter().any(|regex| regex.is_match(body))
        };
        let from_end = (0..self.lines.len()).rev();
        from_end.filter(is_plain).take(PAST_LINES + 1).collect()
    }

    /// The last plain lines after the error that ended the command, in order.
    fn closing_lines(&self, plain: &[usize]) -> Vec<Range<usize>> {
        let after = self.error.as_ref().map_or(0, |error| error.whole.end);
        let closing = plain.iter().take(CLOSING_LINES).rev();
        let bodies = closing.map(|line| self.lines[*line].body());
        bodies.filter(|body| body.start >= after).collect()
    }

    /// Whether only lines about the same end follow a report, for which a shell shows a code.
    fn ends_with(&self, report: usize, code: i32, plain: &[usize]) -> bool {
        let code = code.to_string();
        let is_about = |line: usize| {
            let body = self.body(line);
            FAREWELL.is_match(body) || memchr::memmem::find(body, code.as_bytes()).is_some()
        };
        let mut after = plain.iter().take_while(|line| **line > report);
        let error = self.error.as_ref().map(|error| error.whole.start);
        error.is_none_or(|error| error < self.lines[report].start)
            && after.all(|line| is_about(*line))
    }
}

/// Lines at which the part of a log begins in which errors count.
#[derive(Clone, Copy)]
struct EndLimits {
    /// For the error that ended the command: one that ends before was outlived.
    error: Option<usize>,
    /// For errors beside it.
    others: Option<usize>,
}

/// The error that ended the command, and those beside it, the last one first.
fn tell_apart(
    errors: &[ErrorRead],
    reports: &report::Reports,
    limits: EndLimits,
) -> (Option<EndError>, Vec<EndError>) {
    let own = errors.iter().rev();
    let mut newest: Vec<&ErrorRead> = own
        .filter(|error| !error.is_of_launcher && !error.is_aside)
        .collect();
    newest.sort_by_key(|error| error.is_noted);
    let first_rank = reports.first_rank();
    // The errors of other processes are what the first failure brought about, or its launcher's doing.
    let is_of_another = |error: &ErrorRead| {
        first_rank.is_some() && error.rank.is_some() && error.rank != first_rank
    };
    let is_deciding = |error: &&ErrorRead| {
        let is_last = limits
            .error
            .is_none_or(|limit| error.sure_lines.end > limit);
        is_last && !is_of_another(error)
    };
    let deciding = newest.iter().position(is_deciding);
    let deciding = deciding.map(|at| newest.remove(at).found.clone());
    let is_near = |error: &&ErrorRead| limits.others.is_none_or(|limit| error.lines.end >= limit);
    let others = newest.into_iter().filter(is_near).take(OTHERS_MAX);
    (deciding, others.map(|error| error.found.clone()).collect())
}
