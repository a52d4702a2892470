//! Single fields of a rule file: each is checked where it stands, and what is wrong is noted.

use std::ops::RangeInclusive;

use muster_model::exit::Behavior;
use serde_json::{Map, Value};

use super::RulesReader;
use crate::problem::RuleProblem;

pub(super) const KINDS: &[&str] = &[
    "USER_SUCCESS",
    "USER_STOP",
    "USER_FAILURE",
    "PLATFORM_FAILURE",
    "RESOURCE_ALLOCATION_TIMEOUT",
    "UNKNOWN_FAILURE",
];
pub(super) const STAGES: &[&str] = &[
    "SUBMITTING",
    "ALLOCATING",
    "LAUNCHING",
    "RUNNING",
    "COMPLETING",
    "UNKNOWN",
];
const BEHAVIORS: &[&str] = &["TRANSIENT", "TRANSIENT_CONFLICT", "PERMANENT", "UNKNOWN"];
pub(super) const REACTIONS: &[&str] = &[
    "ALWAYS_RETRY",
    "ALWAYS_BACKOFF_RETRY",
    "RETRY_TO_MAX",
    "NEVER_RETRY",
];

impl RulesReader {
    pub(super) fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(RuleProblem::new(path, message));
    }

    pub(super) fn phrase(&mut self, map: &Map<String, Value>, path: &str) -> String {
        let phrase = self.text(map, path, "phrase").unwrap_or_default();
        if phrase.is_empty() {
            self.problem(
                &format!("{path}.phrase"),
                "is missing; name the failure in one CamelCase word",
            );
        }
        phrase
    }

    pub(super) fn behavior(&mut self, map: &Map<String, Value>, path: &str) -> Behavior {
        match self.choice(map, path, "behavior", BEHAVIORS).as_deref() {
            Some("TRANSIENT") => Behavior::Transient,
            Some("TRANSIENT_CONFLICT") => Behavior::TransientConflict,
            Some("PERMANENT") => Behavior::Permanent,
            _ => Behavior::Unknown,
        }
    }

    /// A code that must be there; 0 stands in for one that is not.
    pub(super) fn code(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        field: &str,
        range: &RangeInclusive<i64>,
    ) -> i32 {
        if map.get(field).is_none_or(Value::is_null) {
            self.problem(
                &format!("{path}.{field}"),
                "is missing; give the rule a code of its own",
            );
        }
        self.exit_code(map, path, field, range).unwrap_or_default()
    }

    pub(super) fn exit_code(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        field: &str,
        range: &RangeInclusive<i64>,
    ) -> Option<i32> {
        self.integer(map, path, field, range)
            .and_then(|n| i32::try_from(n).ok())
    }

    pub(super) fn integer(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        field: &str,
        range: &RangeInclusive<i64>,
    ) -> Option<i64> {
        let value = map.get(field).filter(|v| !v.is_null())?;
        let number = value.as_i64().filter(|n| range.contains(n));
        if number.is_none() {
            let message = format!(
                "must be a whole number from {} to {}, not {value}",
                range.start(),
                range.end()
            );
            self.problem(&format!("{path}.{field}"), message);
        }
        number
    }

    pub(super) fn choice(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        field: &str,
        known: &[&str],
    ) -> Option<String> {
        let text = self.text(map, path, field)?;
        if !known.contains(&text.as_str()) {
            self.problem(
                &format!("{path}.{field}"),
                format!("{text:?} is not one of {}", known.join(", ")),
            );
        }
        Some(text)
    }

    pub(super) fn text(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        field: &str,
    ) -> Option<String> {
        match map.get(field)? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => {
                self.problem(
                    &format!("{path}.{field}"),
                    format!("must be a text, not {other}; put it in quotes"),
                );
                None
            }
        }
    }

    pub(super) fn texts(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        field: &str,
    ) -> Vec<String> {
        let list = match map.get(field) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(list)) => list,
            Some(_) => {
                self.problem(&format!("{path}.{field}"), "must be a list of texts");
                return Vec::new();
            }
        };
        if list.iter().any(|item| !item.is_string()) {
            self.problem(
                &format!("{path}.{field}"),
                "must hold texts only; put each item in quotes",
            );
        }
        list.iter()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    }

    pub(super) fn each<T>(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        field: &str,
        read: fn(&mut Self, &Map<String, Value>, &str) -> T,
    ) -> Vec<T> {
        let path = format!("{path}.{field}");
        let list = match map.get(field) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(list)) => list,
            Some(_) => {
                self.problem(&path, "must be a list");
                return Vec::new();
            }
        };
        let mut items = Vec::new();
        for (index, value) in list.iter().enumerate() {
            let path = format!("{path}[{index}]");
            if let Some(map) = self.mapping(value, &path) {
                items.push(read(self, map, &path));
            }
        }
        items
    }

    pub(super) fn mapping<'v>(
        &mut self,
        value: &'v Value,
        path: &str,
    ) -> Option<&'v Map<String, Value>> {
        let map = value.as_object();
        if map.is_none() {
            self.problem(path, "must be a mapping of fields");
        }
        map
    }

    pub(super) fn known_fields(&mut self, map: &Map<String, Value>, path: &str, known: &[&str]) {
        for field in map.keys().filter(|field| !known.contains(&field.as_str())) {
            let path = if path.is_empty() {
                field.clone()
            } else {
                format!("{path}.{field}")
            };
            self.problem(
                &path,
                format!("unknown field; known here: {}", known.join(", ")),
            );
        }
    }
}
