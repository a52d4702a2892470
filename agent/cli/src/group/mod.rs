//! `muster group`.

mod edit;
mod list;

use clap::Subcommand;
use muster_model::id::GroupName;

use super::api::Api;
use super::console::Console;
use super::error::CliError;
use super::output::OutputOption;
use super::status::CliStatus;
use super::user::may_remove;

/// What can be done with groups.
#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// List the groups and what each allows.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  muster group list
  muster group list -o json | jq -r '.[] | select(.extension.acls.admin).groupname'"
    )]
    List {
        #[command(flatten)]
        output: OutputOption,
    },
    /// Show a group: what it allows, and to admins its members.
    #[command(after_help = "Examples:
  muster group show research
  muster group show research -o json | jq -r '.members[].username'")]
    Show {
        /// The group.
        name: GroupName,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Add a group.
    #[command(after_help = edit::ADD_EXAMPLES)]
    Add(edit::AddGroupArguments),
    /// Change a group. Its members: muster user set NAME --group +GROUP
    #[command(after_help = edit::SET_EXAMPLES)]
    Set(edit::SetGroupArguments),
    /// Remove a group. Its members lose what it allowed.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:
  muster group remove interns
  muster group remove interns --yes"
    )]
    Remove {
        /// The group.
        name: GroupName,
        /// Without a question.
        #[arg(long, short)]
        yes: bool,
    },
}

impl GroupCommand {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        match self {
            Self::List { output } => list::list(output, api, console).await,
            Self::Show { name, output } => list::show(name.as_str(), output, api, console).await,
            Self::Add(arguments) => arguments.run(api, console).await,
            Self::Set(arguments) => arguments.run(api, console).await,
            Self::Remove { name, yes } => remove(name.as_str(), yes, api, console).await,
        }
    }
}

async fn remove(
    name: &str,
    yes: bool,
    api: &Api,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let what = format!("the members of {name} would lose what it allows");
    if !may_remove(&what, yes, console)? {
        return Ok(CliStatus::Negative);
    }
    api.remove_group(name).await?;
    console.note(format!("{name} was removed"));
    Ok(CliStatus::Ok)
}
