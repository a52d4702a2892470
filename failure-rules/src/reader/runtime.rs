//! Patterns for what a task left inside its container: OpenPAI's fields, and ours for the end of the user log.

use serde_json::{Map, Value};

use super::{EXIT_CODES, LAST_LINES, RulesReader};
use crate::ending::Launcher;
use crate::rule::{EndPlace, LineRole, ReportedPattern, RuntimePattern};
use crate::scan::PatternId;

const USER_LOG: &str = "userLogRegex";
const LOG_LINES: &str = "userLogLastLines";
const PLACE: &str = "userLogIn";
const BEFORE: &str = "userLogBefore";
const NOT: &str = "userLogNot";
const REPORTED: &str = "reported";
const SIGNALS: [(&str, i32); 18] = [
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGILL", 4),
    ("SIGTRAP", 5),
    ("SIGABRT", 6),
    ("SIGBUS", 7),
    ("SIGFPE", 8),
    ("SIGKILL", 9),
    ("SIGUSR1", 10),
    ("SIGSEGV", 11),
    ("SIGUSR2", 12),
    ("SIGPIPE", 13),
    ("SIGALRM", 14),
    ("SIGTERM", 15),
    ("SIGXCPU", 24),
    ("SIGXFSZ", 25),
    ("SIGSYS", 31),
];

impl RulesReader {
    /// Lines that say nothing of a command's end.
    pub(super) fn harmless_lines(&mut self, map: &Map<String, Value>) {
        for (index, text) in self.texts(map, "", "harmlessLines").into_iter().enumerate() {
            let path = format!("harmlessLines[{index}]");
            if let Some(pattern) = self.compiled(&text, &path) {
                self.harmless.push(pattern.regex);
            }
        }
    }

    pub(super) fn runtime_pattern(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
    ) -> RuntimePattern {
        let known = [
            "exitCode",
            USER_LOG,
            LOG_LINES,
            PLACE,
            BEFORE,
            NOT,
            REPORTED,
            "role",
            "platformLogRegex",
            "gpuInfo",
        ];
        self.known_fields(map, path, &known);
        let last_lines = self.integer(map, path, LOG_LINES, &LAST_LINES);
        let user_log_in = self.named(map, (path, PLACE), &EndPlace::NAMES);
        for (field, other, says) in [
            (LOG_LINES, USER_LOG, "needs a userLogRegex beside it"),
            (PLACE, USER_LOG, "needs a userLogRegex beside it"),
            (BEFORE, PLACE, "needs a userLogIn beside it"),
            (NOT, PLACE, "needs a userLogIn beside it"),
        ] {
            if is_given(map, field) && !is_given(map, other) {
                self.problem(&format!("{path}.{field}"), says);
            }
        }
        if last_lines.is_some() && user_log_in.is_some() {
            let says = "does not go with userLogIn, which bounds the lines by their meaning";
            self.problem(&format!("{path}.{LOG_LINES}"), says);
        }
        let user_log = self
            .regex(map, path, USER_LOG)
            .map(|pattern| match user_log_in {
                Some(_) => self.end.push(pattern),
                None => self.user_log.push(pattern),
            });
        let (double_ecc_error, device_event) = self.gpu_info(map, path);
        RuntimePattern {
            exit_code: self.exit_code(map, path, "exitCode", &EXIT_CODES),
            user_log,
            user_log_last_lines: last_lines.and_then(|n| usize::try_from(n).ok()),
            user_log_in,
            user_log_before: self.end_regex(map, path, BEFORE),
            user_log_not: self.end_regex(map, path, NOT),
            reported: self.reported(map, path),
            role: self
                .named(map, (path, "role"), &LineRole::NAMES)
                .unwrap_or_default(),
            platform_log: self.platform_regex(map, path),
            double_ecc_error,
            device_event,
        }
    }

    fn end_regex(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        field: &str,
    ) -> Option<PatternId> {
        let pattern = self.regex(map, path, field)?;
        Some(self.end.push(pattern))
    }

    fn reported(&mut self, map: &Map<String, Value>, path: &str) -> Option<ReportedPattern> {
        let path = format!("{path}.{REPORTED}");
        let value = map.get(REPORTED).filter(|value| !value.is_null())?;
        let map = self.mapping(value, &path)?;
        self.known_fields(map, &path, &["launchers", "signals", "exitCodes"]);
        let pattern = ReportedPattern {
            launchers: self.names(map, (&path, "launchers"), &Launcher::NAMES),
            signals: self.names(map, (&path, "signals"), &SIGNALS),
            exit_codes: self.codes(map, &path),
        };
        if pattern.signals.is_empty() && pattern.exit_codes.is_empty() {
            self.problem(&path, "needs signals, exitCodes or both");
        }
        Some(pattern)
    }

    fn codes(&mut self, map: &Map<String, Value>, path: &str) -> Vec<i32> {
        let list = match map.get("exitCodes") {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(list)) => list.clone(),
            Some(other) => vec![other.clone()],
        };
        let mut codes = Vec::new();
        for value in list {
            match value.as_i64().filter(|code| EXIT_CODES.contains(code)) {
                Some(code) => codes.extend(i32::try_from(code)),
                None => {
                    let says = format!("must hold whole numbers from 1 to 255, not {value}");
                    self.problem(&format!("{path}.exitCodes"), says);
                }
            }
        }
        codes
    }

    fn names<T: Copy>(
        &mut self,
        map: &Map<String, Value>,
        (path, field): (&str, &str),
        known: &[(&str, T)],
    ) -> Vec<T> {
        let words = self.texts(map, path, field);
        let named = words
            .iter()
            .filter_map(|word| self.name(word, &format!("{path}.{field}"), known));
        named.collect()
    }

    fn named<T: Copy>(
        &mut self,
        map: &Map<String, Value>,
        (path, field): (&str, &str),
        known: &[(&str, T)],
    ) -> Option<T> {
        let word = self.text(map, path, field)?;
        self.name(&word, &format!("{path}.{field}"), known)
    }

    fn name<T: Copy>(&mut self, word: &str, path: &str, known: &[(&str, T)]) -> Option<T> {
        let found = known.iter().find(|(name, _)| *name == word);
        if found.is_none() {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            self.problem(path, format!("{word:?} is not one of {}", names.join(", ")));
        }
        found.map(|(_, value)| *value)
    }
}

fn is_given(map: &Map<String, Value>, field: &str) -> bool {
    map.get(field).is_some_and(|value| !value.is_null())
}
