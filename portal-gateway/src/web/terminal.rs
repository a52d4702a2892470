//! What programs write for a terminal, as markup: colours become classes, other control sequences go.

use anstyle_parse::{DefaultCharAccumulator, Params, Parser, Perform};
use maud::{Markup, PreEscaped, Render as _};

/// The text with its colours.
pub(super) fn coloured(text: &str) -> Markup {
    let mut screen = Screen::default();
    let mut parser = Parser::<DefaultCharAccumulator>::new();
    for byte in text.bytes() {
        parser.advance(&mut screen, byte);
    }
    screen.close();
    PreEscaped(screen.html)
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
}
