//! The checks on where pods are.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::read::{text, texts};
use super::run::SuiteRun;
use super::steps::field;
use crate::gang::Leaf;

/// The pods that are judged, with their leaves.
pub(super) struct JudgedPods {
    pub(super) pods: Vec<(String, Vec<Leaf>)>,
    pub(super) is_job: bool,
}

impl JudgedPods {
    fn leaves(&self) -> Vec<Leaf> {
        self.pods
            .iter()
            .flat_map(|pod| pod.1.iter().copied())
            .collect()
    }
}

pub(super) fn all(
    run: &SuiteRun<'_>,
    subject: &JudgedPods,
    checks: Option<&Value>,
    problems: &mut Vec<String>,
) -> Result<(), String> {
    let checks = match checks {
        None => return Ok(()),
        Some(Value::Array(list)) => list.clone(),
        Some(one) => vec![one.clone()],
    };
    for check in checks {
        let check = check
            .as_object()
            .ok_or_else(|| format!("check {check} is no mapping"))?;
        one(run, subject, check, problems)?;
    }
    Ok(())
}

/// A mapping may hold several checks; `level` and `pod` belong to the one beside them.
fn one(
    run: &SuiteRun<'_>,
    subject: &JudgedPods,
    check: &Map<String, Value>,
    problems: &mut Vec<String>,
) -> Result<(), String> {
    let nodes = nodes(run, &subject.leaves());
    for (kind, value) in check {
        let holds = match &**kind {
            "level" | "pod" | "why" | "note" | "doc" | "source" => continue,
            "count" => count(subject, value),
            "node_in" => nodes.iter().all(|node| texts(value).contains(node)),
            "node_not_in" => !nodes.iter().any(|node| texts(value).contains(node)),
            "leaf_type" => types(run, subject).iter().all(|name| *name == text(value)),
            "leaf_types" => types(run, subject) == texts(value).into_iter().collect(),
            "same_node_as" => beside(run, value, |other| nodes.is_subset(other))?,
            "different_node_from" => beside(run, value, |other| nodes.is_disjoint(other))?,
            "within_one" => subject
                .pods
                .iter()
                .all(|pod| within(run, &pod.1, &text(value))),
            "job_within_one" => within(run, &subject.leaves(), &text(value)),
            "buddy_of" => {
                let (other, level) = other_and_level(run, check, value)?;
                within(run, &[subject.leaves(), other].concat(), &level)
            }
            "disjoint_level_from" => {
                let (other, level) = other_and_level(run, check, value)?;
                let own = cells(run, &subject.leaves(), &level);
                own.is_some_and(|own| {
                    cells(run, &other, &level).is_some_and(|o| own.is_disjoint(&o))
                })
            }
            "job_nodes" => value.as_u64() == Some(nodes.len() as u64),
            "job_nodes_at_least" => value
                .as_u64()
                .is_some_and(|least| nodes.len() as u64 >= least),
            "same_node_as_job" => beside_job(run, value, |other| nodes.is_subset(other))?,
            "different_node_from_job" => beside_job(run, value, |other| nodes.is_disjoint(other))?,
            other => return Err(format!("check {other} is not known")),
        };
        if !holds {
            let got = subject.leaves();
            let at: Vec<(&str, u32)> = got.iter().map(|leaf| run.cells.address(*leaf)).collect();
            problems.push(format!(
                "{kind}: {value} does not hold; the cells are {at:?}"
            ));
        }
    }
    Ok(())
}

fn nodes(run: &SuiteRun<'_>, leaves: &[Leaf]) -> BTreeSet<String> {
    let nodes = leaves
        .iter()
        .map(|leaf| run.cells.address(*leaf).0.to_owned());
    nodes.collect()
}

fn types(run: &SuiteRun<'_>, subject: &JudgedPods) -> BTreeSet<String> {
    let leaves = subject.leaves();
    leaves
        .iter()
        .map(|leaf| run.cells.leaf_type(*leaf).to_owned())
        .collect()
}

fn count(subject: &JudgedPods, value: &Value) -> bool {
    let is = |count: usize| value.as_u64() == Some(count as u64);
    let each = subject.pods.iter().all(|pod| is(pod.1.len()));
    each || subject.is_job && is(subject.leaves().len())
}

/// The cells of a type that have the leaves; none if a leaf is in no such cell.
fn cells(run: &SuiteRun<'_>, leaves: &[Leaf], kind: &str) -> Option<BTreeSet<(usize, usize, u32)>> {
    leaves
        .iter()
        .map(|leaf| run.cells.cell_of(*leaf, kind))
        .collect()
}

fn within(run: &SuiteRun<'_>, leaves: &[Leaf], kind: &str) -> bool {
    leaves.is_empty() || cells(run, leaves, kind).is_some_and(|cells| cells.len() == 1)
}

fn given(run: &SuiteRun<'_>, pod: &str) -> Result<Vec<Leaf>, String> {
    let given = run.given.get(pod).cloned();
    given.ok_or_else(|| format!("pod {pod} has no cells to compare with"))
}

fn beside(
    run: &SuiteRun<'_>,
    pods: &Value,
    holds: impl Fn(&BTreeSet<String>) -> bool,
) -> Result<bool, String> {
    for pod in texts(pods) {
        if !holds(&nodes(run, &given(run, &pod)?)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn beside_job(
    run: &SuiteRun<'_>,
    jobs: &Value,
    holds: impl Fn(&BTreeSet<String>) -> bool,
) -> Result<bool, String> {
    for job in texts(jobs) {
        let pods = run
            .suite
            .jobs
            .get(&job)
            .ok_or_else(|| format!("no job {job}"))?;
        let leaves = pods.iter().filter_map(|pod| run.given.get(pod));
        let leaves: Vec<Leaf> = leaves.flatten().copied().collect();
        if !holds(&nodes(run, &leaves)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `buddy_of: POD, level: TYPE`, or `buddy_of: {pod: POD, level: TYPE}`.
fn other_and_level(
    run: &SuiteRun<'_>,
    check: &Map<String, Value>,
    value: &Value,
) -> Result<(Vec<Leaf>, String), String> {
    let inner = value.as_object().map(|_| value);
    let level = inner
        .and_then(|inner| field(inner, "level"))
        .or_else(|| check.get("level"));
    let level = level.ok_or("level is missing")?;
    let pod = inner.and_then(|inner| field(inner, "pod")).unwrap_or(value);
    Ok((given(run, &text(pod))?, text(level)))
}
