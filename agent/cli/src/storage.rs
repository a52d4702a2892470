//! `muster storage`: the storages that the cluster declares, and their files.

mod batches;
mod declaration;
mod declare;
mod get;
mod ls;
mod path;
mod probe;
mod put;
mod transfer;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use muster_model::storage::{ClusterStorages, STORAGES_BYTES_MAX, STORAGES_DOCUMENT, StorageGrant};

use super::api::Api;
use super::console::Console;
use super::document::{self, DocumentTexts};
use super::document_file;
use super::endpoint::EndpointArguments;
use super::error::CliError;
use super::output::OutputOption;
use super::status::CliStatus;
use super::table::TextTable;
pub(super) use path::StoragePath;

/// The storages as a document of the cluster.
const STORAGES: DocumentTexts = DocumentTexts {
    name: STORAGES_DOCUMENT,
    show: "muster storage show",
    after: "see which machines use it: muster storage status",
    first: "no storage",
    has_steps: false,
};

const APPLY: &str = "\
The file declares all storages of the cluster; `muster storage show` prints those there are, and says what
each field means. Jobs name them in extras.storages, and the machines that run their tasks mount them.
Who may use which, groups say: muster group set GROUP --storage NAME. Passwords and keys are sealed before they are
kept: muster storage show prints sealed:..., which may stay there. An edit of a version that another edit has replaced
since is refused.

Examples:
  muster storage apply storages.yaml
  muster storage show > storages.yaml && $EDITOR storages.yaml && muster storage apply storages.yaml
  echo 'storages: [{name: data, type: nfs, data: {server: nfs1, path: /data}}]' | muster storage apply -";

/// What can be done with storages.
#[derive(Debug, Subcommand)]
pub enum StorageCommand {
    /// List the storages that you may use; for an admin, all of them.
    #[command(after_help = "Examples:
  muster storage list
  muster storage list -o json | jq -r '.[] | select(.default) | .name'")]
    List {
        #[command(flatten)]
        output: OutputOption,
    },
    /// List files of a storage.
    #[command(after_help = ls::EXAMPLES)]
    Ls(ls::StorageListArguments),
    /// Copy a file or directory to a storage.
    #[command(after_help = put::EXAMPLES)]
    Put(put::PutArguments),
    /// Copy a file or directory of a storage to here.
    #[command(after_help = get::EXAMPLES)]
    Get(get::GetArguments),
    /// Mount a storage on the agent's machine and show how it is: exits with 1 if it cannot be used.
    #[command(after_help = probe::EXAMPLES)]
    Probe(probe::ProbeArguments),
    /// Declare one more storage. Prints the version.
    #[command(after_help = declare::ADD)]
    Add(declare::AddArguments),
    /// Take a storage out of the declaration. Prints the version.
    #[command(visible_alias = "rm", after_help = declare::REMOVE)]
    Remove(declare::RemoveArguments),
    /// Print the declaration of all storages, ready to be edited and applied.
    #[command(after_help = "Examples:
  muster storage show
  diff <(muster storage show 3) <(muster storage show)")]
    Show {
        /// The version [default: the one in force on the agent's machine].
        version: Option<u64>,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Check a file of storages: exits with 0 if it can be used, 1 if not.
    #[command(after_help = "Examples:
  muster storage check storages.yaml
  muster storage check - -o json < storages.yaml | jq '.errors[]'")]
    Check {
        /// The file; - for stdin.
        file: PathBuf,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Declare the storages of the cluster anew. Prints the version.
    #[command(after_help = APPLY)]
    Apply {
        /// The file; - for stdin.
        file: PathBuf,
        /// The version that was edited [default: what the file's first line says].
        #[arg(long, value_name = "VERSION")]
        base: Option<u64>,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Show which machines use the newest version: exits with 1 if a machine rejects it.
    #[command(after_help = "Examples:
  muster storage status
  muster storage status -o json | jq -r '.coverage.unreachable[]'")]
    Status {
        #[command(flatten)]
        output: OutputOption,
    },
    /// List the versions, the newest first.
    #[command(after_help = "Examples:
  muster storage history
  muster storage history -o json | jq -r '.[0].author'")]
    History {
        #[command(flatten)]
        output: OutputOption,
    },
    /// Declare the storages of an earlier version again, as a new version.
    #[command(after_help = "Examples:
  muster storage rollback 3")]
    Rollback {
        /// The version to go back to.
        version: u64,
        #[command(flatten)]
        output: OutputOption,
    },
}

impl StorageCommand {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let api = || Api::new(connection, None);
        match self {
            Self::List { output } => list(&api()?, output, console).await,
            Self::Ls(arguments) => arguments.run(&api()?, console).await,
            Self::Put(arguments) => arguments.run(&api()?, console).await,
            Self::Get(arguments) => arguments.run(&api()?, console).await,
            Self::Probe(arguments) => arguments.run(&api()?, console).await,
            Self::Add(arguments) => arguments.run(&api()?, console).await,
            Self::Remove(arguments) => arguments.run(&api()?, console).await,
            Self::Check { file, output } => {
                let problems = ClusterStorages::read(&read(&file)?).err();
                document::check(&problems.unwrap_or_default(), output, console)
            }
            Self::Apply { file, base, output } => {
                let text = read(&file)?;
                let text = STORAGES.checked((&file, &text), base, ClusterStorages::read)?;
                STORAGES.apply(&api()?, text, output, console).await
            }
            Self::Show { version, output } => {
                document::show(STORAGES, &api()?, version, output, console).await
            }
            Self::Status { output } => document::status(STORAGES, &api()?, output, console).await,
            Self::History { output } => document::history(STORAGES, &api()?, output, console).await,
            Self::Rollback { version, output } => {
                STORAGES.roll_back(&api()?, version, output, console).await
            }
        }
    }
}

fn read(file: &Path) -> Result<String, CliError> {
    document_file::read(file, STORAGES_BYTES_MAX as u64)
}

async fn list(api: &Api, output: OutputOption, console: &Console) -> Result<CliStatus, CliError> {
    let storages = api.storages().await?;
    output.write(console, &storages, |storages, paint| {
        table(storages).render(paint, 0)
    })?;
    Ok(CliStatus::Ok)
}

fn table(storages: &[StorageGrant]) -> TextTable<6> {
    let mut table = TextTable::new(["NAME", "TYPE", "WHERE", "SHARED", "ACCESS", "YOURS"]);
    for StorageGrant {
        storage,
        granted,
        default,
    } in storages
    {
        table.row([
            storage.name.as_str().into(),
            storage.kind.as_str().into(),
            storage.place().into(),
            if storage.share { "yes" } else { "by user" }.into(),
            if storage.read_only { "read" } else { "write" }.into(),
            match (granted, default) {
                (_, true) => "default",
                (true, false) => "yes",
                (false, false) => "",
            }
            .into(),
        ]);
    }
    table
}
