//! A page of text about one thing: a title, facts, and sections below them.

use std::fmt::{Display, Write as _};

use super::console::{Paint, printable};
use super::table::TextTable;

/// The page as far as it is written. What comes from elsewhere is made printable.
#[derive(Debug)]
pub(super) struct Page {
    text: String,
    paint: Paint,
}

impl Page {
    /// Begins with a title that is painted already, or with a table.
    pub(super) fn new(paint: Paint, title: impl Display) -> Self {
        let text = format!("{title}\n");
        Self { text, paint }
    }

    /// Begins with a title.
    pub(super) fn titled(paint: Paint, title: &str) -> Self {
        Self::new(paint, paint.bold(&printable(title)))
    }

    /// Names, each with its value in a column `width` characters further on.
    pub(super) fn facts<'n>(
        &mut self,
        width: usize,
        facts: impl IntoIterator<Item = (&'n str, String)>,
    ) {
        for (name, value) in facts {
            let _ = writeln!(self.text, "  {name:<width$}{}", printable(&value));
        }
    }

    /// Text, each line indented.
    pub(super) fn lines(&mut self, text: &str) {
        for line in printable(text).lines() {
            let indent = if line.is_empty() { "" } else { "  " };
            let _ = writeln!(self.text, "{indent}{line}");
        }
    }

    /// Text under a heading; nothing where there is no text.
    pub(super) fn section(&mut self, title: &str, text: &str) {
        if !text.is_empty() {
            self.heading(title);
            self.lines(text);
        }
    }

    /// Items under a heading; nothing where there is none.
    pub(super) fn list(&mut self, title: &str, items: &[impl Display]) {
        let items: Vec<String> = items.iter().map(|item| format!("- {item}")).collect();
        self.section(title, &items.join("\n"));
    }

    /// A table under a heading; nothing where it has no rows.
    pub(super) fn table<const N: usize>(&mut self, title: &str, table: &TextTable<N>) {
        if !table.is_empty() {
            self.heading(title);
            self.text.push_str(&table.render(self.paint, 2));
        }
    }

    fn heading(&mut self, title: &str) {
        let _ = writeln!(self.text, "\n{}", self.paint.bold(title));
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}
