//! `muster policy`: what holds on all machines of the cluster alike.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use muster_model::policy::{ClusterPolicy, POLICY_BYTES_MAX};

use super::api::Api;
use super::console::Console;
use super::document::{self, DocumentTexts};
use super::document_file;
use super::endpoint::EndpointArguments;
use super::error::CliError;
use super::output::OutputOption;
use super::status::CliStatus;

/// The policy as a document of the cluster.
const POLICY: DocumentTexts = DocumentTexts {
    name: "policy",
    show: "muster policy show",
    after: "see which machines use it: muster policy status",
    first: "the default",
    has_steps: false,
};

const APPLY: &str = "\
The file names what differs from the default; `muster policy show` prints all there is, with what it
means. Every machine uses the new policy as soon as it has it, mostly within a second; tasks that run
keep the limits that they were started with. An edit of a policy that somebody else has replaced since
is refused: which version was edited stands in the first line of what `muster policy show` prints, or in
--base.

Examples:
  muster policy apply policy.yaml
  muster policy show > policy.yaml && $EDITOR policy.yaml && muster policy apply policy.yaml
  echo 'tasks: {stop_grace_ms: 60000}' | muster policy apply - --base 3";

/// What can be done with the policy.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Check a policy file: exits with 0 if it can be used, 1 if not.
    #[command(after_help = "Examples:
  muster policy check policy.yaml
  muster policy check - -o json < policy.yaml | jq '.errors[]'")]
    Check {
        /// The policy file; - for stdin.
        file: PathBuf,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Give the cluster a new policy. Prints its version.
    #[command(after_help = APPLY)]
    Apply {
        /// The policy file; - for stdin.
        file: PathBuf,
        /// The version that was edited [default: what the file's first line says].
        #[arg(long, value_name = "VERSION")]
        base: Option<u64>,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Print the policy, ready to be edited and applied.
    #[command(after_help = "Examples:
  muster policy show
  diff <(muster policy show 3) <(muster policy show)")]
    Show {
        /// The version [default: the one in force on the agent's machine].
        version: Option<u64>,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Show which machines use the newest policy: exits with 1 if a machine rejects it.
    #[command(after_help = "Examples:
  muster policy status
  muster policy status -o json | jq -r '.coverage.unreachable[]'")]
    Status {
        #[command(flatten)]
        output: OutputOption,
    },
    /// List the versions of the policy, the newest first.
    #[command(after_help = "Examples:
  muster policy history
  muster policy history -o json | jq -r '.[0].author'")]
    History {
        #[command(flatten)]
        output: OutputOption,
    },
    /// Give the policy an earlier version's text again, as a new version.
    #[command(after_help = "Examples:
  muster policy rollback 3")]
    Rollback {
        /// The version to go back to.
        version: u64,
        #[command(flatten)]
        output: OutputOption,
    },
}

impl PolicyCommand {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let api = || Api::new(connection, None);
        match self {
            Self::Check { file, output } => {
                let problems = ClusterPolicy::read(&read(&file)?).err();
                document::check(&problems.unwrap_or_default(), output, console)
            }
            Self::Apply { file, base, output } => {
                let text = read(&file)?;
                let text = POLICY.checked((&file, &text), base, ClusterPolicy::read)?;
                POLICY.apply(&api()?, text, output, console).await
            }
            Self::Show { version, output } => {
                document::show(POLICY, &api()?, version, output, console).await
            }
            Self::Status { output } => document::status(POLICY, &api()?, output, console).await,
            Self::History { output } => document::history(POLICY, &api()?, output, console).await,
            Self::Rollback { version, output } => {
                POLICY.roll_back(&api()?, version, output, console).await
            }
        }
    }
}

fn read(file: &Path) -> Result<String, CliError> {
    document_file::read(file, POLICY_BYTES_MAX as u64)
}
