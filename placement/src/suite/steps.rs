//! The kinds of steps.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::StepReport;
use super::assert::assert;
use super::expect;
use super::read::{text, texts};
use super::run::{ScheduleOutcome, SuiteRun};
use crate::cells::CellEvent;

/// Times that one pod's victims are evicted at most.
const EVICTIONS_MAX: usize = 64;

/// What a submitted job came to.
#[derive(Debug, Default)]
pub(super) struct SubmittedPods {
    /// Pods bound by this step.
    pub(super) bound: Vec<String>,
    pub(super) waiting: Vec<String>,
    pub(super) evicted_jobs: BTreeSet<String>,
    pub(super) outcomes: Vec<ScheduleOutcome>,
}

type SuiteStep = Map<String, Value>;

/// Does a step and judges it. An error is a step that makes no sense.
pub(super) fn step(run: &mut SuiteRun<'_>, step: &SuiteStep) -> Result<StepReport, String> {
    let actions = [
        "schedule", "submit", "delete", "cancel", "node", "load", "reload", "remember", "assert",
    ];
    let mut found = actions
        .iter()
        .filter_map(|name| Some((*name, step.get(*name)?)));
    let Some((action, value)) = found.next() else {
        let keys: Vec<&String> = step.keys().collect();
        return Err(format!(
            "no known action among {keys:?}; use one of {actions:?}"
        ));
    };
    if let Some((other, _)) = found.next() {
        return Err(format!("has two actions, {action} and {other}"));
    }
    let expected = step.get("expect");
    let mut report = StepReport {
        action: format!("{action} {value}"),
        ..StepReport::default()
    };
    match action {
        "schedule" => schedule(run, value, expected, &mut report)?,
        "submit" => submit(run, value, expected, &mut report)?,
        "delete" | "cancel" => {
            for pod in field(value, "pods").map(texts).unwrap_or_default() {
                run.delete(&pod)?;
            }
        }
        "node" => node(run, value)?,
        "load" => {
            let cluster = required(value, "cluster")?;
            taken(run.load(&cluster), expected, &mut report)?;
        }
        "reload" => {
            let way = RestartMode::of(value)?;
            taken(way.go(run), expected, &mut report)?;
        }
        "remember" => remember(run, value)?,
        _ => assert(run, value, &mut report.problems)?,
    }
    Ok(report)
}

pub(super) fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|value| !value.is_null())
}

pub(super) fn required(value: &Value, name: &str) -> Result<String, String> {
    field(value, name)
        .map(text)
        .ok_or_else(|| format!("{name} is missing"))
}

fn schedule(
    run: &mut SuiteRun<'_>,
    value: &Value,
    expected: Option<&Value>,
    report: &mut StepReport,
) -> Result<(), String> {
    let pod = required(value, "pod")?;
    let preempting = match &*field(value, "phase").map_or_else(|| "preempting".into(), text) {
        "preempting" => true,
        "filtering" => false,
        other => return Err(format!("phase is {other:?}, not preempting or filtering")),
    };
    let commit = field(value, "commit").is_some_and(|commit| commit.as_bool() == Some(true));
    let spared = not_suggested(run, field(value, "suggested"))?;
    for node in &spared {
        cordon(run, node, true)?;
    }
    let outcome = run.schedule(&pod, preempting, commit);
    for node in &spared {
        cordon(run, node, false)?;
    }
    let outcome = outcome?;
    report.outcome = expect::describe(run, &outcome);
    if let Some(expected) = expected {
        expect::of_schedule(run, &pod, &outcome, expected, &mut report.problems)?;
    }
    Ok(())
}

fn cordon(run: &mut SuiteRun<'_>, node: &str, on: bool) -> Result<(), String> {
    let node = node.to_owned();
    run.apply(CellEvent::Cordon { node, on })
}

/// The machines that are not among the suggested ones.
fn not_suggested(run: &SuiteRun<'_>, suggested: Option<&Value>) -> Result<Vec<String>, String> {
    let all = || run.cells.node_names().map(str::to_owned);
    match suggested {
        None => Ok(Vec::new()),
        Some(Value::String(all)) if all == "all" => Ok(Vec::new()),
        Some(Value::Array(list)) => {
            let some: Vec<String> = list.iter().map(text).collect();
            Ok(all().filter(|node| !some.contains(node)).collect())
        }
        Some(other) => {
            let except = field(other, "except").map(texts);
            let except = except.ok_or("suggested is not all, a list, or {except: a list}")?;
            Ok(all().filter(|node| except.contains(node)).collect())
        }
    }
}

fn submit(
    run: &mut SuiteRun<'_>,
    value: &Value,
    expected: Option<&Value>,
    report: &mut StepReport,
) -> Result<(), String> {
    let job = required(value, "job")?;
    let evict = field(value, "evict_victims").is_some_and(|evict| evict.as_bool() == Some(true));
    let pods = run
        .suite
        .jobs
        .get(&job)
        .ok_or_else(|| format!("no job {job}"))?;
    let mut done = SubmittedPods::default();
    for pod in pods {
        if run.runs(pod) {
            continue;
        }
        let mut outcome = run.schedule(pod, true, true)?;
        let mut tries = 0;
        while let ScheduleOutcome::Preempt(victims) = &outcome {
            if !evict || tries == EVICTIONS_MAX {
                break;
            }
            tries += 1;
            for victim in victims {
                done.evicted_jobs.insert(run.pod(victim)?.job.clone());
                run.delete(victim)?;
            }
            outcome = run.schedule(pod, true, true)?;
        }
        match outcome {
            ScheduleOutcome::Bind(_) => done.bound.push(pod.clone()),
            _ => done.waiting.push(pod.clone()),
        }
        done.outcomes.push(outcome);
    }
    let last = done
        .outcomes
        .last()
        .map(|outcome| expect::describe(run, outcome));
    let (bound, waiting) = (done.bound.len(), done.waiting.len());
    report.outcome = format!(
        "{bound} bound, {waiting} waiting; {}",
        last.unwrap_or_default()
    );
    if let Some(expected) = expected {
        expect::of_submit(run, &job, &done, expected, &mut report.problems)?;
    }
    Ok(())
}

fn node(run: &mut SuiteRun<'_>, value: &Value) -> Result<(), String> {
    let node = required(value, "name")?;
    let healthy = match &*required(value, "state")? {
        "healthy" => true,
        "bad" => false,
        other => return Err(format!("state is {other:?}, not bad or healthy")),
    };
    run.apply(CellEvent::NodeHealth { node, healthy })
}

/// How a cluster is restarted.
struct RestartMode {
    cluster: String,
    /// Whether what runs is carried over.
    carries: bool,
}

impl RestartMode {
    fn of(value: &Value) -> Result<Self, String> {
        let recover = field(value, "recover").map(text);
        let carries = match recover.as_deref() {
            None => false,
            Some("committed") => true,
            Some(other) => return Err(format!("recover is {other:?}, not committed")),
        };
        Ok(Self {
            cluster: required(value, "cluster")?,
            carries,
        })
    }

    fn go(&self, run: &mut SuiteRun<'_>) -> Result<(), String> {
        match self.carries {
            true => run.reload(&self.cluster),
            false => run.load(&self.cluster),
        }
    }
}

/// Judges whether a description was taken. One that is refused leaves the cluster as it was, and makes no sense
/// where nothing is expected of the step.
fn taken(
    done: Result<(), String>,
    expected: Option<&Value>,
    report: &mut StepReport,
) -> Result<(), String> {
    let expected = expected.and_then(|expected| field(expected, "result").map(text));
    let is_expected = |result: &str| match expected.as_deref() {
        None | Some("any") => true,
        Some("error") => result == "error",
        Some(_) => result == "loaded",
    };
    match done {
        Err(message) if expected.is_none() => return Err(message),
        Err(message) => {
            report.outcome = format!("error: {message}");
            if !is_expected("error") {
                let problem = format!("must be taken, but is refused: {message}");
                report.problems.push(problem);
            }
        }
        Ok(()) => {
            report.outcome = "loaded".to_owned();
            if !is_expected("loaded") {
                let problem = "must be refused, but is taken".to_owned();
                report.problems.push(problem);
            }
        }
    }
    Ok(())
}

fn remember(run: &mut SuiteRun<'_>, value: &Value) -> Result<(), String> {
    let group = required(value, "group")?;
    let gang = run
        .gang(&group)
        .ok_or_else(|| format!("group {group} is not there"))?;
    let placement = gang.1.clone();
    run.remembered.insert(required(value, "as")?, placement);
    Ok(())
}
