//! The texts of a verdict: the lines around a match or the last lines, within fixed bounds.

use std::ops::Range;

/// The most lines of the user log in a verdict.
pub const USER_LINES_MAX: usize = 15;
/// The most lines of the runtime's log in a verdict.
pub const PLATFORM_LINES_MAX: usize = 10;
/// The longest match in a verdict, in bytes.
pub const MATCH_BYTES_MAX: usize = 2048;
/// The most that all texts of a verdict take together, in bytes.
pub const REPORT_BYTES_MAX: usize = 4096;
/// As much of a line as is shown before what was matched in it, in bytes.
const BEFORE_BYTES_MAX: usize = 512;
/// Lines kept before a match, as long as enough follow it.
const LINES_BEFORE: usize = 3;

/// One log's part of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Excerpt {
    pub(crate) matched: Option<String>,
    pub(crate) lines: String,
}

impl Excerpt {
    /// The part of `text` around `matched`, or its end.
    pub(crate) fn new(text: &[u8], matched: Option<&Range<usize>>, lines_max: usize) -> Self {
        match matched {
            None => Self {
                matched: None,
                lines: tail(text, lines_max),
            },
            Some(range) => {
                let matched = cut(readable(&text[range.clone()]), MATCH_BYTES_MAX);
                let lines = around(text, range, &matched, lines_max);
                Self {
                    matched: Some(matched),
                    lines,
                }
            }
        }
    }

    /// Has the match shown with the whole of the lines that it lies in: what a rule needs to see is not
    /// all that a person does.
    pub(crate) fn widen(&mut self, text: &[u8], matched: &Range<usize>) {
        let whole = whole_lines(text, matched);
        self.matched = Some(cut(readable(&text[whole]), MATCH_BYTES_MAX));
    }

    fn len(&self) -> usize {
        self.lines.len() + self.matched.as_ref().map_or(0, String::len)
    }

    /// Drops `over` bytes of lines: those before the match first, then from the end.
    fn shorten_lines(&mut self, over: usize) {
        let over = over.min(self.lines.len());
        let matched_at = self.matched.as_deref().and_then(|m| self.lines.find(m));
        let front = matched_at.unwrap_or(over).min(over);
        self.lines = self.lines.split_off(self.lines.ceil_char_boundary(front));
        let keep = self.lines.len().saturating_sub(over - front);
        self.lines.truncate(self.lines.floor_char_boundary(keep));
    }

    fn shorten_match(&mut self, over: usize) {
        if let Some(matched) = &mut self.matched {
            matched.truncate(matched.floor_char_boundary(matched.len().saturating_sub(over)));
        }
    }
}

/// Shortens both logs' parts until they fit together, the user's as the last.
pub(crate) fn fit(user: &mut Excerpt, platform: &mut Excerpt) {
    let over = |user: &Excerpt, platform: &Excerpt| {
        (user.len() + platform.len()).saturating_sub(REPORT_BYTES_MAX)
    };
    platform.shorten_lines(over(user, platform));
    user.shorten_lines(over(user, platform));
    platform.shorten_match(over(user, platform));
    user.shorten_match(over(user, platform));
}

/// The lines that `range` lies in, without the last one's end. A progress bar ends its lines with a
/// carriage return. Of a long line no more than a few hundred bytes before the match are taken.
fn whole_lines(text: &[u8], range: &Range<usize>) -> Range<usize> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    // A match may end with the end of its line, which belongs to no other then.
    let inside = text[range.clone()].trim_ascii_end().len();
    let last = range.start + inside;
    let first = text[..range.start].iter().rposition(is_end);
    let start = first
        .map_or(0, |at| at + 1)
        .max(range.start.saturating_sub(BEFORE_BYTES_MAX));
    let end = text[last..].iter().position(is_end);
    start..end.map_or(text.len(), |at| last + at)
}

fn tail(text: &[u8], lines_max: usize) -> String {
    let end = readable(&text[text.len().saturating_sub(REPORT_BYTES_MAX)..]);
    let lines: Vec<&str> = end.split('\n').collect();
    lines[lines.len().saturating_sub(lines_max)..].join("\n")
}

/// As upstream shows it: a match that begins or ends its line stands apart from the next one.
fn around(text: &[u8], range: &Range<usize>, matched: &str, lines_max: usize) -> String {
    let before = readable(&text[range.start.saturating_sub(REPORT_BYTES_MAX)..range.start]);
    let after = readable(&text[range.end..text.len().min(range.end + REPORT_BYTES_MAX)]);
    let before: Vec<&str> = before.split('\n').collect();
    let after: Vec<&str> = after.split('\n').collect();
    let beside = lines_max.saturating_sub(1);
    let before_max = LINES_BEFORE.max(beside.saturating_sub(after.len()));
    let before = &before[before.len().saturating_sub(before_max)..];
    let after = &after[..after.len().min(beside.saturating_sub(before_max))];

    let mut lines = before.join("\n");
    if before.last().is_some_and(|line| line.is_empty()) {
        lines.push('\n');
    }
    lines.push_str(matched);
    if after.first().is_some_and(|line| line.is_empty()) {
        lines.push('\n');
    }
    lines + &after.join("\n")
}

fn readable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n")
}

fn cut(mut text: String, bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes));
    text
}

#[cfg(test)]
mod tests {
    use super::{Excerpt, REPORT_BYTES_MAX, USER_LINES_MAX, fit};

    fn excerpt(log: &str, matched: &str) -> String {
        let at = log.find(matched).expect("the match is in the log");
        Excerpt::new(
            log.as_bytes(),
            Some(&(at..at + matched.len())),
            USER_LINES_MAX,
        )
        .lines
    }

    #[test]
    fn shows_the_lines_around_a_match() {
        let long: String = (0..30).map(|i| format!("{i}\n")).collect();
        for (log, matched, expect) in [
            ("boom\n", "boom", "\nboom\n\n".to_owned()),
            ("a: boom\nb\n", "boom", "a: boom\n\nb\n".to_owned()),
            ("a: boom!\r\nb", "boom", "a: boom!\nb".to_owned()),
            (&format!("{long}boom\n{long}"), "boom", {
                let after: Vec<String> = (0..10).map(|i| i.to_string()).collect();
                format!("28\n29\n\nboom\n\n{}", after.join("\n"))
            }),
        ] {
            assert_eq!(excerpt(log, matched), expect, "{log:?}");
        }
    }

    #[test]
    fn a_match_is_shown_with_its_whole_lines() {
        let long = "x".repeat(2000);
        for (log, matched, expect) in [
            (
                "run.sh: 3: nosuchcmd: not found\n",
                ": not found",
                "run.sh: 3: nosuchcmd: not found",
            ),
            ("a\r\nb: boom!\r\nc", "boom", "b: boom!"),
            (
                "10%\r20%\rRuntimeError: boom\n",
                "boom",
                "RuntimeError: boom",
            ),
            ("a\nb boom\n", "boom\n", "b boom"),
            ("p boom\nx\nend q\n", "boom\nx\nend", "p boom\nx\nend q"),
            (&format!("{long}boom{long}"), "boom", &{
                let before = "x".repeat(512);
                format!("{before}boom{}", "x".repeat(2048 - 512 - 4))
            }),
        ] {
            let at = log.find(matched).expect("the match is in the log");
            let range = at..at + matched.len();
            let mut excerpt = Excerpt::new(log.as_bytes(), Some(&range), USER_LINES_MAX);
            excerpt.widen(log.as_bytes(), &range);
            assert_eq!(excerpt.matched.as_deref(), Some(expect), "{log:?}");
        }
    }

    #[test]
    fn without_a_match_shows_the_last_lines() {
        let log: String = (0..30).map(|i| format!("{i}\n")).collect();
        let lines = Excerpt::new(log.as_bytes(), None, 3).lines;
        assert_eq!(lines, "28\n29\n");
    }

    #[test]
    fn fits_into_the_whole_and_keeps_the_match() {
        let filler = "\u{fc}".repeat(REPORT_BYTES_MAX);
        let log = format!("{filler}boom{filler}");
        let mut user = Excerpt::new(
            log.as_bytes(),
            Some(&(filler.len()..filler.len() + 4)),
            USER_LINES_MAX,
        );
        let mut platform = Excerpt::new(log.as_bytes(), None, USER_LINES_MAX);
        fit(&mut user, &mut platform);
        assert!(user.len() + platform.len() <= REPORT_BYTES_MAX);
        assert_eq!(user.matched.as_deref(), Some("boom"));
        assert!(user.lines.contains("boom"), "{}", user.lines);
    }
}
