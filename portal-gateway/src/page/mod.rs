//! Pages for people: plain HTML in one request, no JavaScript, and the same as text.
//!
//! A page is a list of [`Block`]s, made once by [`content`] and written down by `html` and by
//! `text`.

mod content;
mod html;
mod text;

use crate::status::StatusPage;

/// The page at `/status`.
pub(crate) fn status(status: &StatusPage) -> String {
    html::page(status.title(), &content::blocks(status))
}

/// The same for a terminal.
pub(crate) fn status_text(status: &StatusPage) -> String {
    text::page(status.title(), &content::blocks(status))
}

/// A part of a page, under its heading.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    /// Empty for what stands right below the title.
    heading: &'static str,
    body: BlockBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum BlockBody {
    /// One sentence.
    Line(PageCell),
    /// Several.
    List(Vec<PageCell>),
    /// Columns under a heading each; a column named `#...` is aligned to the right.
    Table(Vec<&'static str>, Vec<Vec<PageCell>>),
}

/// A text, and whether it is good or bad news.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PageCell {
    text: String,
    tone: Tone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Plain,
    Dim,
    Good,
    Bad,
}

impl PageCell {
    fn new(tone: Tone, text: impl ToString) -> Self {
        let text = text.to_string();
        Self { text, tone }
    }

    fn plain(text: impl ToString) -> Self {
        Self::new(Tone::Plain, text)
    }

    /// Good news if `good`, else bad.
    fn judged(good: bool, text: impl ToString) -> Self {
        Self::new(if good { Tone::Good } else { Tone::Bad }, text)
    }
}

/// The name of a column without the mark that aligns it.
fn column(name: &str) -> (&str, bool) {
    match name.strip_prefix('#') {
        Some("") => ("#", true),
        Some(name) => (name, true),
        None => (name, false),
    }
}
