//! `muster job validate`: the one thing to do with a job that needs no agent.

use std::path::PathBuf;

use clap::Args;
use muster_model::protocol;
use muster_model::remark::Remark;

use super::submit::JOB_BYTES_MAX;
use crate::console::{Console, printable};
use crate::document_file;
use crate::error::Error;
use crate::output::Output;
use crate::status::Status;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job validate train.yaml
  muster job validate - -o json < train.yaml | jq -r .entrypoints.worker";

#[derive(Debug, Args)]
pub struct Arguments {
    /// The job file; - for stdin.
    file: PathBuf,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self, console: &Console) -> Result<Status, Error> {
        let text = document_file::read(&self.file, JOB_BYTES_MAX)?;
        let verdict = protocol::verdict(&text);
        self.output
            .write(console, &verdict, |verdict, _| readable(verdict))?;
        Ok(Status::of(verdict.valid))
    }
}

fn readable(verdict: &protocol::Verdict) -> String {
    let errors = verdict.errors.iter().map(Remark::to_string);
    let warnings = verdict
        .warnings
        .iter()
        .map(|warning| format!("warning: {warning}"));
    let valid = verdict.valid.then(|| "valid".to_owned());
    let lines = errors.chain(warnings).chain(valid);
    printable(&lines.collect::<Vec<_>>().join("\n"))
}
