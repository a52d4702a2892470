//! `muster job validate`: the one thing to do with a job that needs no agent.

use std::path::PathBuf;

use clap::Args;
use muster_model::protocol;
use muster_model::remark::Remark;

use super::submit::JOB_BYTES_MAX;
use crate::console::{Console, printable};
use crate::document_file;
use crate::error::CliError;
use crate::output::OutputOption;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job validate train.yaml
  muster job validate - -o json < train.yaml | jq -r .entrypoints.worker";

#[derive(Debug, Args)]
pub struct ValidateArguments {
    /// The job file; - for stdin.
    file: PathBuf,
    #[command(flatten)]
    output: OutputOption,
}

impl ValidateArguments {
    pub(super) fn run(self, console: &Console) -> Result<CliStatus, CliError> {
        let text = document_file::read(&self.file, JOB_BYTES_MAX)?;
        let verdict = protocol::verdict(&text);
        self.output
            .write(console, &verdict, |verdict, _| readable(verdict))?;
        Ok(CliStatus::of(verdict.valid))
    }
}

fn readable(verdict: &protocol::JobValidation) -> String {
    let errors = verdict.errors.iter().map(Remark::to_string);
    let warnings = verdict
        .warnings
        .iter()
        .map(|warning| format!("warning: {warning}"));
    let valid = verdict.valid.then(|| "valid".to_owned());
    let lines = errors.chain(warnings).chain(valid);
    printable(&lines.collect::<Vec<_>>().join("\n"))
}
