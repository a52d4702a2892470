//! Pages as plain text.

use std::fmt::Write as _;

use super::{Block, BlockBody, PageCell, column};

/// A page of blocks.
pub(super) fn page(title: &str, blocks: &[Block]) -> String {
    let mut page = format!("{}\n", plain(title));
    for block in blocks {
        if !block.heading.is_empty() {
            let _ = write!(page, "\n{}\n", block.heading);
        }
        page.push_str(&written(&block.body));
    }
    page
}

fn written(body: &BlockBody) -> String {
    match body {
        BlockBody::Line(cell) => format!("  {}\n", plain(&cell.text)),
        BlockBody::List(items) => {
            let items = items.iter();
            items
                .map(|item| format!("  - {}\n", plain(&item.text)))
                .collect()
        }
        BlockBody::Table(columns, rows) => table(columns, rows),
    }
}

/// One line without control characters: what others say of themselves must not command the
/// terminal of whoever reads it.
fn plain(text: &str) -> String {
    let safe = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(safe).collect()
}

fn table(columns: &[&str], rows: &[Vec<PageCell>]) -> String {
    let heading: Vec<String> = columns
        .iter()
        .map(|name| column(name).0.to_owned())
        .collect();
    let rows = rows.iter();
    let rows = rows.map(|row| row.iter().map(|cell| plain(&cell.text)).collect());
    let lines: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
    let width = |at: usize| {
        let cells = lines.iter().filter_map(|line| line.get(at));
        cells.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    lines
        .iter()
        .map(|cells| line(cells, &widths, columns))
        .collect()
}

fn line(cells: &[String], widths: &[usize], columns: &[&str]) -> String {
    let mut line = String::new();
    for ((text, width), name) in cells.iter().zip(widths).zip(columns) {
        let _ = match column(name) {
            (_, true) => write!(line, "  {text:>width$}"),
            (_, false) => write!(line, "  {text:<width$}"),
        };
    }
    format!("{}\n", line.trim_end())
}
