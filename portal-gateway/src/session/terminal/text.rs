//! Characters out of bytes, and those that are made of several.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthChar as _;

/// Where the numbers of combined characters begin: a plane for private use, whose characters are one column wide.
const COMBINED_FIRST: u32 = 0x10_0000;
/// Combined characters that a terminal knows, at most. Later ones are shown without their marks.
const COMBINED_MAX: usize = 1024;
/// Characters that one is made of, at most.
const PARTS_MAX: usize = 5;

/// Reads UTF-8 that comes in pieces. What is none becomes U+FFFD.
#[derive(Debug, Default)]
pub(super) struct TextDecoder {
    /// The begin of a character, at most three bytes.
    held: Vec<u8>,
}

impl TextDecoder {
    /// All characters that are whole by now.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.held);
        let mut text = String::with_capacity(all.len());
        let mut read = 0;
        for chunk in all.utf8_chunks() {
            text.push_str(chunk.valid());
            let wrong = chunk.invalid();
            read += chunk.valid().len() + wrong.len();
            let is_begun = std::str::from_utf8(wrong).is_err_and(|it| it.error_len().is_none());
            if read == all.len() && is_begun {
                self.held = wrong.to_vec();
            } else if !wrong.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }
}

/// What a character means for the grid of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharacterKind {
    /// It takes one or two columns.
    Base,
    /// It is drawn over the one before.
    Mark,
    /// It only says how others are drawn: joiners, variants, directions. Browsers would draw these wider or elsewhere.
    Unseen,
}

impl CharacterKind {
    pub(super) fn of(c: char) -> Self {
        match c {
            '\u{ad}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' => Self::Unseen,
            '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => Self::Unseen,
            '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' => Self::Unseen,
            _ if c.width() == Some(0) => Self::Mark,
            _ => Self::Base,
        }
    }
}

/// Characters with marks, each under a number of its own, for a cell of the terminal holds one character.
#[derive(Debug, Default)]
pub(super) struct CombinedCharacters {
    texts: Vec<String>,
    numbers: BTreeMap<String, char>,
}

impl CombinedCharacters {
    /// Whether a program may not write this, for it is one of our numbers.
    pub(super) fn is_number(c: char) -> bool {
        u32::from(c) >= COMBINED_FIRST
    }

    /// The number of a character, which may be one already, with another mark. None if it has too many marks, or if
    /// too many are known.
    pub(super) fn combine(&mut self, base: char, mark: char) -> Option<char> {
        let mut text = self
            .text(base)
            .map_or_else(|| base.to_string(), str::to_owned);
        text.push(mark);
        if let Some(known) = self.numbers.get(&text) {
            return Some(*known);
        }
        if text.chars().count() > PARTS_MAX || self.texts.len() == COMBINED_MAX {
            return None;
        }
        let number = char::from_u32(COMBINED_FIRST + u32::try_from(self.texts.len()).ok()?)?;
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        Some(number)
    }

    /// What a number stands for.
    pub(super) fn text(&self, number: char) -> Option<&str> {
        let at = u32::from(number).checked_sub(COMBINED_FIRST)?;
        let text = self.texts.get(usize::try_from(at).ok()?);
        text.map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_as_the_whole() {
        let bytes = b"a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xff\xc3(\xe2\x82";
        for length in 1..bytes.len() {
            let mut decoder = TextDecoder::default();
            let pieces = bytes.chunks(length).map(|piece| decoder.decode(piece));
            assert_eq!(
                pieces.collect::<String>(),
                "aä€😀\u{fffd}\u{fffd}(",
                "{length}"
            );
            assert_eq!(decoder.held, b"\xe2\x82");
            assert_eq!(decoder.decode(b"\xac"), "€");
        }
    }

    #[test]
    fn marks_are_bounded() {
        let mut known = CombinedCharacters::default();
        let one = known.combine('e', '\u{301}').unwrap();
        assert_eq!(known.text(one), Some("e\u{301}"));
        assert_eq!(known.combine('e', '\u{301}'), Some(one));
        let mut most = one;
        for _ in 3..=PARTS_MAX {
            most = known.combine(most, '\u{302}').unwrap();
        }
        assert_eq!(known.combine(most, '\u{303}'), None);
        for number in 0..2 * COMBINED_MAX {
            let base = char::from_u32(0x4e00 + u32::try_from(number).unwrap()).unwrap();
            known.combine(base, '\u{301}');
        }
        assert_eq!(known.texts.len(), COMBINED_MAX);
        assert_eq!(known.text('e'), None);
    }

    #[test]
    fn characters_have_their_kinds() {
        for (c, kind) in [
            ('a', CharacterKind::Base),
            ('漢', CharacterKind::Base),
            ('\u{301}', CharacterKind::Mark),
            ('\u{e31}', CharacterKind::Mark),
            ('\u{200d}', CharacterKind::Unseen),
            ('\u{fe0f}', CharacterKind::Unseen),
            ('\u{202e}', CharacterKind::Unseen),
        ] {
            assert_eq!(CharacterKind::of(c), kind, "{c:?}");
        }
    }
}
