//! `muster group add` and `muster group set`.

use clap::Args;
use muster_model::id::GroupName;
use serde_json::{Map, Value, json};

use crate::api::{Api, GroupEntry};
use crate::console::Console;
use crate::error::CliError;
use crate::name_list::{NameList, NamesEdit, storages, storages_edit, vcs, vcs_edit};
use crate::status::CliStatus;

pub(super) const ADD_EXAMPLES: &str = "\
A user may do what any of their groups allows. Each virtual cluster comes with a group of its name.

Examples:
  muster group add research --vc vision,speech --description 'Research, both floors'
  muster group add operators --admin
  muster user set ada --group +research";

pub(super) const SET_EXAMPLES: &str = "\
What is not named stays. A list that is given whole (A,B) replaces the one before; one with signs
(+A,-B) changes it.

Examples:
  muster group set research --vc +robots,-speech
  muster group set research --storage datasets,scratch
  muster group set operators --admin false";

/// How often a change is made again on a group that somebody else changed meanwhile.
const TRIES_MAX: u32 = 3;

/// Arguments of `add`.
#[derive(Debug, Args)]
pub struct AddGroupArguments {
    /// The group's name: letters, digits, '_', '.' and '-'.
    name: GroupName,
    /// What the group is for.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    description: String,
    /// The group's name in a directory of people elsewhere.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    external_name: String,
    /// Its members are admins.
    #[arg(long)]
    admin: bool,
    /// Virtual clusters that its members may use.
    #[arg(long, value_name = "VC,...", value_parser = vcs, default_value = "", hide_default_value = true)]
    vc: NameList,
    /// Storages that its members may use; the first one is the default.
    #[arg(long, value_name = "STORAGE,...", value_parser = storages, default_value = "", hide_default_value = true)]
    storage: NameList,
}

impl AddGroupArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let name = self.name.as_str();
        let group = json!({
            "groupname": name,
            "description": self.description,
            "externalName": self.external_name,
            "extension": { "acls": {
                "admin": self.admin,
                "virtualClusters": self.vc.0,
                "storageConfigs": self.storage.0,
            } },
        });
        api.add_group(name, &group).await?;
        console.note(format!(
            "{name} was added; make a user a member: muster user set USER --group +{name}"
        ));
        Ok(CliStatus::Ok)
    }
}

/// Arguments of `set`.
#[derive(Debug, Args)]
pub struct SetGroupArguments {
    /// The group.
    name: GroupName,
    /// What the group is for.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The group's name in a directory of people elsewhere; '' for none.
    #[arg(long, value_name = "NAME")]
    external_name: Option<String>,
    /// Whether its members are admins.
    #[arg(long, value_name = "true|false")]
    admin: Option<bool>,
    /// The virtual clusters that its members may use, or +VC,-VC to change some.
    #[arg(long, value_name = "VC,...", value_parser = vcs_edit, allow_hyphen_values = true)]
    vc: Option<NamesEdit>,
    /// The storages that its members may use, or +STORAGE,-STORAGE to change some.
    #[arg(long, value_name = "STORAGE,...", value_parser = storages_edit, allow_hyphen_values = true)]
    storage: Option<NamesEdit>,
}

impl SetGroupArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let name = self.name.as_str();
        let fields = self.texts();
        if self.changes_acls() {
            self.change_acls(fields, api).await?;
        } else if fields.is_empty() {
            return Err(CliError::Usage(
                "nothing to change is named: give --description, --external-name, --admin, --vc or --storage"
                    .to_owned(),
            ));
        } else {
            api.change_group(name, fields, None).await?;
        }
        console.note(format!("{name} was changed"));
        Ok(CliStatus::Ok)
    }

    const fn changes_acls(&self) -> bool {
        self.admin.is_some() || self.vc.is_some() || self.storage.is_some()
    }

    fn texts(&self) -> Map<String, Value> {
        let texts = [
            ("description", &self.description),
            ("externalName", &self.external_name),
        ];
        let given = texts.into_iter().filter_map(|(key, text)| {
            let text = text.as_deref()?;
            Some((key.to_owned(), text.into()))
        });
        given.collect()
    }

    /// The rights of a group are part of what clients keep with it, which is replaced as one: it is read,
    /// changed and written back, again where somebody else changed it in between.
    async fn change_acls(&self, fields: Map<String, Value>, api: &Api) -> Result<(), CliError> {
        let name = self.name.as_str();
        let mut tries = 1;
        loop {
            let (group, revision) = api.group(name).await?;
            let mut fields = fields.clone();
            fields.insert("extension".to_owned(), self.extension(&group).into());
            match api.change_group(name, fields, revision.as_deref()).await {
                Err(error) if error.is_changed() && tries < TRIES_MAX => tries += 1,
                result => return result,
            }
        }
    }

    fn extension(&self, group: &GroupEntry) -> Map<String, Value> {
        let mut extension = group.extension.clone();
        let acls = extension.get("acls").and_then(Value::as_object).cloned();
        let mut acls = acls.unwrap_or_default();
        if let Some(admin) = self.admin {
            acls.insert("admin".to_owned(), admin.into());
        }
        let lists = [
            ("virtualClusters", &self.vc),
            ("storageConfigs", &self.storage),
        ];
        for (key, edit) in lists {
            if let Some(edit) = edit {
                let names = edit.applied(&group.allows(key));
                acls.insert(key.to_owned(), names.into());
            }
        }
        extension.insert("acls".to_owned(), acls.into());
        extension
    }
}
