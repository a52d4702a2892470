//! `muster slurm`: look-alikes of Slurm's commands, for users who come from Slurm.
//!
//! A command line is read by a table of options (`option`, `job_options`), a job's becomes a plan (`plan`) and
//! the plan a document (`document`); none of this asks anybody. What Muster cannot do is refused with the remedy,
//! or accepted with a warning. `muster alias slurm` installs them under Slurm's names; docs/slurm.md has it all.

mod directives;
mod document;
mod environment;
mod field_format;
mod gpu_type;
mod job_nodes;
mod job_options;
mod number;
mod option;
mod plan;
mod quantity;
mod queued;
mod sacct;
mod sacct_format;
mod sbatch;
mod scancel;
mod sinfo;
mod slurm_time;
mod squeue;
mod srun;
mod submission;

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, Subcommand};

use self::option::{OptionLine, OptionOrigin, SlurmTool};
use super::api::Api;
use super::console::Console;
use super::endpoint::EndpointArguments;
use super::error::CliError;
use super::status::CliStatus;

/// The names of the look-alikes.
pub(super) const NAMES: [&str; 6] = ["squeue", "sbatch", "scancel", "sinfo", "srun", "sacct"];

/// The look-alikes.
#[derive(Debug, Subcommand)]
pub enum SlurmCommand {
    /// List jobs that wait or run.
    #[command(disable_help_flag = true, after_help = squeue::EXAMPLES)]
    Squeue(SlurmWords),
    /// Submit a script as a job.
    #[command(disable_help_flag = true, after_help = sbatch::EXAMPLES)]
    Sbatch(SlurmWords),
    /// Stop jobs.
    #[command(disable_help_flag = true, after_help = scancel::EXAMPLES)]
    Scancel(SlurmWords),
    /// Show partitions, which are virtual clusters, and nodes.
    #[command(disable_help_flag = true, after_help = sinfo::EXAMPLES)]
    Sinfo(SlurmWords),
    /// Run a command as a job, and show its output.
    #[command(disable_help_flag = true, after_help = srun::EXAMPLES)]
    Srun(SlurmWords),
    /// List jobs that wait, run or have ended.
    #[command(disable_help_flag = true, after_help = sacct::EXAMPLES)]
    Sacct(SlurmWords),
}

/// What the look-alike reads itself.
#[derive(Debug, Args)]
pub struct SlurmWords {
    /// Options as Slurm has them; --help lists those that are supported.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    words: Vec<String>,
}

impl SlurmCommand {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let user = environment::user()?;
        let api = || Api::new(connection, user);
        match self {
            Self::Squeue(arguments) => squeue::run(&arguments.words, api, console).await,
            Self::Sbatch(arguments) => sbatch::run(&arguments.words, api, console).await,
            Self::Scancel(arguments) => scancel::run(&arguments.words, api, console).await,
            Self::Sinfo(arguments) => sinfo::run(&arguments.words, api, console).await,
            Self::Sacct(arguments) => sacct::run(&arguments.words, api, console).await,
            Self::Srun(arguments) => srun::run(&arguments.words, api, console).await,
        }
    }
}

/// The command line of a program that was started under the name of a look-alike.
pub(super) fn alias(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let (program, rest) = arguments.split_first()?;
    let name = Path::new(program).file_name()?.to_str()?;
    let name = NAMES.into_iter().find(|known| *known == name)?;
    let begin = ["muster", "slurm", name, "--"].map(OsString::from);
    Some(begin.into_iter().chain(rest.iter().cloned()).collect())
}

/// What a tool that is no sbatch was given; none if it has shown its help.
fn words(
    tool: &SlurmTool,
    words: &[String],
    about: &str,
    examples: &str,
    console: &Console,
) -> Result<Option<OptionLine>, CliError> {
    let line = option::read(tool, words, OptionOrigin::CommandLine).map_err(CliError::Usage)?;
    if line.has("help") || line.has("usage") {
        console.line(tool.help(about, examples).trim_end())?;
        return Ok(None);
    }
    for warning in &line.warnings {
        console.note(format!("warning: {warning}"));
    }
    Ok(Some(line))
}

#[cfg(test)]
mod tests;
