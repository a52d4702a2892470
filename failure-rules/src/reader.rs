//! Reads a rule file and lists everything that is wrong with it.
//!
//! Two forms are known: OpenPAI's exit spec (a mapping whose `spec` is the list of rules) and
//! the bare list that its runtime reads (`patterns` and `containerExitCode`).

mod fields;
mod place;
mod runtime;
mod samples;
mod treatment;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use muster_model::exit::{Behavior, ExitSpec};
use muster_model::health::EventClass;
use regex::bytes::Regex;
use serde::Deserialize;
use serde::de::{IntoDeserializer, value};
use serde_json::{Map, Value};

use self::fields::{KINDS, REACTIONS, STAGES};
pub(crate) use self::samples::RuleSample;
use crate::inside::LogEnd;
use crate::pattern::CompiledPattern;
use crate::problem::RuleProblem;
use crate::rule::{ContainerPattern, DeviceEventPattern, PodPattern, Rule, RuntimePattern};
use crate::scan::{EndPatterns, LogPatterns, PatternId};
use crate::treatment::Treatment;

/// The longest rule file, in bytes.
pub const RULES_BYTES_MAX: usize = 1 << 20;
/// The most rules in one file.
pub const RULES_MAX: usize = 1000;
/// The most expressions in one file.
pub const PATTERNS_MAX: usize = 2000;

const CODES: RangeInclusive<i64> = -8000..=256;
const EXIT_CODES: RangeInclusive<i64> = 1..=255;
const LAST_LINES: RangeInclusive<i64> = 1..=100_000;
/// Always understood by the platform, with a meaning that a file cannot change.
const PREDEFINED: [i32; 3] = [200, 201, 210];

/// Codes for rules of one's own: of the others, some are what shells and signals end with, and negative
/// ones are the platform's.
const OWN_CODES: [RangeInclusive<i32>; 2] = [1..=127, 202..=255];
/// The fields of `gpuInfo`. The first is OpenPAI's, the others are ours.
const DOUBLE_ECC: &str = "nvidiaDoubleEccError";
const EVENT_CLASSES: &str = "eventClasses";
const EVENT_CODES: &str = "eventCodes";
/// Ranges of free codes that are told at most.
const FREE_TOLD: usize = 4;

/// Which of the two files it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The full exit spec: both steps.
    ExitSpec,
    /// The runtime's list: only the step inside the container; codes have no meaning in words.
    RuntimeOnly,
}

/// A rule file that was read without a problem.
#[derive(Debug)]
pub(crate) struct RuleFile {
    pub(crate) form: Form,
    pub(crate) rules: Vec<Rule>,
    pub(crate) user_log: LogPatterns,
    pub(crate) platform_log: LogPatterns,
    pub(crate) end: EndPatterns,
    /// Lines of the user log that say nothing of its command's end.
    pub(crate) harmless: Vec<Regex>,
    /// What the authors of the rules give with them.
    pub(crate) samples: Vec<RuleSample>,
}

impl RuleFile {
    /// The end of a user log, to be read when a rule asks for it.
    pub(crate) const fn log_end(&self) -> LogEnd<'_> {
        LogEnd::new(&self.end, self.harmless.as_slice())
    }
}

/// Says of each problem in which line of the file it is.
pub(crate) fn add_lines(text: &str, problems: &mut [RuleProblem]) {
    place::add_lines(text, problems);
}

pub(crate) fn read(text: &str) -> Result<RuleFile, Vec<RuleProblem>> {
    if text.len() > RULES_BYTES_MAX {
        let message = format!(
            "the file has {} bytes; at most {RULES_BYTES_MAX} are read",
            text.len()
        );
        return Err(vec![RuleProblem::new("", message)]);
    }
    let file: Value = serde_saphyr::from_str(text).map_err(|error| {
        vec![RuleProblem::new(
            "",
            format!("not readable as YAML: {}", error.without_snippet()),
        )]
    })?;
    let mut reader = RulesReader::default();
    let (form, rules) = reader.file(&file);
    if !reader.problems.is_empty() {
        add_lines(text, &mut reader.problems);
        return Err(reader.problems);
    }
    reader.user_log.finish();
    reader.platform_log.finish();
    reader.end.finish();
    Ok(RuleFile {
        form,
        rules,
        user_log: reader.user_log,
        platform_log: reader.platform_log,
        end: reader.end,
        harmless: reader.harmless,
        samples: reader.samples,
    })
}

/// Which codes no rule of a file has: `free are 1 to 127, 202 to 209`.
fn free(used: &BTreeSet<i32>) -> String {
    let own = OWN_CODES.into_iter().flatten();
    let free = own.filter(|code| !used.contains(code) && !PREDEFINED.contains(code));
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for code in free {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == code => *last = code,
            _ => ranges.push((code, code)),
        }
    }
    let words = ranges
        .iter()
        .take(FREE_TOLD)
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        });
    match words.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "give each rule its own".to_owned(),
        words => format!("free are {words}"),
    }
}

#[derive(Default)]
struct RulesReader {
    problems: Vec<RuleProblem>,
    user_log: LogPatterns,
    platform_log: LogPatterns,
    end: EndPatterns,
    harmless: Vec<Regex>,
    samples: Vec<RuleSample>,
    expressions: usize,
}

impl RulesReader {
    fn file(&mut self, file: &Value) -> (Form, Vec<Rule>) {
        match file {
            Value::Array(list) => (Form::RuntimeOnly, self.rules(list, "", Self::bare_rule)),
            Value::Object(map) => (Form::ExitSpec, self.exit_spec(map)),
            _ => {
                self.problem(
                    "",
                    "expected a mapping with a `spec` list, or a list of rules",
                );
                (Form::RuntimeOnly, Vec::new())
            }
        }
    }

    fn exit_spec(&mut self, map: &Map<String, Value>) -> Vec<Rule> {
        // `schema` describes the format in OpenPAI's own file, `service_type` its deployment.
        self.known_fields(
            map,
            "",
            &["service_type", "schema", "harmlessLines", "spec"],
        );
        self.harmless_lines(map);
        match map.get("spec") {
            Some(Value::Array(list)) => self.rules(list, "spec", Self::spec_rule),
            Some(_) => {
                self.problem("spec", "must be a list of rules");
                Vec::new()
            }
            None => {
                self.problem("spec", "is missing; the rules are listed under it");
                Vec::new()
            }
        }
    }

    fn rules(
        &mut self,
        list: &[Value],
        at: &str,
        read: fn(&mut Self, &Map<String, Value>, &str) -> Rule,
    ) -> Vec<Rule> {
        if list.len() > RULES_MAX {
            self.problem(
                at,
                format!(
                    "holds {} rules; at most {RULES_MAX} are allowed",
                    list.len()
                ),
            );
            return Vec::new();
        }
        let mut rules = Vec::new();
        for (index, value) in list.iter().enumerate() {
            let path = format!("{at}[{index}]");
            if let Some(map) = self.mapping(value, &path) {
                rules.push((read(self, map, &path), path));
            }
        }
        self.unique(&rules, at);
        rules.into_iter().map(|(rule, _)| rule).collect()
    }

    fn unique(&mut self, rules: &[(Rule, String)], at: &str) {
        let field = match at {
            "" => "containerExitCode",
            _ => "code",
        };
        let mut codes = BTreeMap::new();
        let mut phrases = BTreeMap::new();
        let free = free(&rules.iter().map(|(rule, _)| rule.spec.code).collect());
        for (Rule { spec, .. }, path) in rules {
            let code = format!("{path}.{field}");
            if !at.is_empty() && PREDEFINED.contains(&spec.code) {
                let message = format!("200, 201 and 210 are predefined; {free}");
                self.problem(&code, message);
            } else if self.problems.iter().any(|problem| problem.path == code) {
                // It has no code that another rule could have.
            } else if let Some(first) = codes.insert(spec.code, path) {
                let message = format!("{} is already the code of {first}; {free}", spec.code);
                self.problem(&code, message);
            }
            if spec.phrase.is_empty() {
                continue;
            }
            if let Some(first) = phrases.insert(&spec.phrase, path) {
                let message = format!(
                    "{:?} is already the phrase of {first}; give each rule its own",
                    spec.phrase
                );
                self.problem(&format!("{path}.phrase"), message);
            }
        }
    }

    fn spec_rule(&mut self, map: &Map<String, Value>, path: &str) -> Rule {
        self.known_fields(
            map,
            path,
            &[
                "code", "phrase", "issuer", "causer", "type", "stage", "behavior", "reaction",
                "reason", "repro", "solution", "pattern", "samples", "shadow", "action", "limits",
            ],
        );
        let spec = ExitSpec {
            code: self.code(map, path, "code", &CODES),
            phrase: self.phrase(map, path),
            issuer: self.text(map, path, "issuer"),
            causer: self.text(map, path, "causer"),
            kind: self.choice(map, path, "type", KINDS),
            stage: self.choice(map, path, "stage", STAGES),
            behavior: self.behavior(map, path),
            reaction: self.choice(map, path, "reaction", REACTIONS),
            reason: self.text(map, path, "reason"),
            repro: self.texts(map, path, "repro"),
            solution: self.texts(map, path, "solution"),
        };
        self.agree(&spec, path);
        self.samples(map, path, spec.code);
        let (runtime, pod) = self.pattern(map, path);
        let treatment = self.treatment(map, path);
        Rule {
            spec,
            runtime,
            pod,
            treatment,
        }
    }

    /// What users are told of retries is what becomes of them: `behavior` alone decides that.
    fn agree(&mut self, spec: &ExitSpec, path: &str) {
        let reaction = spec.reaction.as_deref().unwrap_or_default();
        let told = match (reaction, spec.behavior) {
            ("NEVER_RETRY", Behavior::Transient | Behavior::TransientConflict) => {
                "the job is retried; use behavior PERMANENT, or another reaction"
            }
            ("ALWAYS_RETRY" | "ALWAYS_BACKOFF_RETRY", Behavior::Permanent) => {
                "the job is not retried; use behavior TRANSIENT, or reaction NEVER_RETRY"
            }
            _ => return,
        };
        let message = format!("{reaction} contradicts the behavior, which alone decides: {told}");
        self.problem(&format!("{path}.reaction"), message);
    }

    fn bare_rule(&mut self, map: &Map<String, Value>, path: &str) -> Rule {
        self.known_fields(map, path, &["patterns", "containerExitCode"]);
        let code = self.code(map, path, "containerExitCode", &EXIT_CODES);
        let runtime = self.each(map, path, "patterns", Self::runtime_pattern);
        Rule {
            spec: ExitSpec {
                code,
                ..ExitSpec::default()
            },
            runtime,
            pod: Vec::new(),
            treatment: Treatment::default(),
        }
    }

    fn pattern(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
    ) -> (Vec<RuntimePattern>, Vec<PodPattern>) {
        let path = format!("{path}.pattern");
        let Some(value) = map.get("pattern").filter(|v| !v.is_null()) else {
            return Default::default();
        };
        let Some(map) = self.mapping(value, &path) else {
            return Default::default();
        };
        self.known_fields(
            map,
            &path,
            &["runtimeContainerPatterns", "controllerPodPatterns"],
        );
        (
            self.each(
                map,
                &path,
                "runtimeContainerPatterns",
                Self::runtime_pattern,
            ),
            self.each(map, &path, "controllerPodPatterns", Self::pod_pattern),
        )
    }

    fn platform_regex(&mut self, map: &Map<String, Value>, path: &str) -> Option<PatternId> {
        self.regex(map, path, "platformLogRegex")
            .map(|p| self.platform_log.push(p))
    }

    /// What is wanted of the task's GPUs. OpenPAI takes a `gpuInfo` without
    /// `nvidiaDoubleEccError` for one that wants no such error; with fields of ours it wants
    /// nothing of it.
    fn gpu_info(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
    ) -> (Option<bool>, Option<DeviceEventPattern>) {
        let path = format!("{path}.gpuInfo");
        let info = map.get("gpuInfo").filter(|v| !v.is_null());
        let Some(map) = info.and_then(|v| self.mapping(v, &path)) else {
            return (None, None);
        };
        self.known_fields(map, &path, &[DOUBLE_ECC, EVENT_CLASSES, EVENT_CODES]);
        let event = self.device_event(map, &path);
        let double_ecc = match map.get(DOUBLE_ECC) {
            None | Some(Value::Null) => event.is_none().then_some(false),
            Some(Value::Bool(wanted)) => Some(*wanted),
            Some(_) => {
                self.problem(&format!("{path}.{DOUBLE_ECC}"), "must be true or false");
                None
            }
        };
        (double_ecc, event)
    }

    fn device_event(&mut self, map: &Map<String, Value>, path: &str) -> Option<DeviceEventPattern> {
        let is_given = |field| map.get(field).is_some_and(|value| !value.is_null());
        if !is_given(EVENT_CLASSES) && !is_given(EVENT_CODES) {
            return None;
        }
        let words = self.texts(map, path, EVENT_CLASSES);
        let mut classes = Vec::new();
        for word in &words {
            match EventClass::deserialize(word.as_str().into_deserializer()) {
                Ok(class) => classes.push(class),
                Err::<_, value::Error>(error) => {
                    self.problem(&format!("{path}.{EVENT_CLASSES}"), error.to_string());
                }
            }
        }
        let codes = self.texts(map, path, EVENT_CODES);
        for (field, is_empty) in [
            (EVENT_CLASSES, words.is_empty()),
            (EVENT_CODES, codes.is_empty()),
        ] {
            if is_given(field) && is_empty {
                self.problem(
                    &format!("{path}.{field}"),
                    "is empty; name one, or remove it",
                );
            }
        }
        Some(DeviceEventPattern { classes, codes })
    }

    fn pod_pattern(&mut self, map: &Map<String, Value>, path: &str) -> PodPattern {
        self.known_fields(map, path, &["reasonRegex", "messageRegex", "containers"]);
        PodPattern {
            reason: self.regex(map, path, "reasonRegex"),
            message: self.regex(map, path, "messageRegex"),
            containers: self.each(map, path, "containers", Self::container_pattern),
        }
    }

    fn container_pattern(&mut self, map: &Map<String, Value>, path: &str) -> ContainerPattern {
        self.known_fields(
            map,
            path,
            &["nameRegex", "reasonRegex", "messageRegex", "exitCode"],
        );
        ContainerPattern {
            name: self.regex(map, path, "nameRegex"),
            reason: self.regex(map, path, "reasonRegex"),
            message: self.regex(map, path, "messageRegex"),
            exit_code: self.exit_code(map, path, "exitCode", &EXIT_CODES),
        }
    }

    fn regex(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        field: &str,
    ) -> Option<CompiledPattern> {
        let text = self.text(map, path, field)?;
        self.compiled(&text, &format!("{path}.{field}"))
    }

    fn compiled(&mut self, text: &str, path: &str) -> Option<CompiledPattern> {
        self.expressions += 1;
        if self.expressions == PATTERNS_MAX + 1 {
            self.problem(
                path,
                format!("the file holds more than {PATTERNS_MAX} expressions; join some with `|`"),
            );
        }
        if self.expressions > PATTERNS_MAX {
            return None;
        }
        match CompiledPattern::compile(text) {
            Ok(pattern) => Some(pattern),
            Err(message) => {
                self.problem(path, message);
                None
            }
        }
    }
}
