//! Terminals and the pages that show them: what is sent makes the same of a page as of the terminal.

use muster_model::session::TerminalSize;
use proptest::prelude::*;

use super::row::ScreenRow;
use super::screen::{PAST_ROWS_MAX, ScreenUpdate, WebScreen};

/// A page, as the script keeps it.
#[derive(Default)]
struct PageCopy {
    past: Vec<ScreenRow>,
    rows: Vec<ScreenRow>,
    cursor: (usize, usize, bool),
    title: String,
    bells: u32,
}

impl PageCopy {
    fn apply(&mut self, update: ScreenUpdate) {
        if let Some((_, rows)) = update.size {
            self.rows = vec![ScreenRow::default(); rows];
        }
        if update.forget {
            self.past.clear();
        }
        self.past.extend(update.past);
        let over = self.past.len().saturating_sub(PAST_ROWS_MAX);
        self.past.drain(..over);
        for (at, row) in update.rows {
            self.rows[at] = row;
        }
        self.cursor = update.cursor.unwrap_or(self.cursor);
        self.title = update.title.unwrap_or_else(|| self.title.clone());
        self.bells += u32::from(update.bell);
    }

    fn texts(&self) -> Vec<String> {
        let rows = self.past.iter().chain(&self.rows);
        rows.map(ScreenRow::text).collect()
    }
}

fn size(width: u16, height: u16) -> TerminalSize {
    TerminalSize { width, height }
}

/// A page of so many columns and rows after this output.
fn shown(width: u16, height: u16, text: &str) -> PageCopy {
    let mut screen = WebScreen::new(size(width, height));
    screen.write(text.as_bytes());
    let mut page = PageCopy::default();
    page.apply(screen.update());
    assert!(!screen.has_news());
    assert_eq!(screen.update(), ScreenUpdate::default());
    page
}

#[test]
fn what_leaves_the_screen_stands_above_it_in_order() {
    let text: String = (0..2500).map(|number| format!("{number}\r\n")).collect();
    let page = shown(20, 5, &text);
    let expect: Vec<_> = (1496..2500).map(|number| number.to_string()).collect();
    assert_eq!(page.texts()[..1004], expect);
    assert_eq!(page.texts().len(), PAST_ROWS_MAX + 5);
    // With an update now and then, nothing is missing either.
    let mut screen = WebScreen::new(size(20, 5));
    let mut page = PageCopy::default();
    for piece in text.as_bytes()[..4000].chunks(333) {
        screen.write(piece);
        page.apply(screen.update());
    }
    let texts = page.texts().join("\n");
    assert!(text.replace('\r', "").starts_with(&texts), "{texts}");
    assert!(page.past.len() > 700);
}

#[test]
fn a_whole_screen_program_leaves_what_was_there() {
    let text = "before\r\n\u{1b}[?1049h\u{1b}[2J\u{1b}[Hother\u{1b}[?25l";
    let mut screen = WebScreen::new(size(20, 3));
    let mut page = PageCopy::default();
    screen.write(text.as_bytes());
    page.apply(screen.update());
    assert_eq!(page.texts(), ["other", "", ""]);
    assert!(!page.cursor.2);
    screen.write(b"\x1b[?1049l\x1b[?25h");
    page.apply(screen.update());
    assert_eq!(page.texts(), ["before", "", ""]);
    assert_eq!(page.cursor, (0, 1, true));
}

#[test]
fn marks_stand_on_their_letters_and_wide_letters_take_two_columns() {
    let page = shown(10, 2, "e\u{301}x\u{1b}[1;1Hé");
    assert_eq!(page.texts()[0], "éx");
    // A mark that comes later, at the end of a line, and one with nothing to stand on.
    let mut screen = WebScreen::new(size(3, 2));
    let mut page = PageCopy::default();
    screen.write("\u{301}abe".as_bytes());
    page.apply(screen.update());
    screen.write("\u{301}\u{302}z".as_bytes());
    page.apply(screen.update());
    assert_eq!(page.texts(), ["abe\u{301}\u{302}", "z"]);
    let page = shown(5, 2, "漢字漢\u{200d}x");
    assert_eq!(page.texts(), ["漢字", "漢x"]);
    assert_eq!(page.cursor, (3, 1, true));
    // None of our own numbers comes from a program.
    assert_eq!(shown(5, 1, "\u{100000}").texts(), ["\u{fffd}"]);
}

#[test]
fn what_is_cleared_is_forgotten() {
    let page = shown(
        10,
        2,
        "1\r\n2\r\n3\r\n\u{1b}[H\u{1b}[2J\u{1b}[3J\u{1b}]0;mine\u{7}\u{7}",
    );
    assert_eq!(page.texts(), ["", ""]);
    assert_eq!((page.title.as_str(), page.bells), ("mine", 1));
}

#[test]
fn questions_are_answered_and_bounded() {
    let mut screen = WebScreen::new(size(10, 3));
    let answer = screen.write(b"ab\r\nc\x1b[6n\x1b[5n\x1b[c\x1b[>c\x1b[?6n");
    let expect = "\u{1b}[2;2R\u{1b}[0n\u{1b}[?62;22c\u{1b}[>1;0;0c\u{1b}[?2;2R";
    assert_eq!(String::from_utf8_lossy(&answer), expect);
    let many = screen.write("\u{1b}[6n".repeat(10_000).as_bytes());
    assert!(many.len() <= 1024, "{} bytes", many.len());
}

#[test]
fn sizes_are_bounded() {
    let mut screen = WebScreen::new(size(0, 0));
    assert_eq!(screen.update().size, Some((2, 1)));
    let most = screen.resize(size(u16::MAX, u16::MAX));
    assert_eq!(most, size(400, 150));
    assert_eq!(screen.update().size, Some((400, 150)));
}

/// Output as programs write it, and bytes that none does.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let csi = "\u{1b}\\[[?>]?[0-9]{0,3}(;[0-9]{1,3})?[@A-Za-z`]";
    let mode = "\u{1b}\\[\\?(6|7|25|47|1047|1048|1049|2004)[hl]";
    let escape = "\u{1b}[78cDEHM]|\u{1b}\\([0B]|\u{1b}#8|\u{1b}\\[4[hl]|\u{1b}\\[![p]";
    let text = "[ -~äλ漢😀\u{301}\u{200d}\u{fe0f}\u{e31}\u{100001}]{0,12}";
    let piece = prop_oneof![
        4 => text.prop_map(String::into_bytes),
        3 => csi.prop_map(String::into_bytes),
        1 => mode.prop_map(String::into_bytes),
        1 => escape.prop_map(String::into_bytes),
        2 => "[\r\n\t\u{8}\u{e}\u{f}\u{7}]{1,4}".prop_map(String::into_bytes),
        1 => "\u{1b}\\][02];[a-z]{0,9}(\u{7}|\u{1b}\\\\)".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

#[derive(Clone, Debug)]
enum ScreenStep {
    Write(Vec<u8>),
    Resize(u16, u16),
    Update,
}

fn steps() -> impl Strategy<Value = Vec<ScreenStep>> {
    let step = prop_oneof![
        6 => output().prop_map(ScreenStep::Write),
        1 => (1..30u16, 1..9u16).prop_map(|(width, height)| ScreenStep::Resize(width, height)),
        3 => Just(ScreenStep::Update),
    ];
    proptest::collection::vec(step, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever a program writes, a page that is told of the differences shows what the whole terminal is.
    #[test]
    fn differences_make_the_whole(width in 1..30u16, height in 1..9u16, steps in steps()) {
        let mut screen = WebScreen::new(size(width, height));
        let mut page = PageCopy::default();
        for step in steps {
            match step {
                ScreenStep::Write(bytes) => drop(screen.write(&bytes)),
                ScreenStep::Resize(width, height) => drop(screen.resize(size(width, height))),
                ScreenStep::Update => page.apply(screen.update()),
            }
            if !screen.has_news() {
                prop_assert_eq!(screen.update(), ScreenUpdate::default());
            }
        }
        page.apply(screen.update());
        prop_assert_eq!(&page.rows, &screen.whole());
        prop_assert_eq!(page.cursor, screen.whole_cursor());
        prop_assert!(!screen.has_news());
    }
}
