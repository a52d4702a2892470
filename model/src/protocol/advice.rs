//! What a schema's error means for the person who wrote the job, in words and with the remedy.
//!
//! ajv's own message often leaves out which key is wrong, and what would be right.

use serde_json::Value;

use super::nearest::nearest;
use super::schema::{TextPattern, Type};
use super::template::OPEN;

/// So much of what a job says is repeated.
const EXCERPT_CHARS: usize = 60;

/// Where keys belong that are often written elsewhere.
const HOMES: [(&str, &str); 17] = [
    ("shmMB", "extraContainerOptions of the task role"),
    ("infiniband", "extraContainerOptions of the task role"),
    ("cpu", "resourcePerInstance of the task role"),
    ("gpu", "resourcePerInstance of the task role"),
    ("memoryMB", "resourcePerInstance of the task role"),
    ("ports", "resourcePerInstance of the task role"),
    ("minFailedInstances", "completion of the task role"),
    ("minSucceededInstances", "completion of the task role"),
    ("commands", "the task role"),
    ("instances", "the task role"),
    ("dockerImage", "the task role"),
    ("taskRetryCount", "the task role"),
    ("virtualCluster", "defaults"),
    ("gangAllocation", "extras"),
    ("hivedScheduler", "extras"),
    ("storages", "extras"),
    ("jobRetryCount", "the job itself, beside taskRoles"),
];

/// A key that is not known at its place; `known` are those that are.
pub(super) fn unknown_key(name: &str, known: &[&str]) -> String {
    if let Some(meant) = nearest(name, known.iter().copied()) {
        return format!("is not known here; did you mean {meant}?");
    }
    if let Some((_, home)) = HOMES.iter().find(|(key, _)| *key == name) {
        return format!("is not known here; it belongs into {home}");
    }
    if name == "image" {
        return "is not known here; an image is a prerequisite of type dockerimage, which dockerImage of \
                the task role names"
            .to_owned();
    }
    format!("is not known here; known are {}", known.join(", "))
}

/// A name that breaks the rule for names.
pub(super) fn bad_name(name: &str, pattern: TextPattern) -> String {
    let rule = match pattern {
        TextPattern::Name => "a name has letters, digits, - and _ only",
        TextPattern::Identifier => {
            "a name here has letters, digits and _ only, and begins with a letter or _"
        }
        TextPattern::HivedRole => "a name here has letters, digits, '.', _ and ~ only",
    };
    let source = pattern.source();
    let source = source.trim_start_matches('^').trim_end_matches('$');
    let mut text = format!("is no valid name: {rule} ({source})");
    if let Some(valid) = mended(name, pattern) {
        text.push_str(&format!("; {valid} would do"));
    }
    text
}

/// The name with `_` for what is not allowed.
fn mended(name: &str, pattern: TextPattern) -> Option<String> {
    let fits = |letter: char| pattern.matches(&format!("a{letter}"));
    let letters = name.chars().take(EXCERPT_CHARS);
    let name: String = letters
        .map(|letter| if fits(letter) { letter } else { '_' })
        .collect();
    let name = match pattern.matches(&name) {
        true => name,
        false => format!("_{name}"),
    };
    let says_something = name.chars().any(|letter| letter.is_ascii_alphanumeric());
    (says_something && pattern.matches(&name)).then_some(name)
}

/// A value of another type than those that are admitted.
pub(super) fn wrong_type(value: &Value, types: &[Type]) -> String {
    let wanted: Vec<&str> = types.iter().map(|kind| of_kind(*kind)).collect();
    let mut text = format!("should be {}, not {}", wanted.join(" or "), of_value(value));
    match value {
        Value::String(written) if written.contains(OPEN) => {
            text.push_str("; parameters count in commands only: write the value itself");
        }
        Value::String(written) if is_number_for(written, types) => {
            text.push_str("; write it without quotes");
        }
        Value::Number(_) | Value::Bool(_) if types.contains(&Type::String) => {
            text.push_str(&format!("; write \"{value}\", in quotes"));
        }
        Value::String(_) if types.contains(&Type::Array) => {
            text.push_str("; write each item in a line of its own, after \"- \"");
        }
        _ => {}
    }
    text
}

/// The same of a value that may be a secret.
pub(super) fn wrong_type_of_secret(types: &[Type]) -> String {
    let wanted: Vec<&str> = types.iter().map(|kind| of_kind(*kind)).collect();
    let mut text = format!("should be {}", wanted.join(" or "));
    if types.contains(&Type::String) {
        text.push_str("; write numbers in quotes");
    }
    text
}

fn is_number_for(written: &str, types: &[Type]) -> bool {
    let wants = types.contains(&Type::Integer) || types.contains(&Type::Number);
    wants && written.trim().parse::<i64>().is_ok()
}

const fn of_kind(kind: Type) -> &'static str {
    match kind {
        Type::Null => "nothing",
        Type::Boolean => "true or false",
        Type::Integer => "a whole number",
        Type::Number => "a number",
        Type::String => "text",
        Type::Array => "a list",
        Type::Object => "a mapping",
    }
}

/// A value in few words.
fn of_value(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the text {:?}", excerpt(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    }
}

/// A value that is none of those that are admitted.
pub(super) fn no_choice(value: &Value, choices: &[Value]) -> String {
    let texts: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
    let mut plain: Vec<String> = choices.iter().map(plain).collect();
    plain.dedup();
    let given = value.as_str().unwrap_or_default();
    let meant = nearest(given, texts.iter().copied());
    let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
    format!(
        "should be {}, not {}{meant}",
        plain.join(" or "),
        of_value(value)
    )
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A number beyond a bound; `sign` is the comparison that should hold.
pub(super) fn out_of_bounds(value: &Value, sign: &str, limit: i64) -> String {
    let words = if sign == ">=" { "at least" } else { "at most" };
    format!("should be {words} {limit}, not {value}")
}

/// A list or mapping with too little in it.
pub(super) fn too_small(count: usize, things: &str) -> String {
    format!("should not be empty: at least {count} of its {things} have to be there")
}

/// A text longer than it may be.
pub(super) fn too_long(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    format!("has {length} characters; at most {limit} are allowed")
}

/// The beginning of a text.
pub(super) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
