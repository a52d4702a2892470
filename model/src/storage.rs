//! The storages of a cluster: one of its documents declares them, in the terms of OpenPAI's `StorageDetail`.

mod sealed;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cluster_spec::SpecProblem;
use crate::document_text::{self, TextLimits};
use crate::protocol::read_yaml;

pub use sealed::{SEALED_PREFIX, seal_credentials};

/// The name of the document. It may hold passwords: only admins read it.
pub const STORAGES_DOCUMENT: &str = "storages";
/// Most bytes of the document that are read.
pub const STORAGES_BYTES_MAX: usize = 256 << 10;
/// Most storages of a cluster.
pub const STORAGES_MAX: usize = 1_000;
/// Most bytes of a name. Groups name storages, and take no longer ones.
const NAME_BYTES_MAX: usize = 255;
/// Most bytes of any other text.
const TEXT_BYTES_MAX: usize = 4_096;
/// Most mount options of a storage, and most entries of its data.
const ENTRIES_MAX: usize = 64;
/// Entries of `data` that are for admins alone.
const SECRETS: [&str; 3] = ["password", "accountKey", "accountSASToken"];

/// The storages of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterStorages {
    /// In the order that listings show them.
    pub storages: Vec<Storage>,
}

/// One storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Storage {
    /// Names it in jobs and groups.
    pub name: String,
    /// Whether all users see the same files; if not, each has a directory of their own.
    #[serde(default = "yes")]
    pub share: bool,
    /// Upstream's volume, any word; the name if absent.
    #[serde(default)]
    pub volume_name: String,
    /// What kind of storage it is.
    #[serde(rename = "type")]
    pub kind: StorageKind,
    /// Where it is, by entries that depend on the kind.
    #[serde(default)]
    pub data: BTreeMap<String, String>,
    /// Whether jobs may only read.
    #[serde(default)]
    pub read_only: bool,
    /// Upstream's secret with the login, any word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// How it is mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mount_options: Vec<String>,
    /// Seconds that its server may be silent before the tasks that use it fail; 0: they wait for it.
    #[serde(default = "fail_after", skip_serializing_if = "is_usual")]
    pub fail_after_seconds: u32,
}

const fn yes() -> bool {
    true
}

/// How long a server may be silent if the declaration does not say, in seconds. A server that is started anew is back
/// by then.
pub const FAIL_AFTER_SECONDS: u32 = 600;

const fn fail_after() -> u32 {
    FAIL_AFTER_SECONDS
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_usual(seconds: &u32) -> bool {
    *seconds == FAIL_AFTER_SECONDS
}

/// A storage, and what a user has of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StorageGrant {
    /// The storage, without secrets unless the user is an admin.
    #[serde(flatten)]
    pub storage: Storage,
    /// Whether a group of the user's grants it. Admins are shown the others too.
    pub granted: bool,
    /// Whether it is a group's first one, which jobs get that do not say which they want.
    pub default: bool,
}

/// Kinds of storages, by upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StorageKind {
    /// A server's exported directory.
    Nfs,
    /// A share of Windows or Samba.
    Samba,
    /// A share of Azure Files.
    AzureFile,
    /// A container of Azure Blob Storage.
    AzureBlob,
    /// Upstream's cache in front of others.
    Dshuttle,
    /// A directory that is on all machines alike.
    HostPath,
    /// Anything else.
    Other,
}

impl StorageKind {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nfs => "nfs",
            Self::Samba => "samba",
            Self::AzureFile => "azureFile",
            Self::AzureBlob => "azureBlob",
            Self::Dshuttle => "dshuttle",
            Self::HostPath => "hostPath",
            Self::Other => "other",
        }
    }

    /// The entries of `data` that there must be, and those that there may be; none: any.
    const fn entries(self) -> Option<(&'static [&'static str], &'static [&'static str])> {
        match self {
            Self::Nfs => Some((&["server", "path"], &[])),
            Self::Samba => Some((&["address"], &["username", "password"])),
            Self::AzureFile => Some((&["shareName"], &["accountName", "accountKey"])),
            Self::AzureBlob => Some((
                &["containerName"],
                &["accountName", "accountKey", "accountSASToken"],
            )),
            Self::HostPath => Some((&["path"], &[])),
            Self::Dshuttle | Self::Other => None,
        }
    }

    /// Whether Muster mounts it.
    pub const fn is_mounted(self) -> bool {
        match self {
            Self::Nfs | Self::Samba | Self::AzureFile | Self::HostPath => true,
            Self::AzureBlob | Self::Dshuttle | Self::Other => false,
        }
    }
}

impl ClusterStorages {
    /// None, as a text that says how storages are declared: to be edited.
    pub const fn default_text() -> &'static str {
        include_str!("storages.yaml")
    }

    /// Reads the document.
    ///
    /// # Errors
    /// Everything that is wrong, each with the path of the field.
    pub fn read(text: &str) -> Result<Self, Vec<SpecProblem>> {
        let limits = TextLimits {
            bytes: STORAGES_BYTES_MAX,
            depth: 8,
            nodes: 64 * STORAGES_MAX,
        };
        let mut read: Self = document_text::read(text, limits).map_err(|problem| vec![problem])?;
        check_texts(text)?;
        for storage in &mut read.storages {
            if storage.volume_name.is_empty() {
                storage.volume_name = storage.name.clone();
            }
        }
        let problems = read.problems();
        match problems.is_empty() {
            true => Ok(read),
            false => Err(problems),
        }
    }

    /// The storage of this name.
    pub fn find(&self, name: &str) -> Option<&Storage> {
        self.storages.iter().find(|storage| storage.name == name)
    }

    fn problems(&self) -> Vec<SpecProblem> {
        let mut problems = Vec::new();
        if self.storages.len() > STORAGES_MAX {
            let message = format!("has {}; at most {STORAGES_MAX}", self.storages.len());
            problems.push(SpecProblem::new("storages", message));
        }
        let mut seen = BTreeSet::new();
        for (index, storage) in self.storages.iter().enumerate() {
            let mut wrong = |field: &str, message: String| {
                let path = format!("storages[{index}].{field}");
                problems.push(SpecProblem::new(path, message));
            };
            storage.check(&mut wrong);
            if !seen.insert(&storage.name) {
                let message = format!("is used twice: {}; each storage has its own", storage.name);
                wrong("name", message);
            }
        }
        problems
    }
}

impl Storage {
    /// The same without what only admins may see. What a kind that is not known here keeps in its data
    /// may be a secret.
    pub fn without_secrets(&self) -> Self {
        let mut storage = self.clone();
        match self.kind.entries() {
            Some(_) => storage.data.retain(|key, _| !SECRETS.contains(&&**key)),
            None => storage.data.clear(),
        }
        storage
    }

    /// Whether it can be mounted with what is declared of it.
    pub fn is_mounted(&self) -> bool {
        let has_account = || self.data.contains_key("accountName");
        self.kind.is_mounted() && (self.kind != StorageKind::AzureFile || has_account())
    }

    /// Where it is, in a few words and without secrets.
    pub fn place(&self) -> String {
        let entry = |name: &str| self.data.get(name).map_or("", String::as_str);
        match self.kind {
            StorageKind::Nfs => format!("{}:{}", entry("server"), entry("path")),
            StorageKind::Samba => entry("address").to_owned(),
            StorageKind::AzureFile => entry("shareName").to_owned(),
            StorageKind::AzureBlob => entry("containerName").to_owned(),
            StorageKind::HostPath => entry("path").to_owned(),
            StorageKind::Dshuttle | StorageKind::Other => String::new(),
        }
    }

    fn check(&self, wrong: &mut impl FnMut(&str, String)) {
        if !is_name(&self.name) {
            wrong("name", format!("{NAME_RULE}, not {:?}", self.name));
        }
        if !is_name(&self.volume_name) {
            wrong(
                "volumeName",
                format!("{NAME_RULE}, not {:?}", self.volume_name),
            );
        }
        if self.secret_name.as_ref().is_some_and(|name| !is_name(name)) {
            wrong("secretName", NAME_RULE.to_owned());
        }
        if self.mount_options.len() > ENTRIES_MAX
            || !self.mount_options.iter().all(|it| is_text(it))
        {
            let rule = format!(
                "must be at most {ENTRIES_MAX} texts, none of them empty, without line breaks"
            );
            wrong("mountOptions", rule);
        }
        if self.kind == StorageKind::HostPath && !self.mount_options.is_empty() {
            let rule = "have no effect for the type hostPath: the machine has mounted it already";
            wrong("mountOptions", rule.to_owned());
        }
        if self.kind == StorageKind::HostPath && self.fail_after_seconds != FAIL_AFTER_SECONDS {
            let rule = "has no effect for the type hostPath: no server is asked";
            wrong("failAfterSeconds", rule.to_owned());
        }
        for (index, problem) in self.bad_options() {
            wrong(&format!("mountOptions[{index}]"), problem.to_owned());
        }
        self.check_data(wrong);
    }

    /// Options that cannot be used, by their place in the list. An item may hold several, as for `mount -o`.
    fn bad_options(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let items = self.mount_options.iter().enumerate();
        items.filter_map(|(index, item)| {
            let problem = item.split(',').find_map(|option| {
                let (name, value) = option.split_once('=').unwrap_or((option, ""));
                match name.trim() {
                    "password" | "pass" => Some("all can read it: write the password to data.password"),
                    "sec" if value.starts_with("krb5") => Some(
                        "Kerberos is not supported: a task has no ticket of its user. Use sec=sys, and restrict the export \
                         to the machines of the cluster",
                    ),
                    _ => None,
                }
            });
            Some((index, problem?))
        })
    }

    fn check_data(&self, wrong: &mut impl FnMut(&str, String)) {
        if self.data.len() > ENTRIES_MAX {
            wrong("data", format!("must have at most {ENTRIES_MAX} entries"));
        }
        for (name, value) in &self.data {
            if !is_text(value) {
                let rule = format!(
                    "must be 1 to {TEXT_BYTES_MAX} bytes without line breaks and other control characters"
                );
                wrong(&format!("data.{name}"), rule);
            }
        }
        let kind = self.kind.as_str();
        if let Some((needed, allowed)) = self.kind.entries() {
            for name in needed.iter().filter(|name| !self.data.contains_key(**name)) {
                wrong(
                    &format!("data.{name}"),
                    format!("is required for the type {kind}"),
                );
            }
            let known = |name: &str| needed.contains(&name) || allowed.contains(&name);
            for name in self.data.keys().filter(|name| !known(name)) {
                let names = [needed, allowed].concat().join(", ");
                wrong(
                    &format!("data.{name}"),
                    format!("is not known for the type {kind}; there are {names}"),
                );
            }
        }
        let has_path = matches!(self.kind, StorageKind::Nfs | StorageKind::HostPath);
        let path = self.data.get("path").filter(|_| has_path);
        if path.is_some_and(|path| !path.starts_with('/')) {
            wrong("data.path", "must begin with a slash".to_owned());
        }
        if path.is_some_and(|path| path.split('/').any(|part| part == "..")) {
            wrong("data.path", "must not have .. in it".to_owned());
        }
        if self.kind == StorageKind::HostPath
            && path.is_some_and(|path| path.trim_matches('/').is_empty())
        {
            let rule = "must be a directory below /: tasks would have the whole machine";
            wrong("data.path", rule.to_owned());
        }
        let server = self.data.get("server").map_or("", String::as_str);
        if server.starts_with('-') || server.contains(['/', ' ']) {
            wrong(
                "data.server",
                "must be the name or address of a server".to_owned(),
            );
        }
        for name in ["username", "accountName"] {
            // It becomes one of the options of mount, which commas divide.
            if self.data.get(name).is_some_and(|text| text.contains(',')) {
                wrong(
                    &format!("data.{name}"),
                    "must not have a comma in it".to_owned(),
                );
            }
        }
        let address = self
            .data
            .get("address")
            .filter(|_| self.kind == StorageKind::Samba);
        if address.is_some_and(|it| !it.strip_prefix("//").is_some_and(|it| it.contains('/'))) {
            wrong("data.address", "must be //SERVER/SHARE".to_owned());
        }
    }
}

/// What is no text to YAML would read as one here, and would not be found to be a credential that is to be sealed, or be
/// written otherwise: 0123 as 83.
fn check_texts(text: &str) -> Result<(), Vec<SpecProblem>> {
    let document =
        read_yaml(text).map_err(|problem| vec![SpecProblem::new("", problem.message)])?;
    let storages = document.get("storages").and_then(Value::as_array);
    let mut problems = Vec::new();
    for (index, storage) in storages.into_iter().flatten().enumerate() {
        let name = storage.get("name").map(|name| ("name".to_owned(), name));
        let data = storage.get("data").and_then(Value::as_object);
        let data = data.into_iter().flatten();
        let data = data.map(|(key, value)| (format!("data.{key}"), value));
        for (field, _) in data.chain(name).filter(|(_, value)| !value.is_string()) {
            let path = format!("storages[{index}].{field}");
            problems.push(SpecProblem::new(
                path,
                "is no text to YAML; write it in quotes",
            ));
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems),
    }
}

const NAME_RULE: &str = "must be 1 to 255 letters, digits, dots, hyphens and underscores, the first one a letter or digit";

fn is_name(text: &str) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_alphanumeric();
    let is_one = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.len() <= NAME_BYTES_MAX
        && text.as_bytes().first().is_some_and(is_first)
        && text.bytes().all(is_one)
}

fn is_text(text: &str) -> bool {
    (1..=TEXT_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entry: &str) -> Result<Storage, String> {
        let read = ClusterStorages::read(&format!("storages: [{entry}]"));
        let lines = |problems: Vec<SpecProblem>| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            lines.join("\n")
        };
        read.map(|mut read| read.storages.remove(0)).map_err(lines)
    }

    #[test]
    fn the_text_that_is_edited_first_declares_none_and_shows_how() {
        let text = ClusterStorages::default_text();
        assert_eq!(
            ClusterStorages::read(text).unwrap(),
            ClusterStorages::default()
        );
        // Without its comment signs, the example is what it says.
        let example: String = text
            .lines()
            .filter_map(|line| line.strip_prefix("#  "))
            .map(|line| format!("  {line}\n"))
            .collect();
        let read = ClusterStorages::read(&format!("storages:\n{example}")).unwrap();
        assert_eq!(read.storages.len(), 2);
        assert_eq!(
            read.find("data").unwrap().place(),
            "nfs.example.org:/export/data"
        );
    }

    #[test]
    fn what_is_not_named_has_a_default() {
        let storage = read("{name: data, type: nfs, data: {server: s, path: /d}}").unwrap();
        assert_eq!(storage.volume_name, "data");
        assert!(storage.share && !storage.read_only && storage.mount_options.is_empty());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        for (entry, expect) in [
            (
                "{name: a, type: nfs, data: {server: s}}",
                "storages[0].data.path: is required for the type nfs",
            ),
            (
                "{name: a, type: nfs, data: {server: s, path: d}}",
                "storages[0].data.path: must begin",
            ),
            (
                "{name: a, type: nfs, data: {server: s, path: /d, port: '1'}}",
                "storages[0].data.port: is not known for the type nfs; there are server, path",
            ),
            (
                "{name: a, type: samba, data: {address: s}}",
                "storages[0].data.address: must be //SERVER/SHARE",
            ),
            (
                "{name: -a, type: other}",
                "storages[0].name: must be 1 to 255 letters",
            ),
            ("{name: a b, type: other}", "storages[0].name: "),
            ("{name: a, type: ceph}", "storages[0].type: "),
            ("{name: a, type: other, kind: x}", "storages[0]"),
            (
                "{name: a, type: other, mountOptions: ['']}",
                "storages[0].mountOptions: must be",
            ),
            (
                "{name: a, type: other, data: {x: \"a\\nb\"}}",
                "storages[0].data.x: must be",
            ),
            (
                "{name: a, type: other}, {name: a, type: other}",
                "storages[1].name: is used twice: a",
            ),
            ("{type: other}", "storages[0]"),
            (
                "{name: a, type: samba, data: {address: //s/d, password: 0123}}",
                "storages[0].data.password: is no text to YAML; write it in quotes",
            ),
            (
                "{name: 7, type: other}",
                "storages[0].name: is no text to YAML",
            ),
            (
                "{name: a, type: hostPath, data: {path: //}}",
                "storages[0].data.path: must be a directory below /",
            ),
            (
                "{name: a, type: hostPath, data: {path: /srv/../etc}}",
                "storages[0].data.path: must not have .. in it",
            ),
            (
                "{name: a, type: hostPath, data: {path: /srv}, mountOptions: [ro]}",
                "storages[0].mountOptions: have no effect for the type hostPath",
            ),
            (
                "{name: a, type: nfs, data: {server: -x, path: /d}}",
                "storages[0].data.server: must be the name or address",
            ),
            (
                "{name: a, type: nfs, data: {server: s, path: /d}, mountOptions: [hard, 'vers=4.2,sec=krb5p']}",
                "storages[0].mountOptions[1]: Kerberos is not supported",
            ),
            (
                "{name: a, type: samba, data: {address: //s/d, username: 'u,guest'}}",
                "storages[0].data.username: must not have a comma",
            ),
            (
                "{name: a, type: samba, data: {address: //s/d}, mountOptions: ['password=x']}",
                "storages[0].mountOptions[0]: all can read it",
            ),
            (
                "{name: a, type: nfs, data: {server: s, path: /d}, failAfterSeconds: -1}",
                "storages[0].failAfterSeconds",
            ),
        ] {
            let problems = read(entry).unwrap_err();
            assert!(problems.starts_with(expect), "{entry}: {problems}");
        }
        assert!(ClusterStorages::read("").is_err());
        let long = format!("storages: [] # {}", "x".repeat(STORAGES_BYTES_MAX));
        assert!(ClusterStorages::read(&long).is_err());
    }

    #[test]
    fn secrets_are_for_admins() {
        let samba = "{name: a, type: samba, data: {address: //s/d, username: u, password: p}}";
        let blob = "{name: a, type: azureBlob, data: {containerName: c, accountKey: k, accountSASToken: t}}";
        let other = "{name: a, type: other, data: {token: t}}";
        for (entry, left) in [
            (samba, "address,username"),
            (blob, "containerName"),
            (other, ""),
        ] {
            let shown = read(entry).unwrap().without_secrets();
            let names: Vec<_> = shown.data.keys().map(String::as_str).collect();
            assert_eq!(names.join(","), left);
        }
    }
}
