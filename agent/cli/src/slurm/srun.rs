//! `srun` outside of a job: a job of its own, whose output is shown here.

use super::document::{SlurmScript, document, job_name};
use super::job_options::{SRUN_TOOL, SRUN_VARIABLES};
use super::number::SlurmNumber;
use super::option::{self, OptionOrigin};
use super::plan::{PlanFacts, plan};
use super::sbatch::unusable;
use super::submission::tell;
use super::{environment, gpu_type};
use crate::api::Api;
use crate::console::Console;
use crate::error::CliError;
use crate::run::attached;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster slurm srun --image ubuntu:24.04 nproc
  MUSTER_IMAGE=pytorch:2.4 srun --gres=gpu:1 --mem=16G -t 30 python train.py
  srun -n 4 sh -c 'echo task $SLURM_PROCID of $SLURM_NTASKS'

It exits as the job does. Ctrl-C stops the job. Standard input is not passed on.";

const ABOUT: &str = "Runs a command as a job of Muster, and shows its output.";

pub(super) async fn run(
    words: &[String],
    api: impl FnOnce() -> Result<Api, CliError>,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let line = option::read(&SRUN_TOOL, words, OptionOrigin::CommandLine);
    let line = line.map_err(CliError::Usage)?;
    if line.has("help") || line.has("usage") {
        console.line(SRUN_TOOL.help(ABOUT, EXAMPLES).trim_end())?;
        return Ok(CliStatus::Ok);
    }
    let Some(program) = line.operands.first() else {
        return Err(CliError::Usage(
            "no command is given: srun [OPTIONS] COMMAND".into(),
        ));
    };
    let mut options = environment::options(SRUN_VARIABLES);
    options.extend(line.options.iter().cloned());
    let facts = PlanFacts {
        name: program.rsplit('/').next().unwrap_or_default().to_owned(),
        image: environment::image()?,
    };
    let mut plan = plan(&options, facts).map_err(|problems| unusable(&problems))?;
    let api = api()?;
    gpu_type::settle(&mut plan, &api).await?;
    let number = SlurmNumber::new();
    let (directory, host) = (environment::directory(), environment::host());
    let script = SlurmScript {
        // The srun inside of the job starts the tasks.
        text: "#!/bin/sh\nexec srun -- \"$@\"\n",
        arguments: &line.operands,
        directory: &directory,
        host: &host,
    };
    let text = document(&plan, script, number)?;
    if line.has("verbose") {
        console.err(format!("{text}\n"))?;
    }
    tell(&plan, &line.warnings, line.has("quiet"), number, console);
    attached(&api, &job_name(&plan, number), text, console).await
}
