//! `muster rules apply`.

use std::path::PathBuf;

use clap::Args;
use muster_failure_rules::{RULES_BYTES_MAX, RuleSet};

use super::RULES;
use crate::api::Api;
use crate::console::Console;
use crate::document_file;
use crate::error::CliError;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Every node checks the new rules before one uses them; then a few use them, then all. --now skips
that and is recorded. An edit of rules that somebody else has replaced since is refused: which
version was edited stands in the first line of what `muster rules show VERSION` prints, or in --base.
Without VERSION it prints the rules in force here; `muster rules history` tells the newest version.

Examples:
  muster rules apply rules.yaml
  muster rules apply rules.yaml --base 42
  muster rules apply fix.yaml --now --base 42";

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub struct RulesApplyArguments {
    /// The rule file; - for stdin.
    file: PathBuf,
    /// In force on all nodes at once, without steps.
    #[arg(long)]
    now: bool,
    /// The version that was edited [default: what the file's first line says].
    #[arg(long, value_name = "VERSION")]
    base: Option<u64>,
}

impl RulesApplyArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let text = document_file::read(&self.file, RULES_BYTES_MAX as u64)?;
        RuleSet::parse(&text).map_err(|problems| CliError::unusable(&self.file, &problems))?;
        let (marked, text) = RULES.unmarked(&text);
        let base = RULES.base(api, self.base.or(marked)).await?;
        let version = RULES.edit(api, base, (text.to_owned(), self.now)).await?;
        console.line(format!("version {version}"))?;
        if !self.now {
            console.note(format!("it is checked everywhere first; {}", RULES.after));
        }
        Ok(CliStatus::Ok)
    }
}
