//! Pages as HTML.

use std::fmt::{self, Display, Write as _};

use super::{Block, BlockBody, PageCell, Tone, column};

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}\
table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8885;\
vertical-align:top}\
th{font-weight:600}td.n,th.n{text-align:right}\
.good{color:light-dark(#17692c,#7bd88f)}.bad{color:light-dark(#b3261e,#ff8a80)}\
.dim{opacity:.7}\
@media(max-width:40rem){body{margin:1rem auto}table{display:block;overflow-x:auto}}";

/// A text that markup cannot hide in.
struct Safe<T>(T);

impl<T: Display> Display for Safe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.to_string().chars() {
            match c {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A page of blocks.
pub(super) fn page(title: &str, blocks: &[Block]) -> String {
    let mut body = format!("<h1>{}</h1>\n", Safe(title));
    for block in blocks {
        if !block.heading.is_empty() {
            let _ = writeln!(body, "<h2>{}</h2>", Safe(block.heading));
        }
        body.push_str(&written(&block.body));
    }
    document(&format!("{title} - Muster"), &body)
}

fn document(title: &str, body: &str) -> String {
    let title = Safe(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

fn written(body: &BlockBody) -> String {
    match body {
        BlockBody::Line(cell) => format!("<p{}>{}</p>\n", class(cell.tone), Safe(&cell.text)),
        BlockBody::List(items) => {
            let items = items
                .iter()
                .map(|item| format!("<li{}>{}</li>\n", class(item.tone), Safe(&item.text)));
            format!("<ul>\n{}</ul>\n", items.collect::<String>())
        }
        BlockBody::Table(columns, rows) => table(columns, rows),
    }
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Dim => " class=\"dim\"",
        Tone::Good => " class=\"good\"",
        Tone::Bad => " class=\"bad\"",
    }
}

fn table(columns: &[&str], rows: &[Vec<PageCell>]) -> String {
    let heading = columns.iter().map(|name| match column(name) {
        (name, true) => format!("<th class=\"n\">{}</th>", Safe(name)),
        (name, false) => format!("<th>{}</th>", Safe(name)),
    });
    let mut text = format!("<table>\n<tr>{}</tr>\n", heading.collect::<String>());
    for row in rows {
        let cells = row.iter().zip(columns).map(|(cell, name)| {
            let side = if column(name).1 { " class=\"n\"" } else { "" };
            format!("<td{side}>{}</td>", inline(cell))
        });
        let _ = writeln!(text, "<tr>{}</tr>", cells.collect::<String>());
    }
    text.push_str("</table>\n");
    text
}

fn inline(cell: &PageCell) -> String {
    match cell.tone {
        Tone::Plain => Safe(&cell.text).to_string(),
        tone => format!("<span{}>{}</span>", class(tone), Safe(&cell.text)),
    }
}
