//! Which texts must occur in a log for an expression to match it.
//!
//! One pass for the texts of all rules is far cheaper than one pass for each expression.

use regex_syntax::hir::{Class, Hir, HirKind};

/// A shorter text occurs too often to save anything.
const LITERAL_BYTES_MIN: usize = 3;
/// More alternatives than this are not worth listing.
const LITERALS_MAX: usize = 32;

/// Letters outside ASCII that match an ASCII letter when case is ignored. A log that holds one
/// of them must be searched without the help of literals.
pub(crate) const FOLDED_LETTERS: [char; 2] = ['\u{212a}', '\u{17f}'];

/// Texts of which each match holds at least one, in lower case; `None` if there are none.
pub(crate) fn required(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => None,
        HirKind::Literal(_) | HirKind::Class(_) => usable(vec![exact(hir)?]),
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        HirKind::Repetition(_) => None,
        HirKind::Concat(parts) => best_of_sequence(parts),
        HirKind::Alternation(branches) => all_branches(branches),
    }
}

/// Whether a match may hold a line break.
pub(crate) fn crosses_lines(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => false,
        HirKind::Literal(literal) => literal.0.contains(&b'\n'),
        HirKind::Class(Class::Unicode(class)) => class
            .iter()
            .any(|range| range.start() <= '\n' && '\n' <= range.end()),
        HirKind::Class(Class::Bytes(class)) => class
            .iter()
            .any(|range| range.start() <= b'\n' && b'\n' <= range.end()),
        HirKind::Capture(capture) => crosses_lines(&capture.sub),
        HirKind::Repetition(repetition) => crosses_lines(&repetition.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(crosses_lines),
    }
}

fn best_of_sequence(parts: &[Hir]) -> Option<Vec<Vec<u8>>> {
    let mut found: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut run: Vec<u8> = Vec::new();
    for part in parts {
        if let Some(text) = exact(part) {
            run.extend(text);
            continue;
        }
        found.extend(usable(vec![std::mem::take(&mut run)]));
        found.extend(required(part));
    }
    found.extend(usable(vec![run]));
    // The longest is the rarest; of several alternatives the shortest decides.
    found
        .into_iter()
        .max_by_key(|texts| texts.iter().map(Vec::len).min())
}

fn all_branches(branches: &[Hir]) -> Option<Vec<Vec<u8>>> {
    let mut texts = Vec::new();
    for branch in branches {
        texts.extend(required(branch)?);
    }
    usable(texts)
}

fn usable(texts: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let fits = texts.len() <= LITERALS_MAX && texts.iter().all(|t| t.len() >= LITERAL_BYTES_MIN);
    fits.then_some(texts)
}

/// The one text, but for its case, that this part matches.
fn exact(hir: &Hir) -> Option<Vec<u8>> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(Vec::new()),
        HirKind::Literal(literal) => Some(literal.0.to_ascii_lowercase()),
        HirKind::Class(Class::Unicode(class)) => {
            let mut letters = class
                .iter()
                .flat_map(|range| (range.start()..=range.end()).take(4));
            let first = folded(letters.next()?)?;
            letters
                .all(|c| folded(c) == Some(first))
                .then(|| vec![first])
        }
        HirKind::Capture(capture) => exact(&capture.sub),
        HirKind::Concat(parts) => {
            let texts: Option<Vec<Vec<u8>>> = parts.iter().map(exact).collect();
            texts.map(|texts| texts.concat())
        }
        HirKind::Class(Class::Bytes(_)) | HirKind::Repetition(_) | HirKind::Alternation(_) => None,
    }
}

fn folded(letter: char) -> Option<u8> {
    match letter {
        '\u{212a}' => Some(b'k'),
        '\u{17f}' => Some(b's'),
        _ => u8::try_from(letter)
            .ok()
            .filter(u8::is_ascii)
            .map(|b| b.to_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::{crosses_lines, required};

    fn texts(pattern: &str) -> Option<Vec<String>> {
        let hir = regex_syntax::parse(pattern).expect(pattern);
        let found = required(&hir)?;
        Some(
            found
                .into_iter()
                .map(|t| String::from_utf8(t).expect("ascii"))
                .collect(),
        )
    }

    #[test]
    fn finds_what_each_match_must_hold() {
        for (pattern, expect) in [
            ("(?i)Segmentation Fault", vec!["segmentation fault"]),
            (
                "(?mi)tensorflow.*ResourceExhaustedError.*OOM.*",
                vec!["resourceexhaustederror"],
            ),
            (
                "(?i)(?:disk quota|no space left)",
                vec!["disk quota", "no space left"],
            ),
            ("^(?:Module|Import)?Error: x", vec!["error: x"]),
            ("(?:abc)+d?", vec!["abc"]),
        ] {
            assert_eq!(
                texts(pattern),
                Some(expect.iter().map(ToString::to_string).collect()),
                "{pattern}"
            );
        }
        for pattern in ["(?ms).*", "", "[a-z]+", "ab|long enough", "(?:abc)*"] {
            assert_eq!(texts(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn knows_what_stays_on_its_line() {
        for (pattern, crosses) in [
            ("a.*b", false),
            ("(?s)a.*b", true),
            (r"a\s+b", true),
            ("a[^x]b", true),
            ("(?m)^a$", false),
        ] {
            assert_eq!(
                crosses_lines(&regex_syntax::parse(pattern).expect(pattern)),
                crosses,
                "{pattern}"
            );
        }
    }
}
