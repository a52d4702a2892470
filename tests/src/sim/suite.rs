//! Many scenarios with many seeds, on several threads.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use super::cluster::{self, play::Choice};
use super::report::rounded;
use super::scenario::{self, MeshScenario, ScenarioResult};

/// What scenarios are played on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Of {
    /// The mesh alone.
    Mesh,
    /// Whole clusters with jobs.
    Cluster,
}

/// What is played.
#[derive(Clone, Debug)]
pub struct SuitePlan {
    /// On this.
    pub of: Of,
    /// Names of scenarios and faults; `all` for all, `S` for all scenarios with a number.
    pub scenarios: Vec<String>,
    /// How many nodes.
    pub nodes: usize,
    /// With these seeds, each.
    pub seeds: Range<u64>,
    /// If given, only so many runs, spread evenly over the scenarios.
    pub runs: Option<usize>,
    /// On so many threads.
    pub jobs: usize,
    /// Packets lost, percent.
    pub loss: f64,
    /// Whether the first run with something wrong is the last.
    pub until_failure: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct SuiteOutcome {
    /// One JSON line.
    pub line: Value,
    /// Whether nothing was wrong.
    pub clean: bool,
}

struct ScenarioRun {
    of: Of,
    name: &'static str,
    seed: u64,
}

impl ScenarioRun {
    fn play(&self, suite: &SuitePlan) -> ScenarioResult {
        match (self.of, scenario::find(self.name)) {
            (Of::Mesh, Some(scenario)) => {
                scenario::play(&[scenario], suite.nodes, self.seed, suite.loss)
            }
            _ => {
                let run = super::SimRun {
                    nodes: suite.nodes,
                    seed: self.seed,
                    loss: suite.loss,
                };
                let choice = Choice::These(vec![self.name]);
                cluster::play::play(&run, &choice).1
            }
        }
    }
}

/// Plays all of it.
///
/// # Errors
/// A name that is no scenario's.
pub fn play(suite: &SuitePlan) -> Result<SuiteOutcome, String> {
    let runs = runs(suite)?;
    let started = Instant::now();
    let next = AtomicUsize::new(0);
    let endings = Mutex::new(vec![ScenarioResult::default(); runs.len()]);
    std::thread::scope(|scope| {
        for _ in 0..suite.jobs.max(1) {
            scope.spawn(|| work(suite, &runs, &next, &endings));
        }
    });
    let endings = endings.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(outcome(suite, &runs, &endings, started))
}

fn work(
    suite: &SuitePlan,
    runs: &[ScenarioRun],
    next: &AtomicUsize,
    endings: &Mutex<Vec<ScenarioResult>>,
) {
    while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < runs.len()) {
        let run = &runs[at];
        let ending = run.play(suite);
        if suite.until_failure && !ending.wrong.is_empty() {
            next.store(runs.len(), Ordering::Relaxed);
        }
        endings.lock().unwrap_or_else(PoisonError::into_inner)[at] = ending;
    }
}

fn runs(suite: &SuitePlan) -> Result<Vec<ScenarioRun>, String> {
    let of = suite.of;
    let chosen: Vec<_> = match of {
        Of::Mesh => choose(&suite.scenarios)?.iter().map(|it| it.name).collect(),
        Of::Cluster => choose_of_cluster(&suite.scenarios)?,
    };
    let seeds = suite.seeds.clone();
    let all = seeds.flat_map(|seed| {
        chosen
            .iter()
            .map(move |&name| ScenarioRun { of, name, seed })
    });
    Ok(all.take(suite.runs.unwrap_or(usize::MAX)).collect())
}

/// The scenarios of these names.
pub(crate) fn choose(names: &[String]) -> Result<Vec<&'static MeshScenario>, String> {
    let mut chosen = Vec::new();
    for name in names {
        match name.as_str() {
            "all" => chosen.extend(scenario::ALL),
            "S" => chosen.extend(scenario::ALL.iter().filter(|one| numbered(one.name))),
            name => chosen.push(scenario::find(name).ok_or_else(|| unknown(name))?),
        }
    }
    Ok(chosen)
}

/// The names of a cluster's scenarios and faults, as they are written.
pub(crate) fn choose_of_cluster(names: &[String]) -> Result<Vec<&'static str>, String> {
    let mut chosen = Vec::new();
    for name in names {
        let all = || super::list_of_cluster().map(|(known, _)| known);
        match name.as_str() {
            "all" => chosen.extend(all()),
            "S" => chosen.extend(all().filter(|known| numbered(known))),
            name => {
                let found = all().find(|known| known.eq_ignore_ascii_case(name));
                chosen.push(found.ok_or_else(|| unknown(name))?);
            }
        }
    }
    Ok(chosen)
}

fn numbered(name: &str) -> bool {
    name.strip_prefix('S')
        .is_some_and(|rest| rest.parse::<u32>().is_ok())
}

fn unknown(name: &str) -> String {
    format!("there is no fault or scenario {name:?}; `sim faults` lists them")
}

fn outcome(
    suite: &SuitePlan,
    runs: &[ScenarioRun],
    endings: &[ScenarioResult],
    started: Instant,
) -> SuiteOutcome {
    let failures: Vec<Value> = runs
        .iter()
        .zip(endings)
        .filter(|(_, ending)| !ending.wrong.is_empty())
        .map(|(run, ending)| {
            let first: Vec<_> = ending.wrong.iter().take(3).collect();
            json!({"scenario": run.name, "seed": run.seed, "violations": first})
        })
        .collect();
    let total = |of: fn(&ScenarioResult) -> u64| endings.iter().map(of).sum::<u64>();
    let clean = failures.is_empty();
    let line = json!({
        "nodes": suite.nodes,
        "seeds": [suite.seeds.start, suite.seeds.end],
        "runs": endings.iter().filter(|ending| ending.was_played()).count(),
        "failed": failures.len(),
        "failures": failures,
        "packets": total(|ending| ending.packets),
        "virtual_s": total(|ending| ending.virtual_ms) / 1_000,
        "wall_s": rounded(started.elapsed().as_secs_f64()),
    });
    SuiteOutcome { line, clean }
}
