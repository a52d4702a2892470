//! `muster user`.

mod add;
mod csv_file;
mod import;
mod list;
mod password;
mod set;

use clap::Subcommand;
use muster_model::id::UserName;
use serde_json::{Map, Value};

use super::api::{Api, GroupsStep};
use super::console::Console;
use super::error::CliError;
use super::output::OutputOption;
use super::status::CliStatus;

/// What can be done with users.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// List the users, their groups and the virtual clusters that they may use.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  muster user list
  muster user list -o json | jq -r '.[] | select(.admin).username'"
    )]
    List {
        #[command(flatten)]
        output: OutputOption,
    },
    /// Show a user.
    #[command(after_help = "Examples:
  muster user show ada
  muster user show ada -o json | jq .extension")]
    Show {
        /// The user.
        name: UserName,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Add a user. Asks for the password on the terminal, where no option names where it is.
    #[command(after_help = add::EXAMPLES)]
    Add(add::AddUserArguments),
    /// Change a user.
    #[command(after_help = set::EXAMPLES)]
    Set(set::SetUserArguments),
    /// Change a password: your own, or as an admin that of another user.
    #[command(after_help = password::EXAMPLES)]
    Password(password::PasswordArguments),
    /// Remove a user with all their tokens. Their jobs stay.
    #[command(
        visible_alias = "rm",
        after_help = "An admin is removed in two steps: first take the right away.

Examples:
  muster user remove ada
  muster user set ada --admin false && muster user remove ada --yes"
    )]
    Remove {
        /// The user.
        name: UserName,
        /// Without a question.
        #[arg(long, short)]
        yes: bool,
    },
    /// Add the users of a CSV file, as a spreadsheet or another cluster exports it.
    #[command(after_help = import::EXAMPLES)]
    Import(import::ImportUsersArguments),
}

impl UserCommand {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        match self {
            Self::List { output } => list::list(output, api, console).await,
            Self::Show { name, output } => list::show(name.as_str(), output, api, console).await,
            Self::Add(arguments) => arguments.run(api, console).await,
            Self::Set(arguments) => arguments.run(api, console).await,
            Self::Password(arguments) => arguments.run(api, console).await,
            Self::Remove { name, yes } => remove(name.as_str(), yes, api, console).await,
            Self::Import(arguments) => arguments.run(api, console).await,
        }
    }
}

async fn remove(
    name: &str,
    yes: bool,
    api: &Api,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let what = format!("{name} could not log in any more, and all their tokens would be revoked");
    if !may_remove(&what, yes, console)? {
        return Ok(CliStatus::Negative);
    }
    api.remove_user(name).await?;
    console.note(format!("{name} was removed; their jobs stay"));
    Ok(CliStatus::Ok)
}

/// Asks, where `--yes` was not given. `what` tells what would follow.
pub(super) fn may_remove(what: &str, yes: bool, console: &Console) -> Result<bool, CliError> {
    if yes {
        return Ok(true);
    }
    if !console.interactive {
        return Err(CliError::Usage(format!(
            "{what}. Stdin is not a terminal, so nobody can be asked: give --yes if that is wanted"
        )));
    }
    let agreed = console.agreed(&format!("{what}. Go on?"))?;
    if !agreed {
        console.note("nothing was changed");
    }
    Ok(agreed)
}

/// The requests that change one user, in their order. The fields are one request, each step of the
/// groups is another.
#[derive(Debug, Default)]
struct UserChange {
    fields: Map<String, Value>,
    steps: Vec<GroupsStep>,
}

impl UserChange {
    /// Sends them. Where one fails after others were carried out, says which.
    async fn make(self, user: &str, api: &Api, console: &Console) -> Result<(), CliError> {
        let mut done: Vec<String> = Vec::new();
        let mut open: Vec<String> = self.steps.iter().map(step_name).collect();
        if !self.fields.is_empty() {
            let names: Vec<String> = self.fields.keys().cloned().collect();
            api.change_user(user, self.fields).await?;
            done = names;
        }
        for step in &self.steps {
            if let Err(error) = api.change_groups(user, step).await {
                partly(user, &done, &open, console);
                return Err(error);
            }
            done.push(open.remove(0));
        }
        Ok(())
    }
}

fn step_name(step: &GroupsStep) -> String {
    match step {
        GroupsStep::Join(group) => format!("group +{group}"),
        GroupsStep::Leave(group) => format!("group -{group}"),
        GroupsStep::Exactly(_) => "groups".to_owned(),
    }
}

/// Says what is changed and what is not; nothing where the error alone says it.
fn partly(user: &str, done: &[String], open: &[String], console: &Console) {
    let open = open.join(", ");
    if !done.is_empty() {
        let done = done.join(", ");
        console.note(format!("{user}: changed: {done}; not changed: {open}"));
    } else if open.contains(", ") {
        console.note(format!("{user}: not changed: {open}"));
    }
}
