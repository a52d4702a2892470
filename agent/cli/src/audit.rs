//! `muster audit`.

use std::collections::BTreeSet;

use clap::Args;
use muster_model::people::{AuditLog, AuditRecord};
use serde_json::{Map, Value};

use super::api::Api;
use super::console::Console;
use super::error::CliError;
use super::moment::date;
use super::output::OutputOption;
use super::status::CliStatus;
use super::table::TextTable;

pub(super) const EXAMPLES: &str = "\
FROM: the address that the request came from; `socket` is root on the machine NODE. The last record is
the newest.

Examples:
  muster audit
  muster audit --subject ada --limit 20
  muster audit -o json | jq -r '.records[] | select(.action == \"user.add\").subject'";

/// Characters of one value, at most; `-o json` has all of it.
const VALUE_CHARS_MAX: usize = 80;

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub struct AuditArguments {
    /// Only changes of this user or group.
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,
    /// The newest records, at most so many.
    #[arg(long, value_name = "COUNT", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    output: OutputOption,
}

impl AuditArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let mut log = api.audit(self.subject.as_deref(), self.limit).await?;
        log.records.sort_by_key(|record| record.number);
        self.output
            .write(console, &log, |log, paint| table(log).render(paint, 0))?;
        match log.dropped {
            0 => {}
            1 => console.note("1 older record was dropped"),
            count => console.note(format!("{count} older records were dropped")),
        }
        Ok(CliStatus::Ok)
    }
}

fn table(log: &AuditLog) -> TextTable<7> {
    let mut table = TextTable::new(["WHEN", "WHO", "FROM", "NODE", "ACTION", "SUBJECT", "CHANGE"]);
    for record in &log.records {
        table.row([
            date(record.at_ms).into(),
            record.by.user.as_str().into(),
            record.by.address.as_str().into(),
            record.by.node.as_str().into(),
            record.action.as_str().into(),
            record.subject.as_str().into(),
            changes(record).into(),
        ]);
    }
    table
}

/// `email: none -> a@b.c; groups: +research -interns`: what differs, and nothing else.
fn changes(record: &AuditRecord) -> String {
    let before = fields(&record.before);
    // What a removed user had been is no change of a field.
    if record.after.is_empty() {
        return String::new();
    }
    let after = fields(&record.after);
    let mut words = Vec::new();
    compare("", &before, &after, &mut words);
    words.join("; ")
}

fn fields(json: &str) -> Map<String, Value> {
    serde_json::from_str(json).unwrap_or_default()
}

/// Objects are compared member by member, with a path as the name.
fn compare(
    path: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    words: &mut Vec<String>,
) {
    let added = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(added) {
        let (old, new) = (before.get(key), after.get(key));
        let path = format!("{path}{key}");
        if let (Some(Value::Object(old)), Some(Value::Object(new))) = (old, new) {
            compare(&format!("{path}."), old, new, words);
        } else if let Some(change) = change(old, new) {
            words.push(format!("{path}: {change}"));
        }
    }
}

/// Nothing where both mean the same: no value, and an empty one.
fn change(old: Option<&Value>, new: Option<&Value>) -> Option<String> {
    if old == new {
        return None;
    }
    let names = |value: Option<&Value>| match value {
        Some(Value::Array(items)) => Some(items.iter().map(shown).collect()),
        None | Some(Value::Null) => Some(BTreeSet::new()),
        Some(_) => None,
    };
    let is_list = [old, new]
        .iter()
        .any(|it| matches!(it, Some(Value::Array(_))));
    if let (true, Some(old), Some(new)) = (is_list, names(old), names(new)) {
        return listed(&old, &new);
    }
    let (old, new) = (old.map_or_else(none, shown), new.map_or_else(none, shown));
    (old != new).then(|| format!("{old} -> {new}"))
}

fn listed(old: &BTreeSet<String>, new: &BTreeSet<String>) -> Option<String> {
    let added = new.difference(old).map(|name| format!("+{name}"));
    let removed = old.difference(new).map(|name| format!("-{name}"));
    let names: Vec<String> = added.chain(removed).collect();
    match (names.is_empty(), old == new) {
        (true, true) if old.is_empty() => None,
        (true, _) => Some("in another order".to_owned()),
        _ => Some(names.join(" ")),
    }
}

fn none() -> String {
    "none".to_owned()
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => return none(),
        Value::String(text) if text.is_empty() => return none(),
        Value::Object(fields) if fields.is_empty() => return none(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use muster_model::people::Author;

    use super::*;

    fn record(before: &str, after: &str) -> AuditRecord {
        AuditRecord {
            number: 1,
            at_ms: 0,
            by: Author {
                user: "admin".to_owned(),
                address: "socket".to_owned(),
                node: "n1".to_owned(),
            },
            action: "user.change".to_owned(),
            subject: "ada".to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
        }
    }

    #[test]
    fn only_what_differs_is_told() {
        for (before, after, expect) in [
            (
                "",
                r#"{"email":"a@b","groups":["default"],"extension":{}}"#,
                "email: none -> a@b; groups: +default",
            ),
            (r#"{"email":"a@b"}"#, "", ""),
            (
                r#"{"email":"a@b","admin":false}"#,
                r#"{"email":"","admin":true}"#,
                "email: a@b -> none; admin: no -> yes",
            ),
            (
                r#"{"groups":["a","b"],"email":"x"}"#,
                r#"{"groups":["b","c"],"email":"x"}"#,
                "groups: +c -a",
            ),
            (
                r#"{"acl":{"admin":false,"vcs":["v"]}}"#,
                r#"{"acl":{"admin":true,"vcs":["v"]}}"#,
                "acl.admin: no -> yes",
            ),
            (
                r#"{"storages":["a","b"]}"#,
                r#"{"storages":["b","a"]}"#,
                "storages: in another order",
            ),
            (
                r#"{"groups":[]}"#,
                r#"{"revision":2}"#,
                "revision: none -> 2",
            ),
            ("no json", r#"{"email":null}"#, ""),
        ] {
            assert_eq!(changes(&record(before, after)), expect, "{before} {after}");
        }
    }

    #[test]
    fn a_long_value_is_cut() {
        let after = format!(r#"{{"description":"{}"}}"#, "ä".repeat(100));
        let told = changes(&record("{}", &after));
        assert!(
            told.ends_with("ää...") && told.chars().count() < 110,
            "{told}"
        );
    }
}
