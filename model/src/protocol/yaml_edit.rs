//! Changes of single values in YAML text, which leave the rest of the text as it was written.
//!
//! Only text in block style is looked through, by its indentation. What comes out is read again, and counts only
//! if it reads as it is to; else the value around is written anew, and the whole document at last.

use serde_json::{Map, Value};

use super::{document_yaml, yaml};

/// A step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueStep {
    Key(String),
    Item(usize),
}

/// The value at a path.
pub(super) fn value_at<'v>(document: &'v Value, path: &[ValueStep]) -> Option<&'v Value> {
    path.iter().try_fold(document, |value, step| match step {
        ValueStep::Key(key) => value.get(key),
        ValueStep::Item(index) => value.get(index),
    })
}

/// The text with what stands at the path written as in `wanted`: the whole document as it is to be.
///
/// # Errors
/// When the document cannot be written.
pub(crate) fn written(text: &str, path: &[ValueStep], wanted: &Value) -> Result<String, String> {
    for length in (1..=path.len()).rev() {
        let edited = YamlLines::of(text).edited(&path[..length], wanted);
        if let Some(edited) = edited.filter(|edited| reads_as(edited, wanted)) {
            return Ok(edited);
        }
    }
    let anew = fields_anew(wanted);
    match anew.filter(|anew| reads_as(anew, wanted)) {
        Some(anew) => Ok(anew),
        None => document_yaml(wanted),
    }
}

/// How many lines of a text are comments.
pub(super) fn comment_lines(text: &str) -> usize {
    text.lines()
        .filter(|line| line.trim_start().starts_with('#'))
        .count()
}

fn reads_as(text: &str, wanted: &Value) -> bool {
    yaml::read(text).is_ok_and(|read| read == *wanted)
}

fn fields_anew(document: &Value) -> Option<String> {
    let fields = document.as_object()?.iter();
    let lines = fields.map(|(key, value)| format!("{}:{}", key_text(key), value_text(value, 0)));
    Some(lines.collect())
}

/// Lines that hold one value.
#[derive(Clone, Copy, Debug)]
struct LineRange {
    first: usize,
    end: usize,
    /// Where the first line's content begins, if something of the value around stands before it.
    column: Option<usize>,
}

/// A key with its value.
#[derive(Clone, Copy, Debug)]
struct KeyedValue {
    line: usize,
    column: usize,
    /// Where in the line the colon ends.
    after: usize,
    end: usize,
    /// Whether something stands before the key.
    is_behind: bool,
}

/// A text, line by line. Each has its line break.
struct YamlLines<'t>(Vec<&'t str>);

impl<'t> YamlLines<'t> {
    fn of(text: &'t str) -> Self {
        Self(text.split_inclusive('\n').collect())
    }

    fn edited(&self, path: &[ValueStep], wanted: &Value) -> Option<String> {
        let (ValueStep::Key(key), around) = path.split_last()? else {
            return None;
        };
        let value = value_at(wanted, path);
        let around = self.find(around)?;
        match (self.keyed(around, key), value) {
            (Some(found), Some(value)) => Some(self.replaced(found, value)),
            (Some(found), None) if found.is_behind => None,
            (Some(found), None) => Some(self.with(found.line, found.end, "")),
            (None, Some(value)) => self.inserted(around, key, value),
            (None, None) => None,
        }
    }

    /// The lines of a mapping or a sequence.
    fn find(&self, path: &[ValueStep]) -> Option<LineRange> {
        let all = LineRange {
            first: 0,
            end: self.0.len(),
            column: None,
        };
        path.iter().try_fold(all, |range, step| match step {
            ValueStep::Key(key) => self.below(self.keyed(range, key)?),
            ValueStep::Item(index) => self.item(range, *index),
        })
    }

    /// Where the content of a line begins; none if it is blank, a comment or a mark between documents.
    fn column(&self, range: LineRange, line: usize) -> Option<usize> {
        if line == range.first && range.column.is_some() {
            return range.column;
        }
        let text = self.0[line];
        let content = text.trim_start_matches(' ');
        let is_content = !content.trim().is_empty() && !content.starts_with('#');
        (is_content && !text.starts_with("---")).then(|| text.len() - content.len())
    }

    /// The lines of a range that have content, with where it begins.
    fn contents(&self, range: LineRange) -> impl Iterator<Item = (usize, usize)> {
        let lines = range.first..range.end;
        lines.filter_map(move |line| Some((line, self.column(range, line)?)))
    }

    fn is_item(&self, line: usize, column: usize) -> bool {
        let content = self.0[line].get(column..).unwrap_or_default();
        content.trim_end() == "-" || content.starts_with("- ")
    }

    fn keyed(&self, range: LineRange, key: &str) -> Option<KeyedValue> {
        let (_, indent) = self.contents(range).next()?;
        let mut own = self
            .contents(range)
            .filter(|(line, column)| *column == indent && !self.is_item(*line, *column));
        let (line, after) = own.find_map(|(line, column)| {
            let content = self.0[line].get(column..)?;
            let (found, after) = key_of(content)?;
            (found == key).then_some((line, column + after))
        })?;
        let rest = LineRange {
            first: line + 1,
            end: range.end,
            column: None,
        };
        let next = self.contents(rest).find(|(line, column)| {
            *column < indent || (*column == indent && !self.is_item(*line, *column))
        });
        let end = next.map_or(range.end, |(line, _)| line);
        Some(KeyedValue {
            line,
            column: indent,
            after,
            end: self.without_remarks(line + 1, end, indent),
            is_behind: line == range.first && range.column.is_some(),
        })
    }

    /// The end of a value, without blank lines and comments that follow it.
    fn without_remarks(&self, first: usize, end: usize, indent: usize) -> usize {
        let is_remark = |line: &str| {
            let content = line.trim_start_matches(' ');
            let is_outside = line.len() - content.len() <= indent;
            content.trim().is_empty() || (is_outside && content.starts_with('#'))
        };
        let mut end = end;
        while end > first && is_remark(self.0[end - 1]) {
            end -= 1;
        }
        end
    }

    /// The lines below a key, if its value stands there.
    fn below(&self, found: KeyedValue) -> Option<LineRange> {
        let rest = self.0[found.line].get(found.after..)?.trim();
        let is_below = rest.is_empty() || rest.starts_with('#');
        is_below.then_some(LineRange {
            first: found.line + 1,
            end: found.end,
            column: None,
        })
    }

    fn item(&self, range: LineRange, index: usize) -> Option<LineRange> {
        let (_, indent) = self.contents(range).next()?;
        let own = self.contents(range);
        let own = own.filter(|(line, column)| *column == indent && self.is_item(*line, *column));
        let mut items = own.map(|(line, _)| line).skip(index);
        let first = items.next()?;
        let end = items.next().unwrap_or(range.end);
        let content = self.0[first].get(indent + 1..)?;
        let spaces = content.len() - content.trim_start_matches(' ').len();
        Some(LineRange {
            first,
            end: self.without_remarks(first + 1, end, indent),
            column: Some(indent + 1 + spaces),
        })
    }

    fn replaced(&self, found: KeyedValue, value: &Value) -> String {
        let line = self.0[found.line];
        let (head, rest) = line.split_at(found.after);
        let new = value_text(value, found.column);
        let is_line = found.end == found.line + 1 && new.matches('\n').count() == 1;
        let remark = remark_of(rest).filter(|_| is_line);
        let new = match remark {
            Some(remark) => format!("{head}{} {remark}\n", new.trim_end()),
            None => format!("{head}{new}"),
        };
        self.with(found.line, found.end, &new)
    }

    fn inserted(&self, range: LineRange, key: &str, value: &Value) -> Option<String> {
        let (_, indent) = self.contents(range).next()?;
        let last = self.without_remarks(range.first, range.end, indent);
        let key = key_text(key);
        let new = format!("{:indent$}{key}:{}", "", value_text(value, indent));
        Some(self.with(last, last, &new))
    }

    /// The text with other lines in the place of these.
    fn with(&self, first: usize, end: usize, new: &str) -> String {
        let mut text: String = self.0[..first].concat();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(new);
        text.extend(self.0[end..].iter().copied());
        text
    }
}

/// The key that a line begins with, and where its colon ends.
fn key_of(content: &str) -> Option<(String, usize)> {
    let quote = content.chars().next().filter(|c| matches!(c, '"' | '\''));
    let (key, colon) = match quote {
        Some(quote) => {
            let end = content[1..].find(quote)? + 1;
            (&content[1..end], end + 1)
        }
        None => {
            let is_colon = |(at, _): &(usize, &str)| {
                let rest = &content[at + 1..];
                rest.is_empty() || rest.starts_with([' ', '\n', '\r'])
            };
            let (at, _) = content.match_indices(':').find(is_colon)?;
            (content[..at].trim_end(), at)
        }
    };
    content[colon..]
        .starts_with(':')
        .then(|| (key.to_owned(), colon + 1))
}

/// The comment at the end of a line whose value is not quoted, or ends with its quote.
fn remark_of(rest: &str) -> Option<&str> {
    let value = rest.trim_start();
    let skipped = rest.len() - value.len();
    let from = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => skipped + 1 + value[1..].find(quote)? + 1,
        Some('|' | '>') => return None,
        _ => 0,
    };
    let at = from + rest[from..].find(" #")? + 1;
    Some(rest[at..].trim_end())
}

/// A key as it is written.
fn key_text(key: &str) -> String {
    scalar(key)
}

/// A value with what stands between it and its colon, and its line breaks.
fn value_text(value: &Value, indent: usize) -> String {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let inner = indent + 2;
            format!("\n{}", mapping(fields, inner, inner))
        }
        Value::Array(items) if !items.is_empty() => {
            let inner = indent + 2;
            let items = items.iter().map(|item| item_text(item, inner));
            format!("\n{}", items.collect::<String>())
        }
        Value::String(text) if text.contains('\n') => literal(text, indent + 2),
        Value::String(text) => format!(" {}\n", scalar(text)),
        other => format!(" {other}\n"),
    }
}

/// The lines of a mapping. `first`: how far the first one is indented yet to be.
fn mapping(fields: &Map<String, Value>, first: usize, indent: usize) -> String {
    let mut pad = first;
    let mut text = String::new();
    for (key, value) in fields {
        text += &format!("{:pad$}{}:{}", "", key_text(key), value_text(value, indent));
        pad = indent;
    }
    text
}

fn item_text(item: &Value, indent: usize) -> String {
    match item {
        Value::Object(fields) if !fields.is_empty() => {
            format!("{:indent$}- {}", "", mapping(fields, 0, indent + 2))
        }
        other => format!("{:indent$}-{}", "", value_text(other, indent)),
    }
}

/// Text of several lines, as it is.
fn literal(text: &str, indent: usize) -> String {
    let (mark, text) = match text.strip_suffix('\n') {
        Some(text) => ("|", text),
        None => ("|-", text),
    };
    let lines = text.split('\n').map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("{:indent$}{line}\n", ""),
    });
    format!(" {mark}\n{}", lines.collect::<String>())
}

/// Text of one line: as it is, if it reads as text so, else in quotes.
fn scalar(text: &str) -> String {
    let is_plain = |text: &str| {
        !text.ends_with(':') && yaml::read(text).is_ok_and(|read| read.as_str() == Some(text))
    };
    match is_plain(text) {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# A job.
name: a   # its name
list:
- one: 1
  two: 2
# before extras
extras:
  deep:
    x: 'q # no comment' # a comment
  flow: {a: 1, b: [2, 3]}
  script: |
    # not a comment
    echo
";

    fn path(text: &str) -> Vec<ValueStep> {
        let steps = text.split('.').map(|step| match step.parse() {
            Ok(index) => ValueStep::Item(index),
            Err(_) => ValueStep::Key(step.to_owned()),
        });
        steps.collect()
    }

    /// The text after a change of one value; none: it is taken away.
    fn set(text: &str, at: &str, value: Option<Value>) -> String {
        let mut wanted = yaml::read(text).unwrap();
        let path = path(at);
        let (last, around) = path.split_last().unwrap();
        let mut place = &mut wanted;
        for step in around {
            place = match step {
                ValueStep::Key(key) => place.get_mut(key).unwrap(),
                ValueStep::Item(index) => place.get_mut(*index).unwrap(),
            };
        }
        let ValueStep::Key(key) = last else {
            panic!("{at}");
        };
        let fields = place.as_object_mut().unwrap();
        match value {
            Some(value) => drop(fields.insert(key.clone(), value)),
            None => drop(fields.shift_remove(key)),
        }
        let text = written(text, &path, &wanted).unwrap();
        assert_eq!(yaml::read(&text).unwrap(), wanted, "{text}");
        text
    }

    #[test]
    fn only_the_line_of_a_value_is_changed() {
        for (at, value, old, new) in [
            ("name", "b", "name: a   # its name", "name: b # its name"),
            (
                "name",
                "yes: no",
                "name: a   # its name",
                "name: \"yes: no\" # its name",
            ),
            ("list.0.one", "z", "- one: 1", "- one: z"),
            ("list.0.two", "012", "  two: 2", "  two: \"012\""),
            (
                "extras.deep.x",
                "y",
                "x: 'q # no comment' # a comment",
                "x: y # a comment",
            ),
        ] {
            let text = set(TEXT, at, Some(value.into()));
            assert_eq!(text, TEXT.replace(old, new), "{at}");
        }
    }

    #[test]
    fn what_is_new_stands_at_the_end_of_its_mapping() {
        let text = set(TEXT, "extras.deep.n", Some(1.into()));
        let line = "# a comment\n    n: 1\n  flow";
        assert!(text.contains(line), "{text}");
        let text = set(TEXT, "retries", Some(1.into()));
        assert!(text.ends_with("    echo\nretries: 1\n"), "{text}");
        let text = set("name: a", "b", Some("c".into()));
        assert_eq!(text, "name: a\nb: c\n");
    }

    #[test]
    fn a_value_of_several_lines_is_replaced_as_a_whole() {
        let text = set(TEXT, "extras.script", Some("a\n\n b".into()));
        assert!(text.ends_with("  script: |-\n    a\n\n     b\n"), "{text}");
        let text = set(
            TEXT,
            "list",
            Some(serde_json::json!([{"a": ["b", {}]}, "c\nd"])),
        );
        let list = "list:\n  - a:\n      - b\n      - {}\n  - |-\n    c\n    d\n# before";
        assert!(text.contains(list), "{text}");
    }

    #[test]
    fn inside_braces_the_value_around_is_written_anew() {
        let text = set(TEXT, "extras.flow.a", Some(5.into()));
        let flow = "  flow:\n    a: 5\n    b:\n      - 2\n      - 3\n  script: |\n";
        assert_eq!(
            text,
            TEXT.replace("  flow: {a: 1, b: [2, 3]}\n  script: |\n", flow)
        );
    }

    #[test]
    fn what_is_taken_away_takes_its_lines_along() {
        let text = set(TEXT, "extras.deep", None);
        let gone = "  deep:\n    x: 'q # no comment' # a comment\n";
        assert_eq!(text, TEXT.replace(gone, ""));
        // The first key of an item stands behind its mark.
        let text = set(TEXT, "list.0.one", None);
        assert!(text.contains("# before extras"), "{text}");
    }

    #[test]
    fn what_cannot_be_edited_is_written_anew() {
        for text in ["{name: a, b: c}", "? name\n: a\n", "name: &x a\nb: *x\n"] {
            let text = set(text, "name", Some("z".into()));
            assert!(text.contains("z"), "{text}");
        }
    }
}
