//! Submitting what a plan says, under a number that is free.

use super::document::{SlurmScript, document, job_name};
use super::number::SlurmNumber;
use super::plan::SlurmPlan;
use crate::api::{Accepted, Api};
use crate::console::Console;
use crate::error::CliError;

/// So many numbers are tried.
const TRIES: usize = 3;

/// A submitted job.
#[derive(Debug)]
pub(super) struct SlurmSubmission {
    pub(super) number: SlurmNumber,
    pub(super) accepted: Accepted,
}

/// Submits it. That a number is taken is all but impossible, and is no reason to fail.
pub(super) async fn submit(
    api: &Api,
    plan: &SlurmPlan,
    script: SlurmScript<'_>,
    number: SlurmNumber,
) -> Result<SlurmSubmission, CliError> {
    let mut number = number;
    let mut tries = 1;
    loop {
        match api.submit(document(plan, script, number)?).await {
            Ok(accepted) => return Ok(SlurmSubmission { number, accepted }),
            Err(error) if error.is_conflict() && tries < TRIES => {
                number = SlurmNumber::new();
                tries += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Says what is not as the user may think, unless that is not wanted.
pub(super) fn tell(
    plan: &SlurmPlan,
    line_warnings: &[String],
    is_quiet: bool,
    number: SlurmNumber,
    console: &Console,
) {
    if is_quiet {
        return;
    }
    let job = job_name(plan, number);
    let all = line_warnings.iter().chain(&plan.warnings);
    for warning in all {
        let warning = warning.replace("logs JOB", &format!("logs {job}"));
        console.note(format!("warning: {warning}"));
    }
    if plan.nodes > 1 {
        console.note(format!(
            "warning: each of the {} nodes runs the whole script, with its own SLURM_NODEID; srun starts \
             the tasks of its node. Two of them may be on one machine if they fit there",
            plan.nodes
        ));
    }
}
