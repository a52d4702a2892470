//! The terminal of a session in a browser: what a program writes becomes rows of text, and only what has changed is
//! sent.
//!
//! It does nothing by itself: bytes and sizes go in, [`ScreenUpdate`]s and answers for the program come out. Nothing in
//! it grows with what a program writes: rows that have left the screen are kept until the next update, the newest
//! [`PAST_ROWS_MAX`] of them.

use std::collections::VecDeque;
use std::ops::Range;

use avt::parser::{AnsiMode, EdScope, Function};
use avt::{Line, Observation, Observer, Terminal};
use muster_model::session::TerminalSize;
use serde::Serialize;

use super::control::{ControlReader, ControlRequest};
use super::row::ScreenRow;
use super::text::{CharacterKind, CombinedCharacters, TextDecoder};

/// Rows above the screen that a page keeps. The script has the same number.
pub(super) const PAST_ROWS_MAX: usize = 1000;
/// The least and the most columns and rows.
const COLUMNS: Range<u16> = 2..401;
const ROWS: Range<u16> = 1..151;
/// Bytes of answers to one piece of output, at most: a program may ask without reading any.
const ANSWER_BYTES_MAX: usize = 1024;

/// What has changed since the update before. What is absent is as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct ScreenUpdate {
    /// The columns and rows: the screen is empty but for `rows`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<(usize, usize)>,
    /// Whether what was above the screen is forgotten.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) forget: bool,
    /// Rows that are now above the screen, below those that were there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) past: Vec<ScreenRow>,
    /// Rows of the screen, by their place from above.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rows: Vec<(usize, ScreenRow)>,
    /// The column and the row of the cursor, and whether it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cursor: Option<(usize, usize, bool)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) bell: bool,
}

// The form that serde asks for.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_false(it: &bool) -> bool {
    !it
}

/// A terminal, and what its page knows of it.
pub(super) struct WebScreen {
    terminal: Terminal,
    text: TextDecoder,
    reader: ControlReader,
    combined: CombinedCharacters,
    /// The character that was printed last, if nothing has happened since.
    printed: Option<char>,
    is_inserting: bool,
    is_paste_bracketed: bool,
    /// What the page is told next.
    next: ScreenUpdate,
    /// Rows that may have changed.
    dirty: Vec<bool>,
    past: VecDeque<ScreenRow>,
    /// What the page shows.
    shown: Vec<ScreenRow>,
    shown_cursor: (usize, usize, bool),
}

impl WebScreen {
    /// An empty terminal. A size out of bounds becomes the nearest within.
    pub(super) fn new(size: TerminalSize) -> Self {
        let size = bounded(size);
        let (columns, rows) = (usize::from(size.width), usize::from(size.height));
        let terminal = Terminal::new(columns, rows).expect("a size is positive");
        let mut screen = Self {
            terminal,
            text: TextDecoder::default(),
            reader: ControlReader::default(),
            combined: CombinedCharacters::default(),
            printed: None,
            is_inserting: false,
            is_paste_bracketed: false,
            next: ScreenUpdate::default(),
            dirty: Vec::new(),
            past: VecDeque::new(),
            shown: Vec::new(),
            shown_cursor: (0, 0, true),
        };
        screen.begin_anew();
        screen
    }

    /// Takes what the program has written. Returns what it is answered, for its input.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut answers = Vec::new();
        for c in self.text.decode(bytes).chars() {
            let (function, request) = self.reader.read(c);
            match function {
                Some(Function::Print(c)) => self.print(c),
                Some(function) => self.execute(function),
                None => {}
            }
            if let Some(request) = request {
                let answer = self.fulfil(request);
                if answers.len() + answer.len() <= ANSWER_BYTES_MAX {
                    answers.extend_from_slice(answer.as_bytes());
                }
            }
        }
        answers
    }

    /// Gives it another size, and returns which: see [`Self::new`].
    pub(super) fn resize(&mut self, size: TerminalSize) -> TerminalSize {
        let size = bounded(size);
        let (columns, rows) = (usize::from(size.width), usize::from(size.height));
        if self.terminal.size() != (columns, rows) {
            self.printed = None;
            let mut watcher = RowWatcher {
                dirty: &mut self.dirty,
                past: &mut self.past,
                combined: &self.combined,
            };
            self.terminal.resize_with(columns, rows, &mut watcher);
            self.begin_anew();
        }
        size
    }

    /// Whether a page would be told anything.
    pub(super) fn has_news(&self) -> bool {
        self.next != ScreenUpdate::default()
            || !self.past.is_empty()
            || self.dirty.contains(&true)
            || self.cursor() != self.shown_cursor
    }

    /// What has changed since this was called last.
    pub(super) fn update(&mut self) -> ScreenUpdate {
        let mut update = std::mem::take(&mut self.next);
        update.past = self.past.drain(..).collect();
        for (at, line) in self.terminal.screen().visible_lines().enumerate() {
            if !std::mem::take(&mut self.dirty[at]) {
                continue;
            }
            let row = ScreenRow::of(line, &self.combined);
            if self.shown[at] != row {
                self.shown[at].clone_from(&row);
                update.rows.push((at, row));
            }
        }
        let cursor = self.cursor();
        if update.size.is_some() || cursor != self.shown_cursor {
            self.shown_cursor = cursor;
            update.cursor = Some(cursor);
        }
        update
    }

    /// Whether cursor keys send what programs on a whole screen ask for (DECCKM).
    pub(super) fn has_application_keys(&self) -> bool {
        self.terminal.cursor_key_app_mode()
    }

    /// Whether pasted text is to be marked as such.
    pub(super) fn is_paste_bracketed(&self) -> bool {
        self.is_paste_bracketed
    }

    fn begin_anew(&mut self) {
        let (columns, rows) = self.terminal.size();
        self.next.size = Some((columns, rows));
        self.dirty = vec![true; rows];
        self.shown = vec![ScreenRow::default(); rows];
    }

    /// The column and row of the cursor, and whether it is shown. One that waits for the next line is in the last column.
    fn cursor(&self) -> (usize, usize, bool) {
        let cursor = self.terminal.cursor();
        let (columns, _) = self.terminal.size();
        (cursor.col.min(columns - 1), cursor.row, cursor.visible)
    }

    fn print(&mut self, c: char) {
        match CharacterKind::of(c) {
            CharacterKind::Unseen => {}
            CharacterKind::Mark => self.mark(c),
            CharacterKind::Base => {
                let is_number = CombinedCharacters::is_number(c);
                let c = if is_number {
                    char::REPLACEMENT_CHARACTER
                } else {
                    c
                };
                self.execute(Function::Print(c));
                self.printed = Some(c);
            }
        }
    }

    /// Puts a mark on the character that was printed last: prints both in its place.
    fn mark(&mut self, mark: char) {
        let Some(base) = self.printed.filter(|_| !self.is_inserting) else {
            return;
        };
        let cursor = self.terminal.cursor();
        let line = self.terminal.screen().line(cursor.row);
        let cell = line.and_then(|line| line.cells().get(cursor.col.checked_sub(1)?));
        // Wide characters keep none, for our numbers are narrow.
        if cell.is_none_or(|cell| cell.char() != base) {
            return;
        }
        let Some(both) = self.combined.combine(base, mark) else {
            return;
        };
        // Columns are counted from 1 here.
        let column = u16::try_from(cursor.col).unwrap_or(u16::MAX);
        self.execute(Function::Cha(column));
        self.execute(Function::Print(both));
        self.printed = Some(both);
    }

    fn execute(&mut self, function: Function) {
        self.printed = None;
        let forgets = matches!(function, Function::Ed(EdScope::SavedLines) | Function::Ris);
        let is_inserting = match &function {
            Function::Sm(modes) if modes.as_slice().contains(&AnsiMode::Insert) => true,
            Function::Rm(modes) if modes.as_slice().contains(&AnsiMode::Insert) => false,
            Function::Ris | Function::Decstr => false,
            _ => self.is_inserting,
        };
        self.is_inserting = is_inserting;
        if matches!(function, Function::Ris) {
            self.is_paste_bracketed = false;
        }
        let mut watcher = RowWatcher {
            dirty: &mut self.dirty,
            past: &mut self.past,
            combined: &self.combined,
        };
        self.terminal.execute_with(function, &mut watcher);
        if forgets {
            self.past.clear();
            self.next.forget = true;
        }
    }

    /// Does what is asked for, and returns the answer.
    fn fulfil(&mut self, request: ControlRequest) -> String {
        match request {
            ControlRequest::Bell => self.next.bell = true,
            ControlRequest::Title(title) => self.next.title = Some(title),
            ControlRequest::BracketPastes(is_on) => self.is_paste_bracketed = is_on,
            ControlRequest::Status => return "\u{1b}[0n".to_owned(),
            ControlRequest::Position { is_private } => {
                let (column, row, _) = self.cursor();
                let mark = if is_private { "?" } else { "" };
                return format!("\u{1b}[{mark}{};{}R", row + 1, column + 1);
            }
            // A VT220 with colours.
            ControlRequest::Attributes => return "\u{1b}[?62;22c".to_owned(),
            ControlRequest::Version => return "\u{1b}[>1;0;0c".to_owned(),
        }
        String::new()
    }
}

fn bounded(size: TerminalSize) -> TerminalSize {
    TerminalSize {
        width: size.width.clamp(COLUMNS.start, COLUMNS.end - 1),
        height: size.height.clamp(ROWS.start, ROWS.end - 1),
    }
}

/// Notes which rows a terminal changes, and what leaves its screen.
struct RowWatcher<'a> {
    dirty: &'a mut Vec<bool>,
    past: &'a mut VecDeque<ScreenRow>,
    combined: &'a CombinedCharacters,
}

impl Observer for RowWatcher<'_> {
    type Output = ();

    fn resized(&mut self, _: usize, rows: usize) {
        *self.dirty = vec![true; rows];
    }

    fn dirty(&mut self, rows: Range<usize>) {
        self.dirty[rows].fill(true);
    }

    fn evicted(&mut self, _: &mut Observation<'_>, line: &Line) {
        if self.past.len() == PAST_ROWS_MAX {
            self.past.pop_front();
        }
        self.past.push_back(ScreenRow::of(line, self.combined));
    }

    fn end(&mut self, _: &mut Observation<'_>) {}
}

#[cfg(test)]
impl WebScreen {
    /// All rows of the screen, anew.
    pub(super) fn whole(&self) -> Vec<ScreenRow> {
        let lines = self.terminal.screen().visible_lines();
        lines
            .map(|line| ScreenRow::of(line, &self.combined))
            .collect()
    }

    pub(super) fn whole_cursor(&self) -> (usize, usize, bool) {
        self.cursor()
    }
}
