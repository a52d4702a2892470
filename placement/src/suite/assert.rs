//! The asserts on what is.

use serde_json::Value;

use super::read::text;
use super::run::SuiteRun;
use super::steps::{field, required};
use crate::cells::GangState;
use crate::gang::Leaf;

pub(super) fn assert(
    run: &SuiteRun<'_>,
    value: &Value,
    problems: &mut Vec<String>,
) -> Result<(), String> {
    let asserts = match value {
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    for value in asserts {
        let known = ["group", "job", "vc", "remembered", "cluster"];
        let kind = known.iter().find(|kind| field(&value, kind).is_some());
        match kind.copied() {
            Some("group") => group(run, &required(&value, "group")?, &value, problems)?,
            Some("job") => job(run, &value, problems)?,
            Some("vc") => promise(run, &value, problems)?,
            Some("remembered") => remembered(run, &value, problems)?,
            Some(_) => cluster(run, &value, problems)?,
            None => {
                return Err(format!(
                    "assert {value} is of no known kind; use one of {known:?}"
                ));
            }
        }
    }
    Ok(())
}

fn group(
    run: &SuiteRun<'_>,
    name: &str,
    value: &Value,
    problems: &mut Vec<String>,
) -> Result<(), String> {
    let state = run.gang(name).map(|gang| gang.2);
    let got = match state {
        None => "absent",
        Some(GangState::Allocated { .. }) => "allocated",
        Some(GangState::Preempting) => "preempting",
    };
    if let Some(wanted) = field(value, "state").map(text) {
        if !["absent", "allocated", "preempting"].contains(&&*wanted) {
            return Err(format!("state {wanted} is not known"));
        }
        if wanted != got {
            problems.push(format!("{name} must be {wanted}, but is {got}"));
        }
    }
    if let Some(wanted) = field(value, "lazy_preempted").and_then(Value::as_bool) {
        let lazy = state
            == Some(GangState::Allocated {
                lazily_preempted: true,
            });
        if wanted != lazy {
            problems.push(format!(
                "{name}: lazy_preempted must be {wanted}, but is {lazy}"
            ));
        }
    }
    Ok(())
}

fn job(run: &SuiteRun<'_>, value: &Value, problems: &mut Vec<String>) -> Result<(), String> {
    let job = required(value, "job")?;
    let pods = run
        .suite
        .jobs
        .get(&job)
        .ok_or_else(|| format!("no job {job}"))?;
    let mut groups: Vec<&String> = Vec::new();
    for pod in pods {
        groups.push(&run.pod(pod)?.group);
    }
    groups.dedup();
    groups
        .into_iter()
        .try_for_each(|name| group(run, name, value, problems))
}

fn promise(run: &SuiteRun<'_>, value: &Value, problems: &mut Vec<String>) -> Result<(), String> {
    let (vc, chain) = (required(value, "vc")?, required(value, "chain")?);
    let cells = run
        .cells
        .vc_cells(&vc, &chain, &required(value, "cell_type")?);
    for (which, only_free) in [("cells", false), ("free_cells", true)] {
        let Some(wanted) = field(value, which).map(text) else {
            continue;
        };
        let chosen = cells.iter().filter(|cell| cell.free || !only_free);
        let bad: Vec<bool> = chosen.map(|cell| cell.bad).collect();
        let holds = match &*wanted {
            "all_bad" => bad.iter().all(|bad| *bad),
            "none_bad" => !bad.contains(&true),
            other => return Err(format!("{which}: {other} is not all_bad or none_bad")),
        };
        if !holds {
            let count = bad.iter().filter(|bad| **bad).count();
            let all = bad.len();
            problems.push(format!(
                "{which} must be {wanted}, but {count} of {all} are bad"
            ));
        }
    }
    Ok(())
}

fn remembered(run: &SuiteRun<'_>, value: &Value, problems: &mut Vec<String>) -> Result<(), String> {
    let name = required(value, "remembered")?;
    let placement = run
        .remembered
        .get(&name)
        .ok_or_else(|| format!("nothing is remembered as {name}"))?;
    let (used, others): (Vec<Leaf>, Vec<Leaf>) = placement
        .leaves()
        .partition(|leaf| run.cells.priority_of(*leaf).is_some());
    if let Some(wanted) = field(value, "used_cells_priority").and_then(Value::as_i64) {
        let got = used.iter().filter_map(|leaf| run.cells.priority_of(*leaf));
        let wrong: Vec<i32> = got.filter(|got| i64::from(*got) != wanted).collect();
        if !wrong.is_empty() {
            problems.push(format!(
                "used cells must have priority {wanted}, but some have {wrong:?}"
            ));
        }
    }
    match field(value, "other_cells").map(text).as_deref() {
        None => {}
        Some("free") => {
            let claimed = others
                .iter()
                .filter(|leaf| !run.cells.is_unused(**leaf))
                .count();
            if claimed > 0 {
                problems.push(format!(
                    "the other cells must be free, but {claimed} are not"
                ));
            }
        }
        Some(other) => return Err(format!("other_cells: {other} is not known")),
    }
    Ok(())
}

fn cluster(run: &SuiteRun<'_>, value: &Value, problems: &mut Vec<String>) -> Result<(), String> {
    match &*required(value, "cluster")? {
        "pristine" => {
            if !run.cells.is_pristine() {
                problems.push("the cluster must be pristine, but is not".to_owned());
            }
            Ok(())
        }
        other => Err(format!("cluster: {other} is not known")),
    }
}
