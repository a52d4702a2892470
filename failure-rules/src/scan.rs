//! The expressions for one log, and one log searched for them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use crate::finder::Finder;
use crate::literals::FOLDED_LETTERS;
use crate::pattern::CompiledPattern;

/// The end of each log that is looked at, in bytes.
pub const LOG_BYTES_MAX: usize = 10 << 20;

/// Which expression of a [`LogPatterns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatternId(pub(crate) usize);

/// All expressions that look at the same log.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogPatterns {
    patterns: Vec<CompiledPattern>,
    /// Finds the literals of all expressions in one pass.
    finder: Option<Finder>,
    /// For each literal of the finder, the expressions that need it.
    owners: Vec<Vec<usize>>,
}

impl LogPatterns {
    pub(crate) fn push(&mut self, pattern: CompiledPattern) -> PatternId {
        self.patterns.push(pattern);
        PatternId(self.patterns.len() - 1)
    }

    /// Builds the finder. Without it every search tries every expression.
    pub(crate) fn finish(&mut self) {
        let mut texts: Vec<&[u8]> = Vec::new();
        let mut owners: Vec<Vec<usize>> = Vec::new();
        for (index, pattern) in self.patterns.iter().enumerate() {
            for text in pattern.literals.iter().flatten() {
                match texts.iter().position(|known| known == text) {
                    Some(at) => owners[at].push(index),
                    None => {
                        texts.push(text);
                        owners.push(vec![index]);
                    }
                }
            }
        }
        self.finder = Finder::new(&texts);
        self.owners = owners;
    }

    /// Prepares a search of the end of `log`. Nothing is read before the first question.
    pub(crate) fn scan<'a>(&'a self, log: &'a [u8]) -> Scan<'a> {
        Scan {
            patterns: self,
            log: scanned(log),
            text: OnceCell::new(),
            starts: OnceCell::new(),
        }
    }

    /// Where the search for each expression must begin; `None` where it cannot match.
    fn starts(&self, text: &[u8]) -> Vec<Option<usize>> {
        let Some(finder) = self.finder.as_ref().filter(|_| !holds_folded_letter(text)) else {
            return vec![Some(0); self.patterns.len()];
        };
        let mut starts: Vec<Option<usize>> = self
            .patterns
            .iter()
            .map(|p| p.literals.is_none().then_some(0))
            .collect();
        for (hit, owners) in finder.first_hits(text).into_iter().zip(&self.owners) {
            let Some(hit) = hit else { continue };
            for &owner in owners {
                let start = self.patterns[owner].start_for(text, hit);
                starts[owner] = Some(starts[owner].map_or(start, |known| known.min(start)));
            }
        }
        starts
    }
}

impl CompiledPattern {
    fn start_for(&self, text: &[u8], hit: usize) -> usize {
        if !self.line_bound {
            return 0;
        }
        text[..hit]
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1)
    }
}

fn holds_folded_letter(text: &[u8]) -> bool {
    FOLDED_LETTERS.iter().any(|letter| {
        let mut bytes = [0; 4];
        memchr::memmem::find(text, letter.encode_utf8(&mut bytes).as_bytes()).is_some()
    })
}

/// All expressions that look at parts of a log's end.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndPatterns(LogPatterns);

/// Which of them can match in an end at all.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndScan(Vec<bool>);

impl EndPatterns {
    pub(crate) fn push(&mut self, pattern: CompiledPattern) -> PatternId {
        self.0.push(pattern)
    }

    pub(crate) fn finish(&mut self) {
        self.0.finish();
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.patterns.is_empty()
    }

    /// Rules out, in one pass, expressions whose literals are not in the end.
    pub(crate) fn scan(&self, text: &[u8]) -> EndScan {
        let starts = self.0.starts(text);
        EndScan(starts.iter().map(Option::is_some).collect())
    }

    /// The first match within a part, which the expression takes for the whole text.
    pub(crate) fn find(
        &self,
        scan: &EndScan,
        id: PatternId,
        (text, within): (&[u8], &Range<usize>),
    ) -> Option<Range<usize>> {
        if !*scan.0.get(id.0)? {
            return None;
        }
        let found = self.0.patterns[id.0].regex.find(&text[within.clone()])?;
        Some(within.start + found.start()..within.start + found.end())
    }
}

/// One log, searched for the expressions that look at it.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    patterns: &'a LogPatterns,
    log: &'a [u8],
    text: OnceCell<Cow<'a, [u8]>>,
    starts: OnceCell<Vec<Option<usize>>>,
}

impl Scan<'_> {
    /// The end of the log, each byte that is not UTF-8 replaced by U+FFFD, as Go reads it.
    pub(crate) fn text(&self) -> &[u8] {
        self.text.get_or_init(|| as_go_reads(self.log))
    }

    /// The first match in the log, or in its `last_lines`.
    pub(crate) fn find(&self, id: PatternId, last_lines: Option<usize>) -> Option<Range<usize>> {
        let text = self.text();
        let start = self.starts.get_or_init(|| self.patterns.starts(text))[id.0]?;
        let from = last_lines.map_or(0, |lines| start_of_last_lines(text, lines));
        let found = self.patterns.patterns[id.0]
            .regex
            .find_at(text, start.max(from))?;
        Some(found.range())
    }
}

/// The end of a log that is looked at.
pub(crate) fn scanned(log: &[u8]) -> &[u8] {
    &log[log.len().saturating_sub(LOG_BYTES_MAX)..]
}

fn as_go_reads(log: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(log).is_ok() {
        return Cow::Borrowed(log);
    }
    let mut text = Vec::with_capacity(log.len() + log.len() / 8);
    for chunk in log.utf8_chunks() {
        text.extend_from_slice(chunk.valid().as_bytes());
        for _ in chunk.invalid() {
            text.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    Cow::Owned(text)
}

/// Where the last `lines` lines begin; a line break at the very end begins no line.
fn start_of_last_lines(text: &[u8], lines: usize) -> usize {
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let breaks = memchr::memrchr_iter(b'\n', body);
    breaks
        .take(lines)
        .nth(lines.saturating_sub(1))
        .map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::{LogPatterns, PatternId, as_go_reads, start_of_last_lines};
    use crate::pattern::CompiledPattern;
    use crate::ruleset::RuleSet;

    fn first_match(pattern: &str, log: &[u8]) -> Option<String> {
        let mut patterns = LogPatterns::default();
        // A second one that always needs the whole log must not change the first's answer.
        let id = patterns.push(CompiledPattern::compile(pattern).expect(pattern));
        patterns.push(CompiledPattern::compile("(?s).*").expect("any"));
        patterns.finish();
        let scan = patterns.scan(log);
        let range = scan.find(id, None)?;
        Some(String::from_utf8_lossy(&scan.text()[range]).into_owned())
    }

    #[test]
    fn finds_the_leftmost_match_with_gos_meaning() {
        for (pattern, log, expect) in [
            (
                "(?i)core dumped",
                &b"a\nCore Dumped\ncore dumped"[..],
                Some("Core Dumped"),
            ),
            (
                "(?mi)^x.*error$",
                b"error\nx1 error\nx2 error",
                Some("x1 error"),
            ),
            ("(?s)abc.*xyz", b"abc\n\nxyz", Some("abc\n\nxyz")),
            ("abc.*xyz", b"abc\n\nxyz", None),
            // One U+FFFD for each bad byte.
            (
                "abc..def",
                b"abc\xff\xfedef",
                Some("abc\u{fffd}\u{fffd}def"),
            ),
            ("abc.def", b"abc\xff\xfedef", None),
            // `\w` and `\b` are ASCII, letters that fold into ASCII are found all the same.
            (r"abc\w", "abc\u{e9}".as_bytes(), None),
            (r"abc\b", "abc\u{e9}".as_bytes(), Some("abc")),
            ("(?i)kill", "\u{212a}ill".as_bytes(), Some("\u{212a}ill")),
        ] {
            assert_eq!(first_match(pattern, log).as_deref(), expect, "{pattern}");
        }
    }

    #[test]
    fn what_is_skipped_could_not_have_matched() {
        let patterns = &RuleSet::shipped().contents().user_log;
        let pieces = [
            "Traceback (most recent call last):\n  x\n",
            "ImportError: x\n",
            "IndexError: out of range",
            "tensorflow\n",
            "ResourceExhaustedError OOM\n",
            "CORE DUMPED",
            "\u{17f}egmentation Fault",
            "command not found\r\n",
            "\n",
        ];
        for seed in 0..400_usize {
            let log: String = (0..12)
                .map(|i| pieces[(seed * 7 + seed / 9 * i * i + i) % pieces.len()])
                .collect();
            let scan = patterns.scan(log.as_bytes());
            for (index, pattern) in patterns.patterns.iter().enumerate() {
                let plain = pattern
                    .regex
                    .find(log.as_bytes())
                    .map(|found| found.range());
                assert_eq!(
                    scan.find(PatternId(index), None),
                    plain,
                    "{} in {log:?}",
                    pattern.regex
                );
            }
        }
    }

    #[test]
    fn counts_lines_from_the_end() {
        for (text, lines, expect) in [
            ("a\nb\nc\n", 1, "c\n"),
            ("a\nb\nc", 2, "b\nc"),
            ("a\nb\nc\n", 3, "a\nb\nc\n"),
            ("a\nb\n", 9, "a\nb\n"),
            ("", 1, ""),
        ] {
            assert_eq!(
                &text[start_of_last_lines(text.as_bytes(), lines)..],
                expect,
                "{text:?} {lines}"
            );
        }
    }

    #[test]
    fn valid_text_is_not_copied() {
        assert!(matches!(
            as_go_reads("gr\u{fc}n".as_bytes()),
            std::borrow::Cow::Borrowed(_)
        ));
    }
}
