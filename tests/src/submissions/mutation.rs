//! How inputs are made: a job file, changed in its structure, in its text, in its bytes.

use serde_json::{Map, Value, json};

use super::INPUT_BYTES_MAX;
use super::document::{count, nth, yaml};
use super::seeds::SeedJobs;
use super::words::{KEYS, PIECES, SECRET, TEMPLATES, VALUES};
use crate::sim::random::Random;

/// Changes of one kind of an input, at most.
const CHANGES_MAX: u64 = 4;
/// Copies of an item, at most.
const COPIES_MAX: u64 = 2_000;
const DEPTH_MAX: u64 = 70;
const LONG_MAX: u64 = 60_000;

pub(super) fn input(seeds: &SeedJobs, random: &mut Random) -> Vec<u8> {
    let seed = &seeds.all()[random.index(seeds.all().len())];
    let mut text = match random.below(8) {
        0..=1 => seed.text.clone(),
        _ => {
            let mut value = seed.value.clone();
            if random.below(2) == 0 {
                hide_something(&mut value);
            }
            if random.below(40) == 0 {
                misplace_secret(&mut value, random);
            }
            for _ in 0..random.below(CHANGES_MAX) {
                change(&mut value, seeds, random);
            }
            written(&value, random)
        }
    };
    if random.below(3) == 0 {
        for _ in 0..=random.below(CHANGES_MAX) {
            change_text(&mut text, seeds, random);
        }
    }
    let mut bytes = text.into_bytes();
    if random.below(12) == 0 {
        change_bytes(&mut bytes, random);
    }
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

/// Gives a job secrets.
fn hide_something(value: &mut Value) {
    let Some(fields) = value.as_object_mut() else {
        return;
    };
    let secrets = json!({
        "token": SECRET,
        "registry": {"password": SECRET, "keys": [SECRET, 2]},
        "quoted": format!("{SECRET}\"'\n<%"),
    });
    fields.insert("secrets".to_owned(), secrets);
    let roles = fields.get_mut("taskRoles").and_then(Value::as_object_mut);
    for role in roles.into_iter().flat_map(Map::values_mut) {
        if let Some(commands) = role.get_mut("commands").and_then(Value::as_array_mut) {
            commands.push("login <% $secrets.token %>".into());
        }
    }
    let images = fields
        .get_mut("prerequisites")
        .and_then(Value::as_array_mut);
    for image in images.into_iter().flatten() {
        if image["type"] == "dockerimage" && image.get("auth").is_none() {
            image["auth"] = json!({"username": "u", "password": SECRET});
        }
    }
}

/// Puts a secret where a mapping of them should be.
fn misplace_secret(value: &mut Value, random: &mut Random) {
    if !value.is_object() {
        return;
    }
    match random.below(2) {
        0 => value["secrets"] = SECRET.into(),
        _ => {
            let images = value.get_mut("prerequisites").and_then(Value::as_array_mut);
            for image in images.into_iter().flatten().filter(|it| it.is_object()) {
                image["auth"] = SECRET.into();
            }
        }
    }
}

fn written(value: &Value, random: &mut Random) -> String {
    match random.below(4) {
        0 => value.to_string(),
        1 => format!("{value:#}"),
        _ => yaml(value),
    }
}

fn any<'a>(words: &[&'a str], random: &mut Random) -> &'a str {
    words[random.index(words.len())]
}

fn any_value(random: &mut Random) -> Value {
    match random.below(8) {
        0 => any(&TEMPLATES, random).into(),
        1 => long_text(random).into(),
        2 => deep(random),
        _ => serde_json::from_str(any(&VALUES, random)).unwrap_or_default(),
    }
}

fn long_text(random: &mut Random) -> String {
    let length = random.below(LONG_MAX) / [1, 10, 100, 1000][random.index(4)];
    let piece = [
        "x",
        "a b\n",
        "\u{e9}",
        "<% $parameters.set %>",
        "\"'",
        "A1_",
    ][random.index(6)];
    piece.repeat(usize::try_from(length).unwrap_or(0) / piece.len())
}

fn deep(random: &mut Random) -> Value {
    let mut value = Value::from(1);
    for _ in 0..random.below(DEPTH_MAX) {
        value = match random.below(2) {
            0 => json!([value]),
            _ => json!({"a": value}),
        };
    }
    value
}

/// Changes the structure at one place.
fn change(value: &mut Value, seeds: &SeedJobs, random: &mut Random) {
    let number = random.index(count(value));
    let Some(place) = nth(value, number) else {
        return;
    };
    match random.below(10) {
        0..=1 => *place = any_value(random),
        2 => *place = json!([place.take()]),
        3 => *place = json!({(any(&KEYS, random)): place.take()}),
        4 => *place = of_another(seeds, random),
        5 => retype(place, random),
        _ => change_inside(place, random),
    }
}

/// A part of any job.
fn of_another(seeds: &SeedJobs, random: &mut Random) -> Value {
    let mut other = seeds.all()[random.index(seeds.all().len())].value.clone();
    let number = random.index(count(&other));
    nth(&mut other, number).map(Value::take).unwrap_or_default()
}

/// The same in another type.
fn retype(place: &mut Value, random: &mut Random) {
    *place = match place.take() {
        Value::String(text) => match random.below(3) {
            0 => Value::Array(
                text.chars()
                    .take(20)
                    .map(|c| c.to_string().into())
                    .collect(),
            ),
            1 => format!("{text}{}", any(&TEMPLATES, random)).into(),
            _ => text.parse::<f64>().map_or(Value::Bool(true), Value::from),
        },
        Value::Array(items) => {
            let named = items.into_iter().enumerate();
            Value::Object(named.map(|(at, item)| (at.to_string(), item)).collect())
        }
        Value::Object(fields) => fields.into_iter().map(|(_, field)| field).collect(),
        other => other.to_string().into(),
    };
}

/// Changes what a list or mapping holds.
fn change_inside(place: &mut Value, random: &mut Random) {
    match place {
        Value::Array(items) => change_list(items, random),
        Value::Object(fields) => change_fields(fields, random),
        other => *other = any_value(random),
    }
}

fn change_list(items: &mut Vec<Value>, random: &mut Random) {
    if items.is_empty() {
        return items.push(any_value(random));
    }
    let at = random.index(items.len());
    match random.below(5) {
        0 => drop(items.remove(at)),
        1 => items.insert(at, items[at].clone()),
        2 => {
            let copies = random.below(COPIES_MAX) / [1, 10, 100][random.index(3)];
            let item = items[at].clone();
            items.extend((0..copies).map(|_| item.clone()));
        }
        3 => items.swap(0, at),
        _ => items.insert(at, any_value(random)),
    }
}

fn change_fields(fields: &mut Map<String, Value>, random: &mut Random) {
    let names: Vec<String> = fields.keys().cloned().collect();
    let Some(name) = names.get(random.index(names.len())) else {
        fields.insert(any(&KEYS, random).to_owned(), any_value(random));
        return;
    };
    match random.below(6) {
        0..=1 => drop(fields.remove(name)),
        2 => {
            let value = fields.remove(name).unwrap_or_default();
            fields.insert(any_name(random), value);
        }
        3 => {
            let copies = random.below(COPIES_MAX) / [1, 10, 100][random.index(3)];
            let value = fields[name].clone();
            fields.extend((0..copies).map(|nth| (format!("{name}{nth}"), value.clone())));
        }
        4 => drop(fields.insert(name.clone(), any_value(random))),
        _ => drop(fields.insert(any(&KEYS, random).to_owned(), any_value(random))),
    }
}

fn any_name(random: &mut Random) -> String {
    match random.below(5) {
        0 => long_text(random),
        1 => any(&TEMPLATES, random).to_owned(),
        2 => any(
            &["", " ", "a.b", "a-b", "<<", "9", "\u{e9}", "'", "a]b[", "~"],
            random,
        )
        .to_owned(),
        _ => any(&KEYS, random).to_owned(),
    }
}

/// A place between two characters.
fn place(text: &str, random: &mut Random) -> usize {
    let mut at = random.index(text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Changes the text at one place.
fn change_text(text: &mut String, seeds: &SeedJobs, random: &mut Random) {
    let at = place(text, random);
    match random.below(9) {
        0..=2 => text.insert_str(at, any(&PIECES, random)),
        3 => {
            let (from, to) = (at, place(text, random));
            text.replace_range(from.min(to)..from.max(to), "");
        }
        4 => text.truncate(at),
        5 => change_line(text, random),
        6 => {
            let other = &seeds.all()[random.index(seeds.all().len())].text;
            let (from, to) = (place(other, random), place(other, random));
            text.insert_str(at, &other[from.min(to)..from.max(to)]);
        }
        7 => *text = text.replacen(any(&KEYS, random), &any_name(random), 2),
        _ => bomb(text, random),
    }
}

fn change_line(text: &mut String, random: &mut Random) {
    let mut lines: Vec<&str> = text.split('\n').collect();
    let at = random.index(lines.len());
    let moved;
    match random.below(4) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at]),
        2 => lines.swap(0, at),
        _ => {
            moved = format!("{}{}", " ".repeat(random.index(5)), lines[at].trim_start());
            lines[at] = &moved;
        }
    }
    *text = lines.join("\n");
}

/// Aliases that repeat aliases, or a long text.
fn bomb(text: &mut String, random: &mut Random) {
    let width = random.index(12) + 1;
    text.push_str("\nparameters:\n  a0: &a0 ");
    match random.below(2) {
        0 => text.push_str("[x, x, x, x]"),
        _ => text.push_str(&"y".repeat(random.index(20_000))),
    }
    for level in 1..random.below(14) {
        let again = vec![format!("*a{}", level - 1); width].join(", ");
        text.push_str(&format!("\n  a{level}: &a{level} [{again}]"));
    }
    text.push('\n');
}

/// Changes bytes, whatever they stand for.
fn change_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.index(bytes.len() + 1);
    match random.below(6) {
        0 => bytes.truncate(at),
        1 => {
            let noise = random.bytes(8);
            bytes.splice(at..at, noise);
        }
        2 => {
            let wide = String::from_utf8_lossy(bytes)
                .encode_utf16()
                .collect::<Vec<_>>();
            *bytes = wide.into_iter().flat_map(u16::to_le_bytes).collect();
        }
        3 => drop(bytes.splice(0..0, [0xef, 0xbb, 0xbf])),
        4 => drop(bytes.splice(at..at, [0xc3, 0x28])),
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
}
