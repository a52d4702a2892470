//! From Go's regular expressions, in which OpenPAI's rules are written, to this library's.
//!
//! The two share their engine's limits (no look-around, no backreferences) and nearly all of
//! their syntax. What differs and is rewritten here: `\d \w \s \b` are ASCII in Go, `\Q..\E`
//! quotes, a brace that counts nothing is a plain brace, `\<` is a plain `<`, and inside a
//! class neither `[` nor `&&` nor `~~` means anything.

use std::iter::Peekable;
use std::str::Chars;

/// Rewrites `pattern` from Go's dialect. What is wrong in it stays wrong and is found later.
pub(crate) fn from_go(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => outside_escape(&mut rest, &mut out),
            '[' => class(&mut rest, &mut out),
            '{' if !counts(rest.clone()) => out.push_str("\\{"),
            _ => out.push(c),
        }
    }
    out
}

fn outside_escape(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    match rest.peek() {
        Some('Q') => {
            rest.next();
            quoted(rest, out);
        }
        Some('b') => replace(rest, out, r"(?-u:\b)"),
        Some('B') => replace(rest, out, r"(?-u:\B)"),
        Some('C') => replace(rest, out, "(?s:.)"),
        Some('w') => replace(rest, out, "(?-i:[0-9A-Za-z_])"),
        Some('W') => replace(rest, out, "(?-i:[^0-9A-Za-z_])"),
        _ => shared_escape(rest, out),
    }
}

/// The escapes that read the same outside and inside a class.
fn shared_escape(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    match rest.next() {
        Some('d') => out.push_str("[0-9]"),
        Some('D') => out.push_str("[^0-9]"),
        Some('s') => out.push_str(r"[\t\n\x0C\r ]"),
        Some('S') => out.push_str(r"[^\t\n\x0C\r ]"),
        Some('w') => out.push_str("[0-9A-Za-z_]"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        Some(c @ ('<' | '>')) => out.push(c),
        Some(c) => out.extend(['\\', c]),
        None => out.push('\\'),
    }
}

fn replace(rest: &mut Peekable<Chars<'_>>, out: &mut String, with: &str) {
    rest.next();
    out.push_str(with);
}

fn quoted(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    while let Some(c) = rest.next() {
        if c == '\\' && rest.peek() == Some(&'E') {
            rest.next();
            return;
        }
        out.push_str(&regex_syntax::escape(c.encode_utf8(&mut [0; 4])));
    }
}

fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    if rest.next_if_eq(&']').is_some() {
        out.push_str("\\]");
    }
    while let Some(c) = rest.next() {
        match c {
            ']' => {
                out.push(']');
                return;
            }
            '[' if rest.peek() == Some(&':') => named_class(rest, out),
            '[' | '&' | '~' => out.extend(['\\', c]),
            '\\' => shared_escape(rest, out),
            _ => out.push(c),
        }
    }
}

/// Copies `[:alpha:]` after its first bracket, or escapes the bracket if it is none.
fn named_class(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    let name: String = rest
        .clone()
        .skip(1)
        .take_while(|c| c.is_ascii_lowercase() || *c == '^')
        .collect();
    if !rest.clone().skip(1 + name.len()).take(2).eq([':', ']']) {
        out.push_str("\\[");
        return;
    }
    out.push('[');
    out.extend(rest.by_ref().take(name.len() + 3));
}

/// Whether what follows an opening brace makes it a count: `{2}`, `{2,}` or `{2,5}`.
fn counts(rest: Peekable<Chars<'_>>) -> bool {
    let inner: String = rest
        .take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '}'))
        .collect();
    let Some((count, _)) = inner.split_once('}') else {
        return false;
    };
    let (low, high) = count.split_once(',').unwrap_or((count, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

#[cfg(test)]
mod tests {
    use super::from_go;

    #[test]
    fn rewrites_what_differs_and_keeps_the_rest() {
        for (go, ours) in [
            ("(?i)core dumped", "(?i)core dumped"),
            (r"\d+\.\d", r"[0-9]+\.[0-9]"),
            (r"\bGPU\b", r"(?-u:\b)GPU(?-u:\b)"),
            (r"\Qa.b(c)\E+", r"a\.b\(c\)+"),
            (r"\Qnever closed(", r"never closed\("),
            ("a{2,5}b{2}c{2,}", "a{2,5}b{2}c{2,}"),
            ("{name} {,5} {", r"\{name} \{,5} \{"),
            (r"\<tag\>", "<tag>"),
            ("[[]", r"[\[]"),
            ("[]a]", r"[\]a]"),
            ("[^]a]", r"[^\]a]"),
            ("[[:alpha:]_]", "[[:alpha:]_]"),
            ("[[:alpha]", r"[\[:alpha]"),
            ("[a&&b~~]", r"[a\&\&b\~\~]"),
            (r"[\d\s]", r"[[0-9][\t\n\x0C\r ]]"),
        ] {
            assert_eq!(from_go(go), ours, "{go}");
            assert!(regex::bytes::Regex::new(ours).is_ok(), "{ours}");
        }
    }
}
