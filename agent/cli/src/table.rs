//! Columns of text, as wide as their widest cell.

use anstyle::Style;

use super::console::{Paint, printable};

/// Spaces between two columns.
const GAP: usize = 2;

/// One cell.
#[derive(Clone, Debug)]
pub(super) struct TableCell {
    text: String,
    style: Style,
}

impl TableCell {
    pub(super) fn styled(text: impl ToString, style: Style) -> Self {
        let text = printable(&text.to_string()).replace(['\n', '\t'], " ");
        Self { text, style }
    }
}

impl<T: ToString> From<T> for TableCell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// Rows under a heading. A column in which no row says anything is left out.
#[derive(Clone, Debug)]
pub(super) struct TextTable<const N: usize> {
    heading: [&'static str; N],
    rows: Vec<[TableCell; N]>,
}

impl<const N: usize> TextTable<N> {
    pub(super) const fn new(heading: [&'static str; N]) -> Self {
        Self {
            heading,
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: [TableCell; N]) {
        self.rows.push(cells);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as lines, each behind `indent` spaces and without blanks at its end.
    pub(super) fn render(&self, paint: Paint, indent: usize) -> String {
        let columns: Vec<(usize, usize)> = (0..N)
            .filter(|&i| self.rows.iter().any(|row| !row[i].text.is_empty()))
            .map(|i| (i, self.width(i)))
            .collect();
        let heading = self
            .heading
            .map(|text| TableCell::styled(text, Style::new().bold()));
        let mut text = String::new();
        for row in std::iter::once(&heading).chain(&self.rows) {
            text.push_str(&" ".repeat(indent));
            text.push_str(&line(row, &columns, paint));
            text.push('\n');
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].text.as_str());
        cells
            .chain([self.heading[column]])
            .map(|text| text.chars().count())
            .max()
            .unwrap_or(0)
    }
}

fn line<const N: usize>(row: &[TableCell; N], columns: &[(usize, usize)], paint: Paint) -> String {
    let Some(end) = columns.iter().rposition(|&(i, _)| !row[i].text.is_empty()) else {
        return String::new();
    };
    let mut line = String::new();
    for (place, &(i, width)) in columns[..=end].iter().enumerate() {
        let cell = &row[i];
        line.push_str(&paint.styled(cell.style, &cell.text));
        if place < end {
            line.push_str(&" ".repeat(width - cell.text.chars().count() + GAP));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use anstyle::AnsiColor;

    #[test]
    fn columns_line_up_with_and_without_colours() {
        let mut table = TextTable::new(["NAME", "EMPTY", "STATE", "WHY"]);
        let red = AnsiColor::Red.on_default();
        table.row([
            "a".into(),
            "".into(),
            TableCell::styled("BAD", red),
            "two\nlines".into(),
        ]);
        table.row(["longer".into(), "".into(), "GOOD".into(), "".into()]);
        let plain = table.render(Paint { colour: false }, 2);
        assert_eq!(
            plain,
            "  NAME    STATE  WHY\n  a       BAD    two lines\n  longer  GOOD\n"
        );
        let coloured = table.render(Paint { colour: true }, 2);
        assert!(coloured.contains("\u{1b}[31mBAD\u{1b}[0m"), "{coloured:?}");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
    }
}
