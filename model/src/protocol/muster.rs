//! `extras.muster`: what a job can say to us beyond OpenPAI's protocol.
//!
//! Unlike the rest of `extras` it is closed: what is not known here is a mistake.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::cluster_spec::{Level, UnknownLevel};
use crate::job::{
    FAILOVER_S_DEFAULT, FAILOVER_S_MAX, FAILOVER_S_MIN, HOLD_S_MAX, JobEnding, NearSpec, Partition,
};

use super::JobProblem;
use super::document::WrittenJob;

const PATH: &str = ".extras.muster";
const MAX_RUN_TIME: &str = "maxRunTime";
const ENFORCE_MAX_RUN_TIME: &str = "enforceMaxRunTime";
const HOLD_ON_FAILURE: &str = "holdOnFailure";
const PARTITION: &str = "partition";
const POLICY: &str = "policy";
const SECONDS: &str = "seconds";
const FAILOVER_AFTER: &str = "failover_after";
const HOLD: &str = "hold";
const OVERLAP: &str = "overlap";
const TASK_ROLES: &str = "taskRoles";
const TOPOLOGY: &str = "topology";
const LEVEL: &str = "level";
const MODE: &str = "mode";
const REQUIRED: &str = "required";
const PREFERRED: &str = "preferred";

/// Longest run time that a job may declare: ten years, in seconds.
pub const RUN_S_MAX: u64 = 10 * 365 * 24 * 3600;

/// What the job wants.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    /// Seconds it runs at most.
    pub(super) max_run_s: Option<u64>,
    /// When it is ended.
    pub(super) ending: JobEnding,
    /// When one of its nodes falls silent.
    pub(super) partition: Partition,
    /// By task role.
    pub(super) near: BTreeMap<String, NearSpec>,
}

/// Reads the section.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn read(document: &WrittenJob) -> Result<Wishes, Vec<JobProblem>> {
    let mut reader = MusterReader {
        roles: document
            .task_roles
            .iter()
            .map(|(name, _)| &**name)
            .collect(),
        problems: Vec::new(),
    };
    let wishes = reader.wishes(&document.extras.muster);
    if reader.problems.is_empty() {
        Ok(wishes)
    } else {
        Err(reader.problems)
    }
}

/// Reads on after a mistake, to tell them all.
struct MusterReader<'a> {
    roles: BTreeSet<&'a str>,
    problems: Vec<JobProblem>,
}

impl MusterReader<'_> {
    fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(JobProblem::at(path, message));
    }

    fn wishes(&mut self, section: &Value) -> Wishes {
        let known = [
            MAX_RUN_TIME,
            ENFORCE_MAX_RUN_TIME,
            HOLD_ON_FAILURE,
            PARTITION,
            TASK_ROLES,
        ];
        let fields = self.fields(PATH, section, &known);
        let near = self.roles(fields[TASK_ROLES]);
        Wishes {
            max_run_s: self.run_time(fields[MAX_RUN_TIME]),
            ending: self.ending(&fields),
            partition: self.partition(fields[PARTITION]),
            near,
        }
    }

    /// The known fields of a mapping, `null` for what is not there.
    fn fields<'v>(
        &mut self,
        path: &str,
        value: &'v Value,
        known: &[&'static str],
    ) -> BTreeMap<&'static str, &'v Value> {
        let given = self.mapping(path, value);
        for name in given.into_iter().flat_map(Map::keys) {
            if !known.contains(&name.as_str()) {
                let message = format!("is not known; allowed here: {}", known.join(", "));
                self.problem(&format!("{path}.{name}"), message);
            }
        }
        let field = |name| given.and_then(|given| given.get(name));
        let fields = known.iter();
        fields
            .map(|name| (*name, field(*name).unwrap_or(&Value::Null)))
            .collect()
    }

    /// A mapping from names to anything; `null` is an empty one.
    fn mapping<'v>(&mut self, path: &str, value: &'v Value) -> Option<&'v Map<String, Value>> {
        if !value.is_null() && !value.is_object() {
            self.problem(path, "should be object");
        }
        value.as_object()
    }

    fn run_time(&mut self, value: &Value) -> Option<u64> {
        self.seconds(&format!("{PATH}.{MAX_RUN_TIME}"), value, 1..=RUN_S_MAX)
    }

    fn ending(&mut self, fields: &BTreeMap<&'static str, &Value>) -> JobEnding {
        let at = format!("{PATH}.{ENFORCE_MAX_RUN_TIME}");
        let is_max_run_binding = self.is_true(&at, fields[ENFORCE_MAX_RUN_TIME]);
        if is_max_run_binding && fields[MAX_RUN_TIME].is_null() {
            let message = format!("needs {MAX_RUN_TIME}: the seconds after which the job is ended");
            self.problem(&at, message);
        }
        let at = format!("{PATH}.{HOLD_ON_FAILURE}");
        let hold_s = self.seconds(&at, fields[HOLD_ON_FAILURE], 1..=HOLD_S_MAX.into());
        JobEnding {
            is_max_run_binding,
            hold_s: hold_s.and_then(|seconds| u32::try_from(seconds).ok()),
        }
    }

    fn is_true(&mut self, path: &str, value: &Value) -> bool {
        if !value.is_null() && !value.is_boolean() {
            self.problem(path, "should be true or false");
        }
        value.as_bool().unwrap_or_default()
    }

    fn seconds(&mut self, path: &str, value: &Value, range: RangeInclusive<u64>) -> Option<u64> {
        let seconds = value.as_u64().filter(|seconds| range.contains(seconds));
        if seconds.is_none() && !value.is_null() {
            let (least, most) = range.into_inner();
            let message = format!("should be seconds: a whole number from {least} to {most}");
            self.problem(path, message);
        }
        seconds
    }

    /// What a mistake leaves out is the default; the job is refused for the mistake.
    fn partition(&mut self, value: &Value) -> Partition {
        let path = format!("{PATH}.{PARTITION}");
        let fields = self.fields(&path, value, &[POLICY, SECONDS]);
        let at = format!("{path}.{SECONDS}");
        let range = FAILOVER_S_MIN.into()..=FAILOVER_S_MAX.into();
        let seconds = self.seconds(&at, fields[SECONDS], range);
        let policy = fields[POLICY].as_str().unwrap_or_default();
        let other = match policy {
            HOLD => Partition::Hold,
            OVERLAP => Partition::Overlap,
            _ => {
                if policy != FAILOVER_AFTER && !fields[POLICY].is_null() {
                    let names = [FAILOVER_AFTER, HOLD, OVERLAP].join(", ");
                    let message = format!("should be one of {names}");
                    self.problem(&format!("{path}.{POLICY}"), message);
                }
                let seconds = seconds.and_then(|seconds| u32::try_from(seconds).ok());
                return Partition::FailoverAfter {
                    seconds: seconds.unwrap_or(FAILOVER_S_DEFAULT),
                };
            }
        };
        if seconds.is_some() {
            self.problem(
                &at,
                format!("belongs to {FAILOVER_AFTER}; {policy} has none"),
            );
        }
        other
    }

    fn roles(&mut self, value: &Value) -> BTreeMap<String, NearSpec> {
        let path = format!("{PATH}.{TASK_ROLES}");
        let mut near = BTreeMap::new();
        for (name, role) in self.mapping(&path, value).into_iter().flatten() {
            let path = format!("{path}.{name}");
            if !self.roles.contains(name.as_str()) {
                self.problem(&path, format!("Taskrole {name} does not exist."));
            }
            let fields = self.fields(&path, role, &[TOPOLOGY]);
            let wish = self.topology(&format!("{path}.{TOPOLOGY}"), fields[TOPOLOGY]);
            near.extend(wish.map(|wish| (name.clone(), wish)));
        }
        near
    }

    fn topology(&mut self, path: &str, value: &Value) -> Option<NearSpec> {
        if value.is_null() {
            return None;
        }
        let fields = self.fields(path, value, &[LEVEL, MODE]);
        if !value.is_object() {
            return None;
        }
        let level = self.level(&format!("{path}.{LEVEL}"), fields[LEVEL]);
        let required = self.is_required(&format!("{path}.{MODE}"), fields[MODE]);
        Some(NearSpec {
            level: level?,
            required: required?,
        })
    }

    fn level(&mut self, path: &str, value: &Value) -> Option<Level> {
        let level = Level::from_str(value.as_str().unwrap_or_default());
        let names = Level::ALL.map(Level::as_str).join(", ");
        level
            .map_err(|_: UnknownLevel| self.problem(path, format!("should be one of {names}")))
            .ok()
    }

    fn is_required(&mut self, path: &str, value: &Value) -> Option<bool> {
        match value {
            Value::Null => Some(true),
            Value::String(mode) if mode == REQUIRED => Some(true),
            Value::String(mode) if mode == PREFERRED => Some(false),
            _ => {
                self.problem(path, format!("should be one of {REQUIRED}, {PREFERRED}"));
                None
            }
        }
    }
}
