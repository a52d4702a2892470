//! Formats like `%.18i %9P`: fields by letters, each with a width.

/// A part of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FormatPart {
    Text(String),
    Field {
        letter: char,
        /// Nothing is cut or filled where there is none.
        width: Option<usize>,
        is_right: bool,
    },
}

/// A field that a format may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownField {
    pub(super) letter: char,
    pub(super) heading: &'static str,
    /// A cut value would name another thing.
    pub(super) is_whole: bool,
}

/// A value that may be cut.
pub(super) const fn field(letter: char, heading: &'static str) -> KnownField {
    KnownField {
        letter,
        heading,
        is_whole: false,
    }
}

/// A value that is never cut.
pub(super) const fn whole(letter: char, heading: &'static str) -> KnownField {
    KnownField {
        letter,
        heading,
        is_whole: true,
    }
}

/// A format.
#[derive(Clone, Debug)]
pub(super) struct FieldFormat {
    parts: Vec<FormatPart>,
    known: &'static [KnownField],
}

impl FieldFormat {
    pub(super) fn read(text: &str, known: &'static [KnownField]) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut letters = text.chars().peekable();
        let mut plain = String::new();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                plain.push(letter);
                continue;
            }
            if letters.next_if_eq(&'%').is_some() {
                plain.push('%');
                continue;
            }
            if !plain.is_empty() {
                parts.push(FormatPart::Text(std::mem::take(&mut plain)));
            }
            let is_right = letters.next_if_eq(&'.').is_some();
            let mut width = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                width.push(digit);
            }
            let letter = letters.next();
            let field = known.iter().find(|it| Some(it.letter) == letter);
            let field = field.ok_or_else(|| unknown(letter, known))?;
            parts.push(FormatPart::Field {
                letter: field.letter,
                width: width.parse().ok().filter(|&width| width > 0),
                is_right,
            });
        }
        if !plain.is_empty() {
            parts.push(FormatPart::Text(plain));
        }
        Ok(Self { parts, known })
    }

    pub(super) fn has(&self, wanted: &[char]) -> bool {
        let mut parts = self.parts.iter();
        parts
            .any(|part| matches!(part, FormatPart::Field { letter, .. } if wanted.contains(letter)))
    }

    pub(super) fn heading(&self) -> String {
        self.line(|letter| {
            let field = self.known.iter().find(|it| it.letter == letter);
            field.map(|it| it.heading).unwrap_or_default().to_owned()
        })
    }

    /// A line of values.
    pub(super) fn line(&self, value: impl Fn(char) -> String) -> String {
        let mut line = String::new();
        for part in &self.parts {
            match part {
                FormatPart::Text(text) => line.push_str(text),
                FormatPart::Field {
                    letter,
                    width,
                    is_right,
                } => line.push_str(&self.filled(*letter, value(*letter), *width, *is_right)),
            }
        }
        line.trim_end().to_owned()
    }

    fn filled(&self, letter: char, value: String, width: Option<usize>, is_right: bool) -> String {
        let Some(width) = width else {
            return value;
        };
        let is_whole = self
            .known
            .iter()
            .any(|it| it.letter == letter && it.is_whole);
        let value: String = match is_whole {
            true => value,
            false => value.chars().take(width).collect(),
        };
        match is_right {
            true => format!("{value:>width$}"),
            false => format!("{value:<width$}"),
        }
    }
}

fn unknown(letter: Option<char>, known: &[KnownField]) -> String {
    let known: Vec<String> = known.iter().map(|it| format!("%{}", it.letter)).collect();
    let known = known.join(" ");
    match letter {
        Some(letter) => format!("--format: %{letter} is no field here; there are {known}"),
        None => format!("--format: % ends it; behind it goes a field: {known}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[KnownField] = &[whole('i', "JOBID"), field('j', "NAME")];

    fn line(format: &str) -> String {
        match FieldFormat::read(format, KNOWN) {
            Err(why) => why,
            Ok(format) => format.line(|letter| match letter {
                'i' => "123456789".to_owned(),
                _ => "training".to_owned(),
            }),
        }
    }

    #[test]
    fn widths_fill_and_cut_but_never_a_number_of_a_job() {
        for (format, expect) in [
            ("%i|%j", "123456789|training"),
            ("%.12i %.4j", "   123456789 trai"),
            ("%12i %4j.", "123456789    trai."),
            ("%3i", "123456789"),
            ("100%% %j", "100% training"),
            ("%z", "--format: %z is no field here; there are %i %j"),
            ("x%", "--format: % ends it; behind it goes a field: %i %j"),
        ] {
            assert_eq!(line(format), expect, "{format}");
        }
        let format = FieldFormat::read("%.6i %-j", KNOWN);
        assert!(format.is_err());
        let format = FieldFormat::read("%.6i %6j", KNOWN).unwrap();
        assert_eq!(format.heading(), " JOBID NAME");
        assert!(format.has(&['j']) && !format.has(&['u']));
    }
}
