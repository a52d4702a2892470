//! What a step must come to.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{self, JudgedPods};
use super::read::{text, texts};
use super::run::{ScheduleOutcome, SuiteRun};
use super::steps::{SubmittedPods, field};
use crate::gang::Leaf;

/// An outcome in a line.
pub(super) fn describe(run: &SuiteRun<'_>, outcome: &ScheduleOutcome) -> String {
    match outcome {
        ScheduleOutcome::Bind(leaves) => {
            let (nodes, cells) = addresses(run, leaves);
            let nodes: Vec<String> = nodes.into_iter().collect();
            format!("bind {} {cells:?}", nodes.join(" "))
        }
        ScheduleOutcome::Wait(reason) => format!("wait: {reason}"),
        ScheduleOutcome::Preempt(victims) => format!("preempt {}", victims.join(" ")),
        ScheduleOutcome::Error(message) => format!("error: {message}"),
    }
}

fn name(outcome: &ScheduleOutcome) -> &'static str {
    match outcome {
        ScheduleOutcome::Bind(_) => "bind",
        ScheduleOutcome::Wait(_) => "wait",
        ScheduleOutcome::Preempt(_) => "preempt",
        ScheduleOutcome::Error(_) => "error",
    }
}

fn addresses(run: &SuiteRun<'_>, leaves: &[Leaf]) -> (BTreeSet<String>, BTreeSet<u32>) {
    let addresses = leaves.iter().map(|leaf| run.cells.address(*leaf));
    addresses
        .map(|(node, device)| (node.to_owned(), device))
        .unzip()
}

pub(super) fn of_schedule(
    run: &SuiteRun<'_>,
    pod: &str,
    outcome: &ScheduleOutcome,
    expected: &Value,
    problems: &mut Vec<String>,
) -> Result<(), String> {
    let got = name(outcome);
    if let Some(result) = field(expected, "result").map(text)
        && result != "any"
        && result != got
    {
        problems.push(format!("must {result}, but {}", describe(run, outcome)));
    }
    if field(expected, "result_not").is_some_and(|not| texts(not).iter().any(|not| not == got)) {
        problems.push(format!("must not {got}"));
    }
    if let (Some(allowed), ScheduleOutcome::Preempt(victims)) =
        (field(expected, "victims_subset_of"), outcome)
    {
        let allowed = texts(allowed);
        let others = victims.iter().filter(|victim| !allowed.contains(victim));
        problems.extend(others.map(|victim| format!("{victim} must not be a victim")));
    }
    let ScheduleOutcome::Bind(leaves) = outcome else {
        return Ok(());
    };
    if field(expected, "strict").is_none_or(|strict| strict.as_bool() != Some(false)) {
        exact(run, leaves, expected, problems);
    }
    let subject = JudgedPods {
        pods: vec![(pod.to_owned(), leaves.clone())],
        is_job: false,
    };
    check::all(run, &subject, field(expected, "check"), problems)
}

fn exact(run: &SuiteRun<'_>, leaves: &[Leaf], expected: &Value, problems: &mut Vec<String>) {
    let (nodes, cells) = addresses(run, leaves);
    if let Some(node) = field(expected, "node").map(text)
        && nodes != BTreeSet::from([node.clone()])
    {
        problems.push(format!("must be on {node}, but is on {nodes:?}"));
    }
    if let Some(wanted) = field(expected, "cells") {
        let wanted: BTreeSet<String> = texts(wanted).into_iter().collect();
        let cells: BTreeSet<String> = cells.iter().map(ToString::to_string).collect();
        if wanted != cells {
            problems.push(format!("must have cells {wanted:?}, but has {cells:?}"));
        }
    }
}

pub(super) fn of_submit(
    run: &SuiteRun<'_>,
    job: &str,
    done: &SubmittedPods,
    expected: &Value,
    problems: &mut Vec<String>,
) -> Result<(), String> {
    for (what, got) in [("bound", &done.bound), ("waiting", &done.waiting)] {
        let Some(wanted) = field(expected, what) else {
            continue;
        };
        if wanted.as_u64() != Some(got.len() as u64) {
            problems.push(format!("{what} must be {wanted}, but is {}", got.len()));
        }
    }
    if let Some(jobs) = field(expected, "evicted_jobs") {
        let wanted: BTreeSet<String> = match jobs {
            Value::Array(list) => list.iter().map(text).collect(),
            one => BTreeSet::from([text(one)]),
        };
        if wanted != done.evicted_jobs {
            let got = &done.evicted_jobs;
            problems.push(format!(
                "must evict the jobs {wanted:?}, but evicted {got:?}"
            ));
        }
    }
    if let Some(result) = field(expected, "result").map(text)
        && result != "any"
        && done.outcomes.iter().any(|outcome| name(outcome) != result)
    {
        problems.push(format!("every pod must {result}"));
    }
    let pods = run.suite.jobs.get(job).into_iter().flatten();
    let bound = pods.filter(|pod| run.runs(pod));
    let given = bound.filter_map(|pod| Some((pod.clone(), run.given.get(pod)?.clone())));
    let subject = JudgedPods {
        pods: given.collect(),
        is_job: true,
    };
    check::all(run, &subject, field(expected, "check"), problems)
}
