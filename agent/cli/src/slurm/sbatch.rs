//! `sbatch`.

use std::path::Path;

use muster_model::protocol;

use super::document::{SlurmScript, document};
use super::job_options::{SBATCH_TOOL, SBATCH_VARIABLES};
use super::number::SlurmNumber;
use super::option::{self, GivenOption, OptionLine, OptionOrigin};
use super::plan::{PlanFacts, SlurmPlan, plan};
use super::submission::{SlurmSubmission, submit, tell};
use super::{directives, environment, gpu_type};
use crate::api::Api;
use crate::console::Console;
use crate::document_file;
use crate::error::CliError;
use crate::job::until_final;
use crate::run::told;
use crate::status::CliStatus;

/// A script has to fit into a job with all that is around it.
const SCRIPT_BYTES_MAX: u64 = 900 << 10;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster slurm sbatch --container-image ubuntu:24.04 train.sh
  MUSTER_IMAGE=pytorch:2.4 sbatch --gres=gpu:2 -c 8 --mem=64G -t 4:00:00 train.sh --lr 0.1
  sbatch --array=0-9 --wrap 'python eval.py $SLURM_ARRAY_TASK_ID'
  job=$(sbatch --parsable train.sh); squeue -j $job; scancel $job
  sbatch --wait first.sh && sbatch second.sh

The number is the end of the job's name: `muster job logs train-123456789 -f` follows job 123456789.";

const ABOUT: &str = "Submits a script as a job of Muster; options may be in #SBATCH lines of it.";

/// A script with what its options say.
struct BatchScript {
    text: String,
    arguments: Vec<String>,
    options: Vec<GivenOption>,
    warnings: Vec<String>,
    /// The job's name where no option gives one.
    name: String,
}

pub(super) async fn run(
    words: &[String],
    api: impl FnOnce() -> Result<Api, CliError>,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let line = option::read(&SBATCH_TOOL, words, OptionOrigin::CommandLine);
    let line = line.map_err(CliError::Usage)?;
    if line.has("help") || line.has("usage") {
        console.line(SBATCH_TOOL.help(ABOUT, EXAMPLES).trim_end())?;
        return Ok(CliStatus::Ok);
    }
    let batch = BatchScript::read(line)?;
    let facts = PlanFacts {
        name: batch.name.clone(),
        image: environment::image()?,
    };
    let mut plan = plan(&batch.options, facts).map_err(|problems| unusable(&problems))?;
    let api = api()?;
    gpu_type::settle(&mut plan, &api).await?;
    let number = SlurmNumber::new();
    let (directory, host) = (environment::directory(), environment::host());
    let script = SlurmScript {
        text: &batch.text,
        arguments: &batch.arguments,
        directory: &directory,
        host: &host,
    };
    if batch.has("verbose") {
        console.err(format!("{}\n", document(&plan, script, number)?))?;
    }
    if batch.has("test-only") {
        tell(&plan, &batch.warnings, batch.has("quiet"), number, console);
        return test_only(&plan, script, number, &api, console).await;
    }
    let submission = submit(&api, &plan, script, number).await?;
    let number = submission.number;
    tell(&plan, &batch.warnings, batch.has("quiet"), number, console);
    batch.told(&api, &submission, console).await
}

impl BatchScript {
    fn read(line: OptionLine) -> Result<Self, CliError> {
        let usage = |why: &str| CliError::Usage(why.to_owned());
        let mut operands = line.operands.clone().into_iter();
        let (text, name) = match (line.value("wrap"), operands.next()) {
            (Some(_), Some(_)) => {
                return Err(usage(
                    "--wrap takes the place of a script: give one of both",
                ));
            }
            (Some(command), None) => (format!("#!/bin/sh\n{command}\n"), "wrap".to_owned()),
            (None, file) => {
                let file = file.as_deref().unwrap_or("-");
                let text = document_file::read(Path::new(file), SCRIPT_BYTES_MAX)?;
                (text, name_of(file))
            }
        };
        if let Some(fault) = directives::fault(&text) {
            return Err(usage(fault));
        }
        let mut batch = Self {
            options: Vec::new(),
            warnings: Vec::new(),
            arguments: operands.collect(),
            name,
            text,
        };
        for directive in directives::directives(&batch.text) {
            let origin = OptionOrigin::Line(directive.number);
            let line = option::read(&SBATCH_TOOL, &directive.words, origin);
            let mut line = line.map_err(CliError::Usage)?;
            if let Some(word) = line.operands.first() {
                return Err(CliError::Usage(format!("{origin}{word:?} is no option")));
            }
            batch.options.append(&mut line.options);
            batch.warnings.append(&mut line.warnings);
        }
        batch.options.extend(environment::options(SBATCH_VARIABLES));
        batch.options.extend(line.options);
        batch.warnings.extend(line.warnings);
        Ok(batch)
    }

    fn has(&self, name: &str) -> bool {
        self.options.iter().any(|given| given.name == name)
    }

    /// Prints the number, and waits where that was asked.
    async fn told(
        &self,
        api: &Api,
        submission: &SlurmSubmission,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let SlurmSubmission { number, accepted } = submission;
        if !self.has("quiet") {
            console.warn(&accepted.warnings);
        }
        match self.has("parsable") {
            true => console.line(number.to_string())?,
            false => console.line(format!("Submitted batch job {number}"))?,
        }
        if !self.has("wait") {
            return Ok(CliStatus::Ok);
        }
        match until_final(api, &accepted.key, None).await? {
            Some(job) => Ok(told(&job, console)),
            None => Ok(CliStatus::TimedOut),
        }
    }
}

/// `train` of `jobs/train.sh`.
fn name_of(file: &str) -> String {
    if file == "-" {
        return "sbatch".to_owned();
    }
    let stem = Path::new(file).file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

pub(super) fn unusable(problems: &[String]) -> CliError {
    CliError::Usage(problems.join("\n"))
}

/// What can be said of a job without submitting it: the agent judges only then whether it can ever start.
async fn test_only(
    plan: &SlurmPlan,
    script: SlurmScript<'_>,
    number: SlurmNumber,
    api: &Api,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let verdict = protocol::verdict(&document(plan, script, number)?);
    let mut problems: Vec<String> = verdict.errors.iter().map(ToString::to_string).collect();
    let known = api.virtual_clusters().await?;
    if let Some(partition) = &plan.partition
        && !known.iter().any(|vc| vc.name == *partition)
    {
        problems.push(muster_model::vc::unknown(partition.as_str()));
    }
    if !problems.is_empty() {
        return Err(unusable(&problems));
    }
    console.warn(&verdict.warnings);
    console.line(format!(
        "the job is valid: {} of {} cores, {} GPUs and {} MiB; nothing was submitted, and whether there is \
         room for it is said only then",
        counted(plan),
        plan.cpus,
        plan.gpus,
        plan.memory.0
    ))?;
    Ok(CliStatus::Ok)
}

fn counted(plan: &SlurmPlan) -> String {
    match &plan.array {
        Some(ids) => format!("{} tasks of an array, each", ids.0.len()),
        None => format!("{} nodes, each", plan.nodes),
    }
}
