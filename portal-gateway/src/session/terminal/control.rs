//! What programs ask of a terminal besides drawing: its title, its bell, how it pastes, and questions that it answers.

use avt::Parser;
use avt::parser::{Function, State};

/// Characters of a control sequence that are looked at.
const SEQUENCE_CHARS_MAX: usize = 64;
/// Characters of a title.
const TITLE_CHARS_MAX: usize = 200;

/// What a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ControlRequest {
    Bell,
    Title(String),
    /// Whether pasted text is to be marked as such (`?2004`).
    BracketPastes(bool),
    /// Whether the terminal is well.
    Status,
    /// Where the cursor is; `?` is repeated in the answer.
    Position {
        is_private: bool,
    },
    /// What the terminal is.
    Attributes,
    /// Of which make it is.
    Version,
}

/// Reads characters: what is drawn, and what is asked for.
#[derive(Debug, Default)]
pub(super) struct ControlReader {
    parser: Parser,
    /// The control sequence or title that is underway, as far as it is looked at.
    sequence: String,
}

impl ControlReader {
    /// What the next character completes.
    pub(super) fn read(&mut self, c: char) -> (Option<Function>, Option<ControlRequest>) {
        let before = self.parser.state;
        let function = self.parser.feed(c);
        let request = match (before, self.parser.state) {
            (State::Ground, State::Ground) if c == '\u{7}' => Some(ControlRequest::Bell),
            (State::OscString, State::OscString) => {
                self.note(c, TITLE_CHARS_MAX);
                None
            }
            // Anything but the two ends breaks it off.
            (State::OscString, _) if ['\u{7}', '\u{1b}', '\u{9c}'].contains(&c) => {
                title(&self.sequence)
            }
            (State::CsiEntry | State::CsiParam | State::CsiIntermediate, State::Ground) => {
                question(&self.sequence, c)
            }
            (_, State::CsiEntry | State::OscString) => {
                self.sequence.clear();
                None
            }
            (_, State::CsiParam | State::CsiIntermediate) => {
                self.note(c, SEQUENCE_CHARS_MAX);
                None
            }
            _ => None,
        };
        (function, request)
    }

    fn note(&mut self, c: char, max: usize) {
        if !c.is_control() && self.sequence.chars().count() < max {
            self.sequence.push(c);
        }
    }
}

fn title(sequence: &str) -> Option<ControlRequest> {
    let (kind, text) = sequence.split_once(';')?;
    matches!(kind, "0" | "2").then(|| ControlRequest::Title(text.to_owned()))
}

fn question(parameters: &str, end: char) -> Option<ControlRequest> {
    match (parameters, end) {
        ("5", 'n') => Some(ControlRequest::Status),
        ("6", 'n') => Some(ControlRequest::Position { is_private: false }),
        ("?6", 'n') => Some(ControlRequest::Position { is_private: true }),
        ("" | "0", 'c') => Some(ControlRequest::Attributes),
        (">" | ">0", 'c') => Some(ControlRequest::Version),
        (_, 'h' | 'l') => {
            let mut modes = parameters.strip_prefix('?')?.split(';');
            let is_named = modes.any(|mode| mode == "2004");
            is_named.then_some(ControlRequest::BracketPastes(end == 'h'))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Vec<ControlRequest> {
        let mut reader = ControlReader::default();
        let requests = text.chars().filter_map(|c| reader.read(c).1);
        requests.collect()
    }

    #[test]
    fn requests_are_found_between_what_is_drawn() {
        use ControlRequest::*;
        let title = |text: &str| Title(text.to_owned());
        for (text, expect) in [
            ("a\u{7}b", vec![Bell]),
            (
                "\u{1b}]0;a;b\u{7}\u{1b}]2;c\u{1b}\\x",
                vec![title("a;b"), title("c")],
            ),
            // No title, one that is broken off, and the name of an icon.
            (
                "\u{1b}]52;c;QQ==\u{7}\u{1b}]0;a\u{18}\u{1b}]1;i\u{7}",
                vec![],
            ),
            (
                "\u{1b}[?2004h\u{1b}[?1;2004l",
                vec![BracketPastes(true), BracketPastes(false)],
            ),
            (
                "\u{1b}[5n\u{1b}[6n",
                vec![Status, Position { is_private: false }],
            ),
            ("\u{1b}[?6n", vec![Position { is_private: true }]),
            (
                "\u{1b}[c\u{1b}[0c\u{1b}[>c",
                vec![Attributes, Attributes, Version],
            ),
            ("\u{1b}[2004h\u{1b}[1;31m\u{1b}[?25l\u{1b}[6\u{18}n", vec![]),
        ] {
            assert_eq!(asked(text), expect, "{text:?}");
        }
    }

    #[test]
    fn a_title_without_end_does_not_grow() {
        let mut reader = ControlReader::default();
        let text = format!("\u{1b}]0;{}", "x".repeat(100_000));
        assert!(text.chars().all(|c| reader.read(c).1.is_none()));
        assert!(reader.sequence.len() <= TITLE_CHARS_MAX);
    }
}
