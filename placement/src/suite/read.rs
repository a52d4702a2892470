//! A suite's text as data.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::gang::GangMember;

/// Why a suite cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuiteError {
    /// Not YAML, or not a suite.
    #[error("{0}")]
    Text(String),
    /// A cluster cannot be read.
    #[error("cluster {name}: {message}")]
    Cluster {
        /// Its file stem.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// A step cannot be carried out as written.
    #[error("steps[{number}]: {message}")]
    Step {
        /// Its number from 0.
        number: usize,
        /// What is wrong.
        message: String,
    },
}

/// A suite.
#[derive(Clone, Debug, Default)]
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) cluster: String,
    pub(super) pods: BTreeMap<String, SuitePod>,
    /// Pods of each job, in order.
    pub(super) jobs: BTreeMap<String, Vec<String>>,
    pub(super) steps: Vec<Map<String, Value>>,
}

/// A pod and the group it belongs to.
#[derive(Clone, Debug)]
pub(super) struct SuitePod {
    pub(super) vc: String,
    pub(super) priority: i32,
    pub(super) leaf_type: String,
    pub(super) pinned: String,
    pub(super) lazy: bool,
    pub(super) cells: u32,
    pub(super) group: String,
    pub(super) members: Vec<GangMember>,
    pub(super) job: String,
}

/// A scalar as text, whatever YAML took it for.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// One scalar or a list of them.
pub(super) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().map(text).collect(),
        one => vec![text(one)],
    }
}

fn invalid(message: impl Into<String>) -> SuiteError {
    SuiteError::Text(message.into())
}

pub(super) fn read(source: &str) -> Result<Suite, SuiteError> {
    let value: Value =
        serde_saphyr::from_str(source).map_err(|error| invalid(error.to_string()))?;
    let field = |name: &str| value.get(name).map(text).unwrap_or_default();
    if field("schema") != "hived-steps/1" {
        return Err(invalid(format!(
            "schema is {:?}, not hived-steps/1",
            field("schema")
        )));
    }
    let mut suite = Suite {
        name: field("name"),
        cluster: field("cluster"),
        ..Suite::default()
    };
    read_pods(&value, &mut suite)?;
    read_jobs(&value, &mut suite)?;
    let steps = value.get("steps").and_then(Value::as_array);
    for step in steps.ok_or_else(|| invalid("steps is no list"))? {
        let step = step
            .as_object()
            .ok_or_else(|| invalid("a step is no mapping"))?;
        suite.steps.push(step.clone());
    }
    Ok(suite)
}

fn entries<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value
        .get(name)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

fn members(value: &Value, path: &str) -> Result<Vec<GangMember>, SuiteError> {
    let list = value
        .as_array()
        .ok_or_else(|| invalid(format!("{path} is no list")))?;
    let member = |value: &Value| {
        let number = |name: &str| {
            let number = value.get(name).and_then(Value::as_u64);
            let number = number.and_then(|number| u32::try_from(number).ok());
            number.ok_or_else(|| invalid(format!("{path}: {name} is no number")))
        };
        Ok(GangMember {
            pods: number("pods")?,
            leaves: number("cells")?,
            ..GangMember::default()
        })
    };
    list.iter().map(member).collect()
}

/// What pods and jobs have in common.
fn common(value: &Value, path: &str) -> Result<SuitePod, SuiteError> {
    let field = |name: &str| value.get(name).map(text).unwrap_or_default();
    let priority = value.get("priority").and_then(Value::as_i64);
    let priority = priority.and_then(|priority| i32::try_from(priority).ok());
    Ok(SuitePod {
        vc: field("vc"),
        priority: priority.ok_or_else(|| invalid(format!("{path}.priority is no number")))?,
        leaf_type: field("type"),
        pinned: field("pinned"),
        lazy: field("lazy") == "true",
        cells: value
            .get("cells")
            .and_then(Value::as_u64)
            .and_then(|n| n.try_into().ok())
            .unwrap_or(0),
        group: field("group"),
        members: Vec::new(),
        job: String::new(),
    })
}

fn read_pods(value: &Value, suite: &mut Suite) -> Result<(), SuiteError> {
    let mut groups = BTreeMap::new();
    for (name, group) in entries(value, "groups") {
        groups.insert(name.clone(), members(group, &format!("groups.{name}"))?);
    }
    for (name, pod) in entries(value, "pods") {
        let mut pod = common(pod, &format!("pods.{name}"))?;
        if pod.group.is_empty() {
            pod.group.clone_from(name);
            pod.members = vec![GangMember {
                pods: 1,
                leaves: pod.cells,
                ..GangMember::default()
            }];
        } else {
            let group = groups.get(&pod.group);
            let unknown = || invalid(format!("pods.{name}.group: no group {}", pod.group));
            pod.members = group.ok_or_else(unknown)?.clone();
        }
        suite.pods.insert(name.clone(), pod);
    }
    Ok(())
}

fn read_jobs(value: &Value, suite: &mut Suite) -> Result<(), SuiteError> {
    for (name, job) in entries(value, "jobs") {
        let path = format!("jobs.{name}");
        let mut pod = common(job, &path)?;
        let members = members(
            job.get("members").unwrap_or(&Value::Null),
            &format!("{path}.members"),
        )?;
        let is_gang = job
            .get("gang")
            .is_none_or(|gang| gang.as_bool() != Some(false));
        pod.job.clone_from(name);
        let mut pods = Vec::new();
        for member in &members {
            for _ in 0..member.pods {
                let own = format!("{name}-{}", pods.len());
                pod.cells = member.leaves;
                if is_gang {
                    pod.group.clone_from(name);
                    pod.members.clone_from(&members);
                } else {
                    pod.group.clone_from(&own);
                    pod.members = vec![GangMember {
                        pods: 1,
                        leaves: member.leaves,
                        ..GangMember::default()
                    }];
                }
                suite.pods.insert(own.clone(), pod.clone());
                pods.push(own);
            }
        }
        suite.jobs.insert(name.clone(), pods);
    }
    Ok(())
}
