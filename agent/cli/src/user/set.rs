//! `muster user set`.

use std::path::{Path, PathBuf};

use clap::Args;
use muster_model::id::UserName;
use muster_model::people::EXTENSION_BYTES_MAX;
use serde_json::{Map, Value};

use super::UserChange;
use crate::api::{Api, GroupsStep};
use crate::console::Console;
use crate::document_file;
use crate::error::CliError;
use crate::name_list::{NameList, NamesEdit, groups_edit, vcs};
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
What is not named stays. A list that is given whole (A,B) replaces the one before; one with signs
(+A,-B) changes it. `--vc` sets the virtual clusters that the user may use by groups of the same name;
what other groups allow stays.

Examples:
  muster user set ada --email ada@example.org
  muster user set ada --admin true
  muster user set ada --vc vision,speech
  muster user set ada --group +research,-interns
  muster user set ada --extension ada.json";

/// Arguments of `set`.
#[derive(Debug, Args)]
pub struct SetUserArguments {
    /// The user.
    name: UserName,
    /// The e-mail address; '' for none.
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// Whether the user is an admin.
    #[arg(long, value_name = "true|false")]
    admin: Option<bool>,
    /// The virtual clusters that the user may use.
    #[arg(long, value_name = "VC,...", value_parser = vcs)]
    vc: Option<NameList>,
    /// The groups that the user is a member of, or +GROUP,-GROUP to change some.
    #[arg(long, value_name = "GROUP,...", value_parser = groups_edit, allow_hyphen_values = true)]
    group: Option<NamesEdit>,
    /// A file with a JSON object: what clients keep with the user; - for stdin.
    #[arg(long, value_name = "FILE")]
    extension: Option<PathBuf>,
}

impl SetUserArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let user = self.name.clone();
        let change = self.change()?;
        if change.fields.is_empty() && change.steps.is_empty() {
            return Err(CliError::Usage(
                "nothing to change is named: give --email, --admin, --vc, --group or --extension"
                    .to_owned(),
            ));
        }
        change.make(user.as_str(), api, console).await?;
        console.note(format!("{user} was changed"));
        Ok(CliStatus::Ok)
    }

    fn change(self) -> Result<UserChange, CliError> {
        let mut fields = Map::new();
        if let Some(email) = self.email {
            fields.insert("email".to_owned(), email.into());
        }
        if let Some(admin) = self.admin {
            fields.insert("admin".to_owned(), admin.into());
        }
        if let Some(NameList(vcs)) = self.vc {
            fields.insert("virtualCluster".to_owned(), vcs.into());
        }
        if let Some(file) = &self.extension {
            fields.insert("extension".to_owned(), extension(file)?.into());
        }
        let steps = self.group.map_or_else(Vec::new, steps);
        Ok(UserChange { fields, steps })
    }
}

fn steps(edit: NamesEdit) -> Vec<GroupsStep> {
    match edit {
        NamesEdit::Exactly(NameList(groups)) => vec![GroupsStep::Exactly(groups)],
        NamesEdit::By { add, remove } => {
            let join = add.0.into_iter().map(GroupsStep::Join);
            let leave = remove.0.into_iter().map(GroupsStep::Leave);
            join.chain(leave).collect()
        }
    }
}

fn extension(file: &Path) -> Result<Map<String, Value>, CliError> {
    let text = document_file::read(file, EXTENSION_BYTES_MAX as u64)?;
    serde_json::from_str(&text).map_err(|error| {
        let why = format!("{error}; it must be a JSON object, such as {{\"team\": \"vision\"}}");
        CliError::unusable(file, &[why])
    })
}
