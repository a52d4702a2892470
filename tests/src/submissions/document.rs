//! A document as a tree that is changed, and as a text.

use std::fmt::Write as _;

use serde_json::Value;

/// How many values there are, with the whole.
pub(super) fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The value with this number, counted from 0 for the whole, as it is written; none behind the last.
pub(super) fn nth(value: &mut Value, number: usize) -> Option<&mut Value> {
    let mut left = number;
    find(value, &mut left)
}

fn find<'v>(value: &'v mut Value, left: &mut usize) -> Option<&'v mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| find(item, left)),
        Value::Object(fields) => fields.values_mut().find_map(|field| find(field, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The value in block style.
pub(super) fn yaml(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

fn block(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                // Into a text nothing fails to be written.
                let _ = write!(out, "{indent}{}:", key(name));
                below(field, depth, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let _ = write!(out, "{indent}-");
                below(item, depth, out);
            }
        }
        other => {
            let _ = writeln!(out, "{indent}{other}");
        }
    }
}

fn below(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            block(value, depth + 1, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(value, depth + 1, out);
        }
        Value::String(text) if is_block(text) => {
            out.push_str(" |-\n");
            for line in text.lines() {
                let _ = writeln!(out, "{}{line}", "  ".repeat(depth + 1));
            }
        }
        other => {
            let _ = writeln!(out, " {other}");
        }
    }
}

/// Whether a text is the same as a block of lines.
fn is_block(text: &str) -> bool {
    let is_plain = |c: char| c == '\n' || !c.is_control();
    text.contains('\n')
        && text.chars().all(is_plain)
        && !text.starts_with([' ', '\n'])
        && !text.ends_with('\n')
}

fn key(name: &str) -> String {
    let is_plain = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_plain && is_word {
        name.to_owned()
    } else {
        Value::from(name).to_string()
    }
}
