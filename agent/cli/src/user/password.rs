//! `muster user password`.

use std::path::PathBuf;

use clap::Args;
use muster_model::id::UserName;
use muster_model::secret::Hidden;

use crate::api::Api;
use crate::console::Console;
use crate::error::CliError;
use crate::password::{PasswordSource, read};
use crate::status::CliStatus;
use crate::terminal;

pub(super) const EXAMPLES: &str = "\
Changing your own password asks for the old one. Admins, and root on the machine's socket, set that of
another user without it. Logins that the user has are revoked; application tokens stay.

Examples:
  muster user password
  sudo muster user password ada
  sudo muster user password ada --generate
  muster user password --old-password-file old.txt --password-file new.txt";

/// Arguments of `password`.
#[derive(Debug, Args)]
pub struct PasswordArguments {
    /// The user [default: yourself, which on root's socket is `admin`].
    name: Option<UserName>,
    /// Read your password until now from this file, which has nothing else.
    #[arg(long, value_name = "FILE")]
    old_password_file: Option<PathBuf>,
    #[command(flatten)]
    password: PasswordSource,
}

impl PasswordArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let user = match &self.name {
            Some(name) => name.clone(),
            None => api.user()?,
        };
        let is_own = api.token_user().as_ref() == Some(&user);
        let old = self.old(is_own, console)?;
        let new = self.password.obtain(user.as_str(), console)?;
        let told = old.as_ref().map(|old| old.0.as_str());
        api.change_password(user.as_str(), told, &new.text.0)
            .await?;
        console.note(format!(
            "the password of {user} was changed; they have to log in again"
        ));
        new.print(console)?;
        Ok(CliStatus::Ok)
    }

    /// The password until now, where it has to be told.
    fn old(&self, is_own: bool, console: &Console) -> Result<Option<Hidden<String>>, CliError> {
        match &self.old_password_file {
            Some(file) => read(file).map(Some),
            None if !is_own => Ok(None),
            None if console.interactive => terminal::ask("Your password until now").map(Some),
            None => Err(CliError::Usage(
                "stdin is not a terminal, so your password until now cannot be asked for: give \
                 --old-password-file FILE"
                    .to_owned(),
            )),
        }
    }
}
