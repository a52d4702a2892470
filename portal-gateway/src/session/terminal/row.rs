//! A row of a terminal as a browser shows it: pieces of text, each with its look.

use avt::{Cell, Color, Line, Pen};
use serde::ser::{Serialize, SerializeSeq as _, Serializer};

use super::text::CombinedCharacters;

/// Colours that the stylesheet names; those above have a value of their own.
const NAMED_COLOURS: u8 = 16;

/// A row, without the blanks at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScreenRow(Vec<ScreenRun>);

impl Serialize for ScreenRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Text that looks alike: `[text]`, `[text, classes]` or `[text, classes, colour, background]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ScreenRun {
    text: String,
    look: RunLook,
}

/// How it looks: classes of the stylesheet, and colours that have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RunLook {
    classes: String,
    /// `#rrggbb`; empty for that of the classes.
    colour: String,
    background: String,
}

impl Serialize for ScreenRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let look = &self.look;
        let has_colours = !look.colour.is_empty() || !look.background.is_empty();
        let length = match has_colours {
            true => 4,
            false if look.classes.is_empty() => 1,
            false => 2,
        };
        let mut seq = serializer.serialize_seq(Some(length))?;
        let parts = [&self.text, &look.classes, &look.colour, &look.background];
        for part in parts.into_iter().take(length) {
            seq.serialize_element(part)?;
        }
        seq.end()
    }
}

impl ScreenRow {
    /// A line of the terminal.
    pub(super) fn of(line: &Line, combined: &CombinedCharacters) -> Self {
        let mut row = Self::default();
        // The pen of the last run, if another cell may be added to it.
        let mut open: Option<Pen> = None;
        // The second half of a wide character has no width.
        for cell in line.cells().iter().filter(|cell| cell.width() > 0) {
            let class = width_class(cell);
            match row.0.last_mut() {
                Some(run) if class.is_empty() && open == Some(*cell.pen()) => {
                    push(&mut run.text, cell.char(), combined);
                }
                _ => {
                    let mut run = ScreenRun {
                        text: String::new(),
                        look: RunLook::of(cell.pen(), class),
                    };
                    push(&mut run.text, cell.char(), combined);
                    row.0.push(run);
                }
            }
            open = class.is_empty().then_some(*cell.pen());
        }
        row.trim();
        row
    }

    fn trim(&mut self) {
        if let Some(last) = self.0.last_mut()
            && last.look == RunLook::default()
        {
            last.text.truncate(last.text.trim_end_matches(' ').len());
            if last.text.is_empty() {
                self.0.pop();
            }
        }
    }

    /// Its text, without looks.
    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        self.0.iter().map(|run| run.text.as_str()).collect()
    }
}

fn push(text: &mut String, c: char, combined: &CombinedCharacters) {
    match combined.text(c) {
        Some(whole) => text.push_str(whole),
        None if c.is_control() => text.push(' '),
        None => text.push(c),
    }
}

/// What holds a character in its columns whose glyph may have another width: a browser takes it of any font that has
/// it. Letters of Latin-1 and lines are as wide as all others in each font for terminals.
fn width_class(cell: &Cell) -> &'static str {
    match cell.char() {
        _ if cell.width() > 1 => "w2",
        '\0'..='\u{ff}' | '\u{2500}'..='\u{259f}' => "",
        _ => "w1",
    }
}

impl RunLook {
    fn of(pen: &Pen, width: &'static str) -> Self {
        let mut look = Self::default();
        if pen.is_inverse() {
            look.colour = look.paint('f', pen.background(), "fi");
            look.background = look.paint('b', pen.foreground(), "bi");
        } else {
            look.colour = look.paint('f', pen.foreground(), "");
            look.background = look.paint('b', pen.background(), "");
        }
        for (is_set, class) in [
            (pen.is_bold(), "a1"),
            (pen.is_faint(), "a2"),
            (pen.is_italic(), "a3"),
            (pen.is_underline(), "a4"),
            (pen.is_strikethrough(), "a5"),
            (!width.is_empty(), width),
        ] {
            if is_set {
                look.class(class);
            }
        }
        look
    }

    /// Adds the class of a colour, or gives the value of one that has none.
    fn paint(&mut self, kind: char, colour: Option<Color>, none: &str) -> String {
        match colour {
            None => {
                self.class(none);
                String::new()
            }
            Some(Color::Indexed(number @ 0..NAMED_COLOURS)) => {
                self.class(&format!("{kind}{number}"));
                String::new()
            }
            Some(Color::Indexed(number)) => {
                let [r, g, b] = shade(number);
                format!("#{r:02x}{g:02x}{b:02x}")
            }
            Some(Color::RGB(rgb)) => format!("#{:02x}{:02x}{:02x}", rgb.r, rgb.g, rgb.b),
        }
    }

    fn class(&mut self, name: &str) {
        if !name.is_empty() && !self.classes.is_empty() {
            self.classes.push(' ');
        }
        self.classes.push_str(name);
    }
}

/// The colours 16 to 255 of xterm: a cube of six levels for each part, and 24 greys.
fn shade(number: u8) -> [u8; 3] {
    if number >= 232 {
        return [8 + 10 * (number - 232); 3];
    }
    let number = number - NAMED_COLOURS;
    [number / 36, number / 6 % 6, number % 6].map(|level| match level {
        0 => 0,
        level => 55 + 40 * level,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        let mut terminal = avt::Terminal::new(20, 1).unwrap();
        terminal.feed(text);
        let line = terminal.screen().line(0).unwrap();
        let row = ScreenRow::of(line, &CombinedCharacters::default());
        serde_json::to_string(&row).unwrap()
    }

    #[test]
    fn rows_are_runs_of_one_look() {
        for (text, expect) in [
            ("", "[]"),
            ("plain  ", r#"[["plain"]]"#),
            (
                "a\u{1b}[1;31mb c\u{1b}[0m d",
                r#"[["a"],["b c","f1 a1"],[" d"]]"#,
            ),
            ("\u{1b}[97;104mx", r#"[["x","f15 b12"]]"#),
            // Blanks with a look are seen.
            ("\u{1b}[41m  \u{1b}[0m  ", r#"[["  ","b1"]]"#),
            ("\u{1b}[38;5;196mx", r##"[["x","","#ff0000",""]]"##),
            ("\u{1b}[38;5;244mx", r##"[["x","","#808080",""]]"##),
            ("\u{1b}[4;48;2;1;2;3mx", r##"[["x","a4","","#010203"]]"##),
            ("\u{1b}[7mx", r#"[["x","fi bi"]]"#),
            ("\u{1b}[7;31;44mx", r#"[["x","f4 b1"]]"#),
            ("\u{1b}[2;3;9mx", r#"[["x","a2 a3 a5"]]"#),
            // Each character that a font may draw wider is held in its columns.
            ("a漢字b", r#"[["a"],["漢","w2"],["字","w2"],["b"]]"#),
            ("ä─λλ", r#"[["ä─"],["λ","w1"],["λ","w1"]]"#),
            ("<b>&\"", r#"[["<b>&\""]]"#),
        ] {
            assert_eq!(json(text), expect, "{text:?}");
        }
    }
}
