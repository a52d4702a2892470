//! One compiled expression.

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;

use crate::{dialect, literals};

/// The longest expression a rule may hold, in characters.
pub const PATTERN_CHARS_MAX: usize = 4096;
/// The most memory one compiled expression may take, in bytes.
pub const PATTERN_COMPILED_BYTES_MAX: usize = 1 << 20;
/// Memory for the states that a search makes as it goes. Too little, and long logs are searched
/// hundreds of times more slowly.
const SEARCH_CACHE_BYTES: usize = 8 << 20;
/// How deep groups may nest.
const NESTING_MAX: u32 = 100;

/// An expression in Go's dialect, compiled, and what is known about its matches.
#[derive(Clone, Debug)]
pub(crate) struct CompiledPattern {
    pub(crate) regex: Regex,
    /// In lower case; each match holds one of them.
    pub(crate) literals: Option<Vec<Vec<u8>>>,
    /// A match lies within one line.
    pub(crate) line_bound: bool,
}

impl CompiledPattern {
    /// Compiles `text`, or says in words what is wrong with it.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        if text.chars().count() > PATTERN_CHARS_MAX {
            return Err(format!(
                "longer than {PATTERN_CHARS_MAX} characters; split it into several patterns"
            ));
        }
        let ours = dialect::from_go(text);
        let hir = parse(&ours)?;
        let regex = build(&ours)?;
        Ok(Self {
            regex,
            literals: literals::required(&hir),
            line_bound: !literals::crosses_lines(&hir),
        })
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text.as_bytes())
    }
}

fn parse(pattern: &str) -> Result<Hir, String> {
    let mut parser = ParserBuilder::new()
        .utf8(false)
        .nest_limit(NESTING_MAX)
        .build();
    parser.parse(pattern).map_err(|error| explain(&error))
}

fn build(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_COMPILED_BYTES_MAX)
        .dfa_size_limit(SEARCH_CACHE_BYTES)
        .nest_limit(NESTING_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(limit) => {
                format!(
                    "takes more than {limit} bytes once compiled; use smaller counts in {{n,m}}"
                )
            }
            other => other.to_string(),
        })
}

fn explain(error: &regex_syntax::Error) -> String {
    use regex_syntax::ast::ErrorKind;
    let regex_syntax::Error::Parse(error) = error else {
        return last_line_of(&error.to_string());
    };
    match error.kind() {
        ErrorKind::UnsupportedLookAround => {
            "look-around such as (?=..), (?!..), (?<=..) or (?<!..) is not \
             supported, as in OpenPAI; match the surrounding text too, or write two patterns"
                .to_owned()
        }
        ErrorKind::UnsupportedBackreference => {
            "backreferences such as \\1 are not supported, as in OpenPAI; \
             write out the text, or escape the backslash as \\\\"
                .to_owned()
        }
        kind => format!(
            "bad expression at character {}: {kind}",
            error.span().start.column
        ),
    }
}

/// A parser's message is a drawing of many lines whose last one says what is wrong.
fn last_line_of(message: &str) -> String {
    message
        .lines()
        .last()
        .unwrap_or(message)
        .trim_start_matches("error: ")
        .to_owned()
}
