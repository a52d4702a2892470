//! `muster rules diff`.

use std::path::PathBuf;

use clap::Args;
use muster_failure_rules::RULES_BYTES_MAX;
use serde::Serialize;
use similar::TextDiff;

use super::RULES;
use crate::api::Api;
use crate::console::Console;
use crate::document_file;
use crate::error::CliError;
use crate::output::OutputOption;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Exits with 1 if the texts differ.

Examples:
  muster rules diff 41
  muster rules diff 41 43
  muster rules diff --file new.yaml";

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub struct RulesDiffArguments {
    /// The version to compare from [default: the one in force on the agent's machine].
    from: Option<u64>,
    /// The version to compare with [default: the one in force on the agent's machine].
    #[arg(conflicts_with = "file")]
    to: Option<u64>,
    /// Compare with this file; - for stdin.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    output: OutputOption,
}

/// Two texts, and how they differ.
#[derive(Debug, Serialize)]
struct RulesDiff {
    from: String,
    to: String,
    same: bool,
    /// As `diff -u` prints it.
    diff: String,
}

impl RulesDiffArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        if self.from.is_none() && self.file.is_none() {
            let says =
                "give a version, two versions, or --file; muster rules history lists the versions";
            return Err(CliError::Usage(says.to_owned()));
        }
        let old = version(api, self.from).await?;
        let new = match &self.file {
            Some(file) => {
                let text = document_file::read(file, RULES_BYTES_MAX as u64)?;
                let (_, text) = RULES.unmarked(&text);
                (file.display().to_string(), text.to_owned())
            }
            None => version(api, self.to).await?,
        };
        let diff = differ(old, new);
        self.output
            .write(console, &diff, |diff, _| match diff.same {
                true => format!("{} and {} are the same", diff.from, diff.to),
                false => diff.diff.clone(),
            })?;
        Ok(CliStatus::of(diff.same))
    }
}

/// A version's name and text.
async fn version(api: &Api, version: Option<u64>) -> Result<(String, String), CliError> {
    let shown = api.text(RULES.name, version).await?;
    Ok((format!("version {}", shown.version), shown.text))
}

fn differ((from, old): (String, String), (to, new): (String, String)) -> RulesDiff {
    let found = TextDiff::from_lines(&old, &new);
    let mut lines = found.unified_diff();
    let lines = lines.context_radius(CONTEXT_LINES).header(&from, &to);
    let diff = lines.to_string().trim_end().to_owned();
    RulesDiff {
        same: old == new,
        from,
        to,
        diff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_told_with_those_around() {
        let named = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let diff = differ(
            named("version 1", "a\nb\nc\n"),
            named("new.yaml", "a\nx\nc\n"),
        );
        assert!(!diff.same);
        assert_eq!(
            diff.diff,
            "--- version 1\n+++ new.yaml\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c"
        );
        let same = differ(named("version 1", "a\n"), named("version 2", "a\n"));
        assert!(same.same && same.diff.is_empty(), "{same:?}");
    }
}
