//! `muster storage add` and `remove`: edits of the declaration that leave all else as it is.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use muster_model::secret::Hidden;
use muster_model::storage::STORAGES_DOCUMENT;
use serde_json::Value;

use super::STORAGES;
use super::declaration::{added, removed};
use crate::api::Api;
use crate::console::Console;
use crate::error::CliError;
use crate::output::OutputOption;
use crate::password;
use crate::status::CliStatus;
use crate::terminal;

pub(super) const ADD: &str = "\
Other storages and the comments stay as they are. A password is asked for, or read from stdin; it is sealed before it is
kept. Grant the storage then: muster group set GROUP --storage NAME.

Examples:
  muster storage add data --type nfs --server nfs1 --path /export/data --option nfsvers=4.2
  muster storage add home --type samba --address //files/home --username muster --own
  muster storage add scratch --type host-path --path /srv/scratch --read-only
  muster storage add home --type samba --address //files/home --username muster --password-stdin < password";

pub(super) const REMOVE: &str = "\
Tasks that run keep what they have; jobs that name it start no more tasks. It is refused while a group grants the storage:
take it from the group first (muster group set), or give --force, which leaves its name in the group.

Examples:
  muster storage remove data
  muster storage remove data --force";

/// Kinds of storages that can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AddedKind {
    /// An export of an NFS server.
    Nfs,
    /// A share of Samba or Windows.
    Samba,
    /// A directory that the machines have.
    HostPath,
}

#[derive(Debug, Args)]
pub struct AddArguments {
    /// How jobs and groups name it.
    name: String,
    /// What it is.
    #[arg(long = "type", value_name = "TYPE")]
    kind: AddedKind,
    /// The NFS server.
    #[arg(long, required_if_eq("kind", "nfs"))]
    server: Option<String>,
    /// The export of the server, or the directory of the machines.
    #[arg(long, required_if_eq_any([("kind", "nfs"), ("kind", "host-path")]))]
    path: Option<String>,
    /// The share, as //SERVER/SHARE.
    #[arg(long, required_if_eq("kind", "samba"))]
    address: Option<String>,
    /// The user of the share; none: as guest.
    #[arg(long)]
    username: Option<String>,
    /// Read the user's password from stdin, which has nothing else. Without this it is asked for.
    #[arg(long, requires = "username")]
    password_stdin: bool,
    /// It may only be read.
    #[arg(long)]
    read_only: bool,
    /// Each user has a directory of their own.
    #[arg(long)]
    own: bool,
    /// An option of mount(8); may be given several times.
    #[arg(long = "option", value_name = "OPTION")]
    options: Vec<String>,
    #[command(flatten)]
    output: OutputOption,
}

impl AddArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let password = match (&self.username, self.password_stdin) {
            (None, _) => None,
            (Some(_), true) => Some(password::read_stdin()?),
            (Some(user), false) if console.interactive => Some(terminal::ask(&format!(
                "Password of {user} for {}",
                self.name
            ))?),
            (Some(_), false) => {
                return Err(CliError::Usage(
                    "stdin is not a terminal, so the password cannot be asked for: give --password-stdin"
                        .to_owned(),
                ));
            }
        };
        let shown = api.text(STORAGES_DOCUMENT, None).await?;
        let text = added(&shown.text, &self.name, &self.entry(password.as_ref()));
        let text = text.map_err(CliError::Usage)?;
        let version = STORAGES.edit(api, shown.version, (text, true)).await?;
        STORAGES.made(version, self.output, console)
    }

    /// The declaration in one line.
    fn entry(&self, password: Option<&Hidden<String>>) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let kind = match self.kind {
            AddedKind::Nfs => "nfs",
            AddedKind::Samba => "samba",
            AddedKind::HostPath => "hostPath",
        };
        let data: BTreeMap<&str, &str> = [
            ("server", self.server.as_deref()),
            ("path", self.path.as_deref()),
            ("address", self.address.as_deref()),
            ("username", self.username.as_deref()),
            ("password", password.map(|password| password.0.as_str())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
        let data = data
            .iter()
            .map(|(name, value)| format!("{name}: {}", quoted(value)));
        let data = data.collect::<Vec<_>>().join(", ");
        let mut entry = format!(
            "name: {}, type: {kind}, data: {{{data}}}",
            quoted(&self.name)
        );
        if !self.options.is_empty() {
            let options = self.options.iter().map(|option| quoted(option));
            let options = options.collect::<Vec<_>>().join(", ");
            entry.push_str(&format!(", mountOptions: [{options}]"));
        }
        if self.own {
            entry.push_str(", share: false");
        }
        if self.read_only {
            entry.push_str(", readOnly: true");
        }
        format!("{{{entry}}}")
    }
}

#[derive(Debug, Args)]
pub struct RemoveArguments {
    /// The storage.
    name: String,
    /// Remove it though groups grant it.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    output: OutputOption,
}

impl RemoveArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let shown = api.text(STORAGES_DOCUMENT, None).await?;
        let text = removed(&shown.text, &self.name).map_err(CliError::Usage)?;
        let groups = granting(api, &self.name).await?;
        if !groups.is_empty() {
            let names = groups.join(", ");
            if !self.force {
                return Err(CliError::Usage(format!(
                    "storage {} is granted by {names}: take it from there first with `muster group set`, or give --force",
                    self.name
                )));
            }
            console.note(format!(
                "{names} still names it, which grants nothing any more"
            ));
        }
        let version = STORAGES.edit(api, shown.version, (text, true)).await?;
        STORAGES.made(version, self.output, console)
    }
}

/// The groups that grant a storage.
async fn granting(api: &Api, name: &str) -> Result<Vec<String>, CliError> {
    let groups = api.groups().await?;
    let grants = |extension: &serde_json::Map<String, Value>| {
        let acls = extension.get("acls");
        let names = acls
            .and_then(|acls| acls.get("storageConfigs"))
            .and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|one| one == name))
    };
    let granting = groups.into_iter().filter(|group| grants(&group.extension));
    Ok(granting.map(|group| group.groupname).collect())
}
