//! Suites of scheduling steps in the language-neutral format `hived-steps/1`.
//!
//! A suite names a cluster, pods in groups or whole jobs, and steps with what must come of them.
//! [`replay`] runs it through the same code as everything else, under the preset `hived`.

mod assert;
mod check;
mod expect;
mod read;
mod run;
mod steps;
#[cfg(test)]
mod tests;

pub use read::SuiteError;

/// What came of a suite.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SuiteReport {
    /// The suite's name.
    pub name: String,
    /// Every step in order.
    pub steps: Vec<StepReport>,
}

/// What came of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct StepReport {
    /// The step as its action and what it acts on: `submit j0`.
    pub action: String,
    /// What happened: `bind a0 [0, 1]`.
    pub outcome: String,
    /// What should have been different. Empty if all is well.
    pub problems: Vec<String>,
}

impl SuiteReport {
    /// Whether every expectation of every step held.
    pub fn passed(&self) -> bool {
        self.steps.iter().all(|step| step.problems.is_empty())
    }
}

/// Replays a suite. `cluster` gives the text of a cluster by its file stem.
///
/// # Errors
/// If the suite or one of its clusters cannot be read, or a step is of no known kind.
pub fn replay(
    text: &str,
    cluster: &dyn Fn(&str) -> Result<String, String>,
) -> Result<SuiteReport, SuiteError> {
    let suite = read::read(text)?;
    let mut run = run::SuiteRun::new(&suite, cluster)?;
    let mut report = SuiteReport {
        name: suite.name.clone(),
        steps: Vec::new(),
    };
    for (number, step) in suite.steps.iter().enumerate() {
        let done =
            steps::step(&mut run, step).map_err(|message| SuiteError::Step { number, message })?;
        report.steps.push(done);
    }
    Ok(report)
}
