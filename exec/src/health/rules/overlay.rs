//! The administrator's file: fields of the table with other values.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use super::HealthRules;

/// What the file may say. Values are checked when they are in the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverlayFile {
    #[serde(default, rename = "limits")]
    _limits: Table,
    #[serde(default)]
    escalation: BTreeMap<String, EscalationChange>,
    #[serde(default)]
    rule: BTreeMap<String, RuleChange>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read for the check of its fields")]
struct EscalationChange {
    count: Option<Value>,
    window_s: Option<Value>,
    burst_s: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read for the check of its fields")]
struct RuleChange {
    shadow: Option<Value>,
    state: Option<Value>,
    quarantine: Option<Value>,
    sticky_s: Option<Value>,
}

/// The rules of `built_in`, changed by `text`. The error names line, field and what is wrong.
pub(super) fn merged(built_in: &str, text: &str) -> Result<HealthRules, String> {
    let file: OverlayFile = toml::from_str(text).map_err(|error| said(text, &error))?;
    let mut table: Table = built_in.parse().map_err(|error| said(built_in, &error))?;
    let changes: Table = text.parse().map_err(|error| said(text, &error))?;
    known(&table, "rule", file.rule.keys(), text)?;
    known(&table, "escalation", file.escalation.keys(), text)?;
    merge(&mut table, changes);
    table.try_into().map_err(|error: toml::de::Error| {
        let message = error.message().trim_end_matches('.');
        match wrong_value(built_in, text) {
            Some(place) => format!("{place}{message}"),
            None => message.to_owned(),
        }
    })
}

/// Which of the file's values does not fit: the one without which the rest does.
fn wrong_value(built_in: &str, text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let fits = |text: &str| {
        let mut table: Table = built_in.parse().ok()?;
        merge(&mut table, text.parse().ok()?);
        table.try_into::<HealthRules>().ok()
    };
    (0..lines.len()).find_map(|at| {
        let without: Vec<&str> = (0..)
            .zip(&lines)
            .filter(|(n, _)| *n != at)
            .map(|(_, l)| *l)
            .collect();
        fits(&without.join("\n"))?;
        place(text, at)
    })
}

/// Refuses names that the table does not have: a change of nothing would be a typing error.
fn known<'a>(
    table: &Table,
    part: &str,
    names: impl Iterator<Item = &'a String>,
    text: &str,
) -> Result<(), String> {
    let there = table.get(part).and_then(Value::as_table);
    for name in names {
        if !there.is_some_and(|there| there.contains_key(name)) {
            let at = line_with(text, name);
            return Err(format!("{at}there is no `{part}` called `{name}`"));
        }
    }
    Ok(())
}

fn line_with(text: &str, word: &str) -> String {
    let at = text.lines().position(|line| line.contains(word));
    at.map_or_else(String::new, |at| format!("line {}: ", at + 1))
}

fn merge(table: &mut Table, changes: Table) {
    for (name, change) in changes {
        match (table.get_mut(&name), change) {
            (Some(Value::Table(inner)), Value::Table(change)) => merge(inner, change),
            (_, change) => {
                table.insert(name, change);
            }
        }
    }
}

/// What is wrong, with its line and field.
fn said(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let place = before.and_then(|before| place(text, before.matches('\n').count()));
    let message = error.message().trim_end_matches('.');
    format!("{}{message}", place.unwrap_or_default())
}

/// The line of that number, from 0, and its field.
fn place(text: &str, at: usize) -> Option<String> {
    let line = text.lines().nth(at)?;
    let number = at + 1;
    Some(match line.split_once('=') {
        Some((field, _)) => format!("line {number}, field `{}`: ", field.trim()),
        None => format!("line {number}: "),
    })
}
