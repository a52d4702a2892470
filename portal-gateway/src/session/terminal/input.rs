//! What a browser sends from a terminal, and what a program reads of it.

use muster_model::session::TerminalSize;
use serde::Deserialize;

const SHIFT: u8 = 1;
const ALT: u8 = 2;
const CONTROL: u8 = 4;
/// What marks pasted text, before it and behind it.
const PASTE_BEGIN: &str = "\u{1b}[200~";
const PASTE_END: &str = "\u{1b}[201~";

/// A message of the browser.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TerminalInput {
    /// A key by the name that browsers give it, with the keys that are held: 1 Shift, 2 Alt, 4 Control.
    Key(String, u8),
    /// Text that was typed.
    Text(String),
    Paste(String),
    /// The columns and rows that the page has room for.
    Size(u16, u16),
    /// A message from here was shown.
    Seen,
}

/// How the program wants to be written to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InputModes {
    /// Cursor keys send what programs on a whole screen ask for (DECCKM).
    pub(super) application_keys: bool,
    /// Pasted text is marked as such.
    pub(super) bracketed_paste: bool,
}

impl TerminalInput {
    /// What the program reads of it: nothing where it is not for the program, or is a key that sends nothing.
    pub(super) fn bytes(&self, modes: InputModes) -> Vec<u8> {
        match self {
            Self::Key(name, held) => key(name, *held, modes.application_keys).into_bytes(),
            Self::Text(text) => returns(text).into_bytes(),
            Self::Paste(text) => pasted(text, modes.bracketed_paste).into_bytes(),
            Self::Size(..) | Self::Seen => Vec::new(),
        }
    }

    /// The size that the page has room for, if that is what it tells.
    pub(super) fn size(&self) -> Option<TerminalSize> {
        match *self {
            Self::Size(width, height) => Some(TerminalSize { width, height }),
            _ => None,
        }
    }
}

/// A line that was typed ends with what the key Enter sends.
fn returns(text: &str) -> String {
    text.replace("\r\n", "\r").replace('\n', "\r")
}

/// Control characters do not come from a clipboard: a page could have put commands there, or the end of the mark.
fn pasted(text: &str, is_bracketed: bool) -> String {
    let is_kept = |c: &char| !c.is_control() || ['\r', '\n', '\t'].contains(c);
    let text: String = returns(text).chars().filter(is_kept).collect();
    match is_bracketed {
        true => format!("{PASTE_BEGIN}{text}{PASTE_END}"),
        false => text,
    }
}

/// What xterm sends for a key.
fn key(name: &str, held: u8, is_application: bool) -> String {
    if let Some(c) = single(name) {
        return character(c, held);
    }
    let alt = if held & ALT == 0 { "" } else { "\u{1b}" };
    match name {
        "Enter" => format!("{alt}\r"),
        "Escape" => format!("{alt}\u{1b}"),
        "Tab" if held & SHIFT != 0 => "\u{1b}[Z".to_owned(),
        "Tab" => format!("{alt}\t"),
        "Backspace" if held & CONTROL != 0 => format!("{alt}\u{8}"),
        "Backspace" => format!("{alt}\u{7f}"),
        _ => special(name, held, is_application).unwrap_or_default(),
    }
}

/// Cursor and function keys. One that is held with others sends their sum, plus one.
fn special(name: &str, held: u8, is_application: bool) -> Option<String> {
    let held = (held & (SHIFT | ALT | CONTROL)) + 1;
    let lettered = match name {
        "ArrowUp" => Some(('A', is_application)),
        "ArrowDown" => Some(('B', is_application)),
        "ArrowRight" => Some(('C', is_application)),
        "ArrowLeft" => Some(('D', is_application)),
        "Home" => Some(('H', is_application)),
        "End" => Some(('F', is_application)),
        "F1" => Some(('P', true)),
        "F2" => Some(('Q', true)),
        "F3" => Some(('R', true)),
        "F4" => Some(('S', true)),
        _ => None,
    };
    if let Some((letter, is_short)) = lettered {
        return Some(match (held, is_short) {
            (1, true) => format!("\u{1b}O{letter}"),
            (1, false) => format!("\u{1b}[{letter}"),
            _ => format!("\u{1b}[1;{held}{letter}"),
        });
    }
    let number = match name {
        "Insert" => 2,
        "Delete" => 3,
        "PageUp" => 5,
        "PageDown" => 6,
        "F5" => 15,
        "F6" => 17,
        "F7" => 18,
        "F8" => 19,
        "F9" => 20,
        "F10" => 21,
        "F11" => 23,
        "F12" => 24,
        _ => return None,
    };
    Some(match held {
        1 => format!("\u{1b}[{number}~"),
        _ => format!("\u{1b}[{number};{held}~"),
    })
}

fn single(name: &str) -> Option<char> {
    let mut characters = name.chars();
    let first = characters.next()?;
    characters.next().is_none().then_some(first)
}

/// A character with Control or Alt held. Control with what has no control character sends nothing.
fn character(c: char, held: u8) -> String {
    let sent = match held & CONTROL {
        0 => Some(c),
        _ => controlled(c),
    };
    match (sent, held & ALT) {
        (None, _) => String::new(),
        (Some(c), 0) => c.to_string(),
        (Some(c), _) => format!("\u{1b}{c}"),
    }
}

fn controlled(c: char) -> Option<char> {
    match c {
        '@'..='_' | 'a'..='z' => u8::try_from(c).ok().map(|byte| char::from(byte & 0x1f)),
        ' ' | '2' => Some('\0'),
        '3'..='7' => u8::try_from(c)
            .ok()
            .map(|byte| char::from(byte - b'3' + 0x1b)),
        '/' => Some('\u{1f}'),
        '8' | '?' => Some('\u{7f}'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: InputModes = InputModes {
        application_keys: false,
        bracketed_paste: false,
    };
    const ASKED_FOR: InputModes = InputModes {
        application_keys: true,
        bracketed_paste: true,
    };

    fn sent(message: &str, modes: InputModes) -> String {
        let input: TerminalInput = serde_json::from_str(message).unwrap();
        String::from_utf8(input.bytes(modes)).unwrap()
    }

    #[test]
    fn keys_send_what_those_of_xterm_do() {
        for (name, held, plain, asked_for) in [
            ("ArrowUp", 0, "\u{1b}[A", "\u{1b}OA"),
            ("End", 0, "\u{1b}[F", "\u{1b}OF"),
            ("ArrowLeft", 4, "\u{1b}[1;5D", "\u{1b}[1;5D"),
            ("F1", 0, "\u{1b}OP", "\u{1b}OP"),
            ("F4", 1, "\u{1b}[1;2S", "\u{1b}[1;2S"),
            ("F10", 0, "\u{1b}[21~", "\u{1b}[21~"),
            ("Delete", 6, "\u{1b}[3;7~", "\u{1b}[3;7~"),
            ("PageUp", 0, "\u{1b}[5~", "\u{1b}[5~"),
            ("Enter", 0, "\r", "\r"),
            ("Enter", 2, "\u{1b}\r", "\u{1b}\r"),
            ("Tab", 0, "\t", "\t"),
            ("Tab", 1, "\u{1b}[Z", "\u{1b}[Z"),
            ("Escape", 0, "\u{1b}", "\u{1b}"),
            ("Backspace", 0, "\u{7f}", "\u{7f}"),
            ("Backspace", 4, "\u{8}", "\u{8}"),
            ("c", 4, "\u{3}", "\u{3}"),
            ("D", 4, "\u{4}", "\u{4}"),
            ("[", 4, "\u{1b}", "\u{1b}"),
            ("\\\\", 4, "\u{1c}", "\u{1c}"),
            (" ", 4, "\0", "\0"),
            ("/", 4, "\u{1f}", "\u{1f}"),
            ("7", 4, "\u{1f}", "\u{1f}"),
            ("?", 4, "\u{7f}", "\u{7f}"),
            ("b", 2, "\u{1b}b", "\u{1b}b"),
            ("b", 6, "\u{1b}\u{2}", "\u{1b}\u{2}"),
            ("ä", 4, "", ""),
            ("CapsLock", 0, "", ""),
        ] {
            let message = format!("{{\"key\":[\"{name}\",{held}]}}");
            assert_eq!(sent(&message, PLAIN), plain, "{message}");
            assert_eq!(sent(&message, ASKED_FOR), asked_for, "{message}");
        }
    }

    #[test]
    fn a_paste_holds_no_commands() {
        let message = "{\"paste\":\"a\\r\\nb\\n\\u001b[201~rm\\u0003\\tä\"}";
        assert_eq!(sent(message, PLAIN), "a\rb\r[201~rm\tä");
        let marked = "\u{1b}[200~a\rb\r[201~rm\tä\u{1b}[201~";
        assert_eq!(sent(message, ASKED_FOR), marked);
    }

    #[test]
    fn messages_are_those_of_the_script() {
        assert_eq!(sent("{\"text\":\"ls\\n\"}", PLAIN), "ls\r");
        assert_eq!(sent("\"seen\"", PLAIN), "");
        let size: TerminalInput = serde_json::from_str("{\"size\":[80,24]}").unwrap();
        assert_eq!(size.size(), Some(TerminalSize::default()));
        for wrong in [
            "",
            "{}",
            "{\"size\":[80]}",
            "{\"size\":[-1,70000]}",
            "{\"key\":\"a\"}",
        ] {
            assert!(
                serde_json::from_str::<TerminalInput>(wrong).is_err(),
                "{wrong}"
            );
        }
    }
}
