//! `muster rules`: failure rules, with those of the cluster or without an agent.

mod apply;
mod diff;
mod edit;
mod list;
mod test;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use muster_failure_rules::{RULES_BYTES_MAX, RuleProblem, RuleSet, classify_cases};
use serde_json::json;

use self::apply::RulesApplyArguments;
use self::diff::RulesDiffArguments;
use self::test::RulesTestArguments;
use super::api::Api;
use super::console::Console;
use super::document::{self, DocumentTexts};
use super::document_file;
use super::endpoint::EndpointArguments;
use super::error::{CliError, explained, in_lines};
use super::output::OutputOption;
use super::status::CliStatus;

/// The largest set of cases that is read.
const CASES_BYTES_MAX: u64 = 256 << 20;

/// The rules as a document of the cluster.
const RULES: DocumentTexts = DocumentTexts {
    name: "failure-rules",
    show: "muster rules show",
    after: "see how far it is: muster rules status",
    first: "what it was started with",
    has_steps: true,
};

/// What can be done with failure rules.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// Check a rule file: exits with 0 if it can be used, 1 if not.
    #[command(after_help = "Examples:
  muster rules check rules.yaml
  muster rules check - -o json < rules.yaml | jq '.errors[]'")]
    Check {
        /// The rule file; - for stdin.
        file: PathBuf,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Tell what the rules say of recorded ends: reads {"cases":[...]} from stdin, prints one
    /// JSON object a line, in order.
    #[command(after_help = "Examples:
  muster rules classify < failure-cases.json
  muster rules classify --rules new.yaml < failure-cases.json | jq -c '[.name, .code]'

The fields of a case are name, exitCode, oomKilled, container, ranUserCommand, gpuDoubleBitEcc,
containerReason, containerMessage, podReason, podMessage, userLogTail and runtimeLogTail.")]
    Classify {
        /// The rule file [default: the rules that come with muster].
        #[arg(long, value_name = "FILE")]
        rules: Option<PathBuf>,
    },
    /// List the rules, in the order in which they are tried.
    #[command(after_help = list::EXAMPLES)]
    List {
        /// The version [default: the one in force on the agent's machine].
        version: Option<u64>,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Change the newest rules in an editor. Prints the new version.
    #[command(after_help = edit::EXAMPLES)]
    Edit {
        /// In force on all nodes at once, without steps.
        #[arg(long)]
        now: bool,
        /// The editor with its options [default: what VISUAL or EDITOR says, or vi].
        #[arg(long, value_name = "COMMAND")]
        editor: Option<String>,
    },
    /// Compare the rules of two versions, or of a version and a file.
    #[command(after_help = diff::EXAMPLES)]
    Diff(RulesDiffArguments),
    /// Tell which verdicts new rules would change, of the failures that all nodes keep.
    #[command(after_help = test::EXAMPLES)]
    Test(RulesTestArguments),
    /// Give the cluster new rules. Prints their version.
    #[command(after_help = apply::EXAMPLES)]
    Apply(RulesApplyArguments),
    /// Show how far the newest rules are: exits with 1 if a node rejects them.
    #[command(after_help = "Examples:
  muster rules status
  muster rules status -o json | jq -r '.coverage.unreachable[]'")]
    Status {
        #[command(flatten)]
        output: OutputOption,
    },
    /// List the versions of the rules, the newest first.
    #[command(after_help = "Examples:
  muster rules history
  muster rules history -o json | jq -r '.[] | select(.forced).author'")]
    History {
        #[command(flatten)]
        output: OutputOption,
    },
    /// Give the rules an earlier version's text again, as a new version.
    #[command(after_help = "Examples:
  muster rules rollback 41
  muster rules rollback 41 --now")]
    Rollback {
        /// The version to go back to.
        version: u64,
        /// In force on all nodes at once, without steps.
        #[arg(long)]
        now: bool,
    },
    /// Print the rules, ready to be edited and applied.
    #[command(after_help = "Examples:
  muster rules show
  muster rules show 41 > old.yaml
  diff <(muster rules show 41) <(muster rules show)")]
    Show {
        /// The version [default: the one in force on the agent's machine].
        version: Option<u64>,
        #[command(flatten)]
        output: OutputOption,
    },
}

impl RulesCommand {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let api = || Api::new(connection, None);
        match self {
            Self::Check { file, output } => check(&file, output, console),
            Self::Classify { rules } => classify(rules.as_deref(), console),
            Self::List { version, output } => list::list(&api()?, version, output, console).await,
            Self::Edit { now, editor } => {
                let editor = editor.unwrap_or_else(usual_editor);
                edit::edit(&api()?, &editor, now, console).await
            }
            Self::Diff(arguments) => arguments.run(&api()?, console).await,
            Self::Test(arguments) => arguments.run(&api()?, console).await,
            Self::Apply(arguments) => arguments.run(&api()?, console).await,
            Self::Status { output } => document::status(RULES, &api()?, output, console).await,
            Self::History { output } => document::history(RULES, &api()?, output, console).await,
            Self::Rollback { version, now } => {
                let made = roll_back(&api()?, version, now).await?;
                console.line(format!("version {made}"))?;
                console.note(format!(
                    "it has the text of version {version}; {}",
                    RULES.after
                ));
                Ok(CliStatus::Ok)
            }
            Self::Show { version, output } => {
                document::show(RULES, &api()?, version, output, console).await
            }
        }
    }
}

/// Makes a new version with an earlier one's text. `now`: as an edit of the newest whose steps are skipped.
async fn roll_back(api: &Api, version: u64, now: bool) -> Result<u64, CliError> {
    if !now {
        return api.rollback(RULES.name, version).await;
    }
    let text = api.text(RULES.name, Some(version)).await?.text;
    let newest = api.document(RULES.name).await?.newest.version;
    RULES.edit(api, newest, (text, true)).await
}

/// The user's editor.
fn usual_editor() -> String {
    let of = |name| std::env::var(name).ok().filter(|editor| !editor.is_empty());
    of("VISUAL")
        .or_else(|| of("EDITOR"))
        .unwrap_or_else(|| "vi".to_owned())
}

fn read(file: &Path) -> Result<Result<RuleSet, Vec<RuleProblem>>, CliError> {
    let text = document_file::read(file, RULES_BYTES_MAX as u64)?;
    Ok(RuleSet::parse(&text))
}

fn check(file: &Path, output: OutputOption, console: &Console) -> Result<CliStatus, CliError> {
    let (codes, problems) = match read(file)? {
        Ok(rules) => (rules.specs().count(), Vec::new()),
        Err(problems) => (0, problems),
    };
    let errors: Vec<_> = problems
        .iter()
        .map(
            |RuleProblem {
                 path,
                 line,
                 message,
             }| { json!({ "path": path, "line": line, "message": message }) },
        )
        .collect();
    let answer = json!({ "valid": problems.is_empty(), "codes": codes, "errors": errors });
    output.write(console, &answer, |_, _| match problems.as_slice() {
        [] if codes == 1 => "valid, 1 code".to_owned(),
        [] => format!("valid, {codes} codes"),
        problems => in_lines(problems),
    })?;
    Ok(CliStatus::of(problems.is_empty()))
}

fn classify(file: Option<&Path>, console: &Console) -> Result<CliStatus, CliError> {
    let given;
    let rules = match file {
        None => RuleSet::shipped(),
        Some(path) => {
            given = read(path)?.map_err(|problems| CliError::unusable(path, &problems))?;
            &given
        }
    };
    let cases = document_file::read(Path::new("-"), CASES_BYTES_MAX)?;
    let verdicts =
        classify_cases(rules, &cases).map_err(|error| CliError::Usage(explained(&error)))?;
    let mut lines = String::new();
    for verdict in verdicts {
        let line = serde_json::to_string(&verdict).map_err(CliError::unwritable)?;
        lines.push_str(&line);
        lines.push('\n');
    }
    console.out(lines)?;
    Ok(CliStatus::Ok)
}
