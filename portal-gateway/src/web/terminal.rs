//! What programs write for a terminal, as markup: colours become classes, other control sequences go.

use anstyle_parse::{DefaultCharAccumulator, Params, Parser, Perform};
use maud::{Markup, PreEscaped, Render as _};

/// Bytes of a control sequence that is waited for. A longer one is shown in part.
const SEQUENCE_BYTES_MAX: usize = 256;

/// The text with its colours.
pub(super) fn coloured(text: &str) -> Markup {
    Terminal::default().write(text.as_bytes())
}

/// Writes a text in pieces.
#[derive(Default)]
pub(super) struct Terminal {
    screen: Screen,
    parser: Parser<DefaultCharAccumulator>,
}

impl Terminal {
    /// One that goes on where another one stood: [`Self::state`]. What is no state is none.
    pub(super) fn resumed(state: &str) -> Self {
        let mut terminal = Self::default();
        let mut letters = state.chars();
        while let Some(letter) = letters.next() {
            if letter == 'r' {
                terminal.screen.is_returned = true;
                continue;
            }
            let number = letters.next().and_then(|it| it.to_digit(10));
            let number = number.and_then(|it| u16::try_from(it).ok());
            match (letter, number) {
                ('f', Some(number @ 0..=7)) => terminal.screen.style.set(30 + number),
                ('a', Some(number @ 1..=4)) => terminal.screen.style.set(number),
                _ => {}
            }
        }
        terminal
    }

    /// How what comes next looks, in letters and digits.
    pub(super) fn state(&self) -> String {
        let mut state = self.screen.style.classes().replace(' ', "");
        if self.screen.is_returned {
            state.push('r');
        }
        state
    }

    /// The next piece, which ends at no half character or control sequence: [`settled`].
    pub(super) fn write(&mut self, bytes: &[u8]) -> Markup {
        let text = String::from_utf8_lossy(bytes);
        for byte in text.bytes() {
            self.parser.advance(&mut self.screen, byte);
        }
        self.screen.close();
        PreEscaped(std::mem::take(&mut self.screen.html))
    }
}

/// How many of these bytes can be written before more come: all but half a character or control sequence.
pub(super) fn settled(bytes: &[u8]) -> usize {
    let end = whole_characters(bytes);
    let from = end.saturating_sub(SEQUENCE_BYTES_MAX);
    let last = bytes[from..end].iter().rposition(|byte| *byte == 0x1b);
    match last.map(|at| from + at) {
        Some(at) if !is_ended(&bytes[at..end]) => at,
        _ => end,
    }
}

fn whole_characters(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let length = match bytes[at] {
            ..0x80 => return bytes.len(),
            0x80..0xc0 => continue,
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0.. => 4,
        };
        return if back < length { at } else { bytes.len() };
    }
    bytes.len()
}

/// Whether a control sequence, from its escape on, has its last byte.
fn is_ended(sequence: &[u8]) -> bool {
    match sequence {
        [_] => false,
        [_, b'[', rest @ ..] => rest.iter().any(|byte| (0x40..=0x7e).contains(byte)),
        [_, b']' | b'P' | b'X' | b'^' | b'_', rest @ ..] => rest.contains(&0x07),
        [_, 0x20..=0x2f, rest @ ..] => rest.iter().any(|byte| (0x30..=0x7e).contains(byte)),
        _ => true,
    }
}

/// What was written so far, and how what comes next looks.
#[derive(Default)]
struct Screen {
    html: String,
    /// Text that looks like `style`, not written yet.
    run: String,
    style: TextStyle,
    /// Whether the next character is written at the beginning of the line.
    is_returned: bool,
}

/// How text looks: a foreground colour 0 to 7, and `a1` to `a4` for bold, faint, italic, underlined.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct TextStyle {
    colour: Option<u16>,
    attributes: [bool; 4],
}

impl TextStyle {
    fn is_plain(self) -> bool {
        self == Self::default()
    }

    fn classes(self) -> String {
        let colour = self.colour.map(|colour| format!("f{colour}"));
        let set = self.attributes.iter().zip(1..).filter(|(on, _)| **on);
        let attributes = set.map(|(_, number)| format!("a{number}"));
        colour
            .into_iter()
            .chain(attributes)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// One parameter of `ESC [ ... m`. Backgrounds and colours by number are left out.
    fn set(&mut self, parameter: u16) {
        match parameter {
            0 => *self = Self::default(),
            1..=4 => self.attributes[usize::from(parameter) - 1] = true,
            22 => self.attributes[..2].fill(false),
            23 | 24 => self.attributes[usize::from(parameter) - 21] = false,
            30..=37 => self.colour = Some(parameter - 30),
            39 => self.colour = None,
            90..=97 => self.colour = Some(parameter - 90),
            _ => {}
        }
    }
}

impl Screen {
    fn close(&mut self) {
        if self.run.is_empty() {
            return;
        }
        let run = std::mem::take(&mut self.run);
        match self.style.is_plain() {
            true => run.render_to(&mut self.html),
            false => {
                let classes = self.style.classes();
                maud::html! { span class=(classes) { (run) } }.render_to(&mut self.html);
            }
        }
    }
}

impl Perform for Screen {
    fn print(&mut self, c: char) {
        // A progress bar writes over its line: each state of it is shown on a line of its own.
        if std::mem::take(&mut self.is_returned) {
            self.run.push('\n');
        }
        self.run.push(c);
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => {
                self.is_returned = false;
                self.run.push('\n');
            }
            b'\t' => self.print('\t'),
            b'\r' => self.is_returned = true,
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, _: &[u8], _: bool, action: u8) {
        if action != b'm' {
            return;
        }
        self.close();
        let mut numbers = params.iter().flatten().copied();
        while let Some(number) = numbers.next() {
            match number {
                // A colour by number: its own parameters are no attributes.
                38 | 48 => match numbers.next() {
                    Some(5) => drop(numbers.next()),
                    Some(2) => drop(numbers.by_ref().take(3).count()),
                    _ => {}
                },
                _ => self.style.set(number),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_classes_and_markup_stays_text() {
        for (text, html) in [
            ("plain", "plain"),
            (
                "\u{1b}[31mred\u{1b}[0m after",
                "<span class=\"f1\">red</span> after",
            ),
            ("\u{1b}[1;4;32mx", "<span class=\"f2 a1 a4\">x</span>"),
            (
                "\u{1b}[91m<b>&\u{1b}[39m",
                "<span class=\"f1\">&lt;b&gt;&amp;</span>",
            ),
            ("\u{1b}[1mb\u{1b}[22mn", "<span class=\"a1\">b</span>n"),
            ("\u{1b}[38;5;31;48;2;1;31;3mx", "x"),
            ("\u{1b}[2Jcleared\u{7}\u{1b}]0;title\u{7}", "cleared"),
            ("10%\r20%\r\n30%", "10%\n20%\n30%"),
            ("a\nb\tc", "a\nb\tc"),
        ] {
            assert_eq!(coloured(text).into_string(), html, "{text:?}");
        }
    }

    #[test]
    fn a_text_in_pieces_looks_as_in_one() {
        let text = "a\u{1b}[31;1mr\u{e4}d\u{1b}]0;title\u{7}\r\n10%\r20% \u{1f600}\u{1b}[0m<b>";
        let whole = coloured(text).into_string();
        let visible = |html: &str| html.replace("</span><span class=\"f1 a1\">", "");
        for length in 1..8 {
            let (mut held, mut html) = (Vec::new(), String::new());
            let mut terminal = Terminal::default();
            for piece in text.as_bytes().chunks(length) {
                held.extend_from_slice(piece);
                let rest = held.split_off(settled(&held));
                html += &terminal.write(&held).into_string();
                held = rest;
                // As after another connection.
                terminal = Terminal::resumed(&terminal.state());
            }
            assert_eq!(visible(&html), whole, "in pieces of {length}");
            assert!(held.is_empty());
        }
    }

    #[test]
    fn no_state_is_trusted() {
        for state in ["f9", "a0", "<b>", "f", "zz", "f\u{e4}"] {
            assert_eq!(Terminal::resumed(state).state(), "", "{state}");
        }
        assert_eq!(Terminal::resumed("f1a1r").state(), "f1a1r");
    }
}
