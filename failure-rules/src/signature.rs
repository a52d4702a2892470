//! The line by which failures that no rule knows are told apart: two failures of one kind differ in numbers and paths.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::ending::Ending;
use crate::inside::UNCAUGHT;
use crate::ruleset::RuleSet;

/// As much of a line as tells failures apart, in bytes.
pub const SIGNATURE_BYTES_MAX: usize = 240;

/// The parts of a line that differ between failures of one kind. A path is one only where a word begins: `and/or` is none.
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
    let path = r#"(?P<path>(?:[A-Za-z][A-Za-z0-9+.\-]*:/|[.~]{0,2})/[^\s'"`,;:)\]}>]+)"#;
    let hex = r"(?P<hex>0x[0-9a-fA-F]+)";
    let number = r"(?P<number>[0-9]+)";
    match Regex::new(&format!("(?:{path}|{hex}|{number})")) {
        Ok(regex) => regex,
        Err(error) => unreachable!("the expression is part of the program: {error}"),
    }
});

/// What a failed command's log ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSignature {
    /// The line as it is, at most [`SIGNATURE_BYTES_MAX`].
    pub line: String,
    /// The same with `N` for digits and `PATH` for paths: equal for failures of one kind.
    pub text: String,
    /// An expression that matches the line, and others of its kind.
    pub pattern: String,
}

impl LogSignature {
    fn of(line: &str) -> Option<Self> {
        let line = line.trim();
        let line = &line[..line.floor_char_boundary(SIGNATURE_BYTES_MAX)];
        if line.is_empty() {
            return None;
        }
        let (mut text, mut pattern) = (String::new(), String::new());
        let (mut from, mut at) = (0, 0);
        while let Some(found) = VARIABLE.captures_at(line, at) {
            let Some(whole) = found.get(0) else { break };
            let (word, expression) = match (found.name("path"), found.name("hex")) {
                (Some(_), _) if begins_word(line, whole.start()) => ("PATH", r"\S+"),
                (Some(_), _) => {
                    at = whole.start() + 1;
                    continue;
                }
                (_, Some(_)) => ("N", "0x[0-9a-fA-F]+"),
                _ => ("N", r"\d+"),
            };
            let literal = &line[from..whole.start()];
            text.push_str(literal);
            text.push_str(word);
            pattern.push_str(&regex::escape(literal));
            pattern.push_str(expression);
            from = whole.end();
            at = from;
        }
        text.push_str(&line[from..]);
        pattern.push_str(&regex::escape(&line[from..]));
        Some(Self {
            line: line.to_owned(),
            text,
            pattern,
        })
    }
}

/// Whether a word begins here, and is not a part of one.
fn begins_word(line: &str, at: usize) -> bool {
    let before = line[..at].chars().next_back();
    before.is_none_or(|before| !before.is_alphanumeric() && !"_-.".contains(before))
}

impl RuleSet {
    /// What the log of a failed command ends with: the first line of the error that ended it, or else its last line
    /// that is no launcher's report. None if it says nothing.
    pub fn signature(&self, user_log: &[u8]) -> Option<LogSignature> {
        let ending = Ending::read(user_log, UNCAUGHT, &self.contents().harmless);
        let line = |range: &Range<usize>| {
            let text = String::from_utf8_lossy(&ending.text()[range.clone()]);
            LogSignature::of(text.lines().find(|line| !line.trim().is_empty())?)
        };
        let of_error = ending.error.as_ref().map(|error| &error.message);
        of_error
            .and_then(line)
            .or_else(|| ending.closing.iter().rev().find_map(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(log: &str) -> Option<LogSignature> {
        RuleSet::shipped().signature(log.as_bytes())
    }

    #[test]
    fn failures_of_one_kind_have_one_signature() {
        for (line, text) in [
            ("flux 12 of 7 is low", "flux N of N is low"),
            ("rank3: no flux at 0x7ffe12", "rankN: no flux at N"),
            (
                "cannot open '/data/run 1/x.bin'",
                "cannot open 'PATH N/x.bin'",
            ),
            ("see ../logs/a_1.txt, then go", "see PATH, then go"),
            ("gone: s3://bucket/key/7", "gone: PATH"),
            ("true and/or false of gpu/3", "true and/or false of gpu/N"),
            ("loss=1.5e-3 (nan)", "loss=N.Ne-N (nan)"),
        ] {
            let found = LogSignature::of(line).unwrap();
            assert_eq!(found.text, text);
            assert_eq!(found.line, line);
            let pattern = Regex::new(&found.pattern).unwrap();
            assert!(pattern.is_match(line), "{}: {line}", found.pattern);
        }
        assert_eq!(LogSignature::of("  "), None);
        let long = "\u{fc}".repeat(SIGNATURE_BYTES_MAX);
        assert_eq!(
            LogSignature::of(&long).unwrap().line.len(),
            SIGNATURE_BYTES_MAX
        );
    }

    #[test]
    fn the_pattern_matches_the_next_failure_too() {
        let pattern = LogSignature::of("out of flux (3 left) in /a/b.py").unwrap();
        let pattern = Regex::new(&pattern.pattern).unwrap();
        assert!(pattern.is_match("out of flux (41 left) in /c/d/e.py"));
        assert!(!pattern.is_match("out of luck (41 left) in /c/d/e.py"));
    }

    #[test]
    fn a_launchers_report_is_no_signature() {
        let text = |log: &str| signature(log).map(|found| found.text);
        let reported = "step 7\nthe flux is empty\nmake: *** [Makefile:3: run] Error 2\n";
        assert_eq!(text(reported).as_deref(), Some("the flux is empty"));
        let traceback = "Traceback (most recent call last):\n  File \"/a/b.py\", line 3, in <module>\n    go()\n\
                         FluxError: flux 12 is low\n";
        assert_eq!(text(traceback).as_deref(), Some("FluxError: flux N is low"));
        assert_eq!(text("\n\n"), None);
        assert_eq!(text(""), None);
    }
}
