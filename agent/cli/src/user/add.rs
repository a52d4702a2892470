//! `muster user add`.

use clap::Args;
use muster_model::id::UserName;
use serde_json::json;

use super::UserChange;
use crate::api::{Api, GroupsStep};
use crate::console::Console;
use crate::error::CliError;
use crate::name_list::{NameList, groups, vcs};
use crate::password::PasswordSource;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Every user is a member of the group `default`, and may use what that group allows. A password has at
least 6 characters. It is never given on the command line, where others could read it.

Examples:
  muster user add ada
  muster user add ada --email ada@example.org --vc vision,speech
  muster user add ada --admin --generate
  pass show muster/ada | muster user add ada --group research --password-stdin";

/// Arguments of `add`.
#[derive(Debug, Args)]
pub struct AddUserArguments {
    /// The user's name: letters, digits, '_', '.' and '-'.
    name: UserName,
    /// The user's e-mail address.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "",
        hide_default_value = true
    )]
    email: String,
    /// Make the user an admin.
    #[arg(long)]
    admin: bool,
    /// Virtual clusters that the user may use, besides those of their groups.
    #[arg(long, value_name = "VC,...", value_parser = vcs, default_value = "", hide_default_value = true)]
    vc: NameList,
    /// Groups that the user becomes a member of.
    #[arg(long, value_name = "GROUP,...", value_parser = groups, default_value = "", hide_default_value = true)]
    group: NameList,
    #[command(flatten)]
    password: PasswordSource,
}

impl AddUserArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let name = self.name.as_str();
        let password = self.password.obtain(name, console)?;
        let user = json!({
            "username": name,
            "email": self.email,
            "password": password.text.0,
            "admin": self.admin,
            "virtualCluster": self.vc.0,
            "extension": {},
        });
        api.add_user(name, &user).await?;
        console.note(format!("{name} was added"));
        // Before the groups, which may fail: the user exists with this password.
        password.print(console)?;
        let change = UserChange {
            steps: self.group.0.into_iter().map(GroupsStep::Join).collect(),
            ..UserChange::default()
        };
        change.make(name, api, console).await?;
        Ok(CliStatus::Ok)
    }
}
