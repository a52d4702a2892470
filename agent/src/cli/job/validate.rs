//! `muster job validate`: the one thing to do with a job that needs no agent.

use std::path::PathBuf;

use clap::Args;
use muster_model::protocol;

use super::submit::JOB_BYTES_MAX;
use crate::cli::console::{Console, printable};
use crate::cli::document_file;
use crate::cli::error::Error;
use crate::cli::output::Output;
use crate::cli::status::Status;

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
    if verdict.valid {
        return "valid".to_owned();
    }
    let lines = verdict
        .errors
        .iter()
        .map(|fault| match fault.path.as_str() {
            "" => printable(&fault.message),
            path => printable(&format!("{path}: {}", fault.message)),
        });
    lines.collect::<Vec<_>>().join("\n")
}
