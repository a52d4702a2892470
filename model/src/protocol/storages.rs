//! The storages that a job names, and where its tasks see them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::job::JobStorage;

use super::JobProblem;
use super::document::WrittenJob;
use super::plugins::{RUNTIME_PLUGIN, uses};

/// The plugin that upstream's server makes an entry of `extras.storages` of.
pub(super) const PLUGIN: &str = "teamwise_storage";
const NAMES: &str = "storageConfigNames";
const LIST: &str = ".extras.storages";
/// What an entry of the list may say.
pub(super) const KEYS: [&str; 4] = ["name", "mountPath", "subPath", "readOnly"];
/// Most storages of a job.
pub const JOB_STORAGES_MAX: usize = 32;
/// Most bytes of a path.
const PATH_BYTES_MAX: usize = 1_024;
/// Where no storage can be mounted, nor below nor above: the kernel's own, the runtime's, and the files of names.
const KEPT: [&str; 7] = [
    "/proc",
    "/sys",
    "/dev",
    "/usr/local/muster",
    "/usr/local/pai",
    "/etc/hosts",
    "/etc/resolv.conf",
];

/// What a job wants mounted, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedStorage {
    /// Where the job names it.
    pub path: String,
    /// Its name; none where there should be one.
    pub name: Option<String>,
    /// How the tasks see it.
    written: Written,
}

/// What an entry says beside the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Written {
    mount_path: Value,
    sub_path: Value,
    read_only: Value,
}

impl NamedStorage {
    /// That there is no such storage for this user.
    pub fn missing(&self) -> JobProblem {
        let name = self.name.as_deref().unwrap_or("without a name");
        JobProblem::at(&*self.path, format!("Storage {name} is not found."))
    }

    /// That it is of a kind that cannot be mounted.
    pub fn unmounted(&self, kind: &str) -> JobProblem {
        let name = self.name.as_deref().unwrap_or_default();
        let message = format!(
            "Storage {name} is of the type {kind}, which Muster does not mount. Leave it out, and have the commands fetch \
             data and store results."
        );
        JobProblem::at(&*self.path, message)
    }

    /// As the tasks have it. One without a name is judged by [`NamedStorage::missing`].
    fn read(&self) -> Result<Option<JobStorage>, JobProblem> {
        let Some(name) = self.name.clone() else {
            return Ok(None);
        };
        let wrong = |field: &str, message: &str| {
            Err(JobProblem::at(format!("{}.{field}", self.path), message))
        };
        let usual = JobStorage::usual(name);
        let mount_path = match &self.written.mount_path {
            Value::Null => usual.mount_path,
            Value::String(path) => path.trim_end_matches('/').to_owned(),
            _ => return wrong("mountPath", "should be string"),
        };
        if let Some(problem) = mount_path_problem(&mount_path) {
            return wrong("mountPath", &problem);
        }
        let sub_path = match &self.written.sub_path {
            Value::Null => "",
            Value::String(path) => path.trim_matches('/'),
            _ => return wrong("subPath", "should be string"),
        };
        if sub_path.len() > PATH_BYTES_MAX || !sub_path.is_empty() && !is_plain(sub_path) {
            return wrong(
                "subPath",
                "should be a relative path of at most 1024 bytes, without empty parts, . and ..",
            );
        }
        let read_only = match &self.written.read_only {
            Value::Null => false,
            Value::Bool(read_only) => *read_only,
            _ => return wrong("readOnly", "should be boolean"),
        };
        Ok(Some(JobStorage {
            mount_path,
            sub_path: sub_path.to_owned(),
            read_only,
            ..usual
        }))
    }
}

/// Why nothing can be mounted there; `None` if it can.
fn mount_path_problem(path: &str) -> Option<String> {
    let relative = path.strip_prefix('/').unwrap_or_default();
    if path.len() > PATH_BYTES_MAX || !is_plain(relative) {
        let rule = "should be an absolute path of at most 1024 bytes, not /, without empty parts, . and ..";
        return Some(rule.to_owned());
    }
    let path = Path::new(path);
    let is_met = |kept: &&&str| path.starts_with(kept) || Path::new(kept).starts_with(path);
    let kept = KEPT.iter().find(is_met)?;
    Some(format!("should not be in or around {kept}"))
}

/// Whether each part of a relative path is a name.
fn is_plain(path: &str) -> bool {
    let is_name = |part: &str| {
        !matches!(part, "" | "." | "..") && !part.chars().any(char::is_control) && part.len() <= 255
    };
    path.split('/').all(is_name)
}

/// The storages of all tasks, in the order that the job names them.
pub(super) fn job_storages(document: &WrittenJob) -> Result<Vec<JobStorage>, Vec<JobProblem>> {
    let mut storages: Vec<JobStorage> = Vec::new();
    let mut problems = Vec::new();
    for named in named(document) {
        match named.read() {
            Ok(None) => {}
            // A plugin may name what the list names too.
            Ok(Some(storage)) if storages.contains(&storage) => {}
            Ok(Some(storage)) => match beside(&storages, &storage) {
                None => storages.push(storage),
                Some(message) => {
                    problems.push(JobProblem::at(format!("{}.mountPath", named.path), message));
                }
            },
            Err(problem) => problems.push(problem),
        }
    }
    if storages.len() > JOB_STORAGES_MAX {
        let message = format!("should NOT have more than {JOB_STORAGES_MAX} items");
        problems.push(JobProblem::at(LIST, message));
    }
    match problems.is_empty() {
        true => Ok(storages),
        false => Err(problems),
    }
}

/// Why a storage cannot be mounted beside the others; `None` if it can.
pub fn beside(others: &[JobStorage], storage: &JobStorage) -> Option<String> {
    let path = Path::new(&storage.mount_path);
    others.iter().find_map(|other| {
        let theirs = Path::new(&other.mount_path);
        let name = &other.name;
        if path == theirs {
            return Some(format!(
                "should be another path: storage {name} is mounted there"
            ));
        }
        let is_inside = path.starts_with(theirs) || theirs.starts_with(path);
        is_inside.then(|| {
            let theirs = theirs.display();
            format!("should not be inside of another storage's, or around it: {name} has {theirs}")
        })
    })
}

/// Whether the job leaves it to the cluster which storages it has: upstream mounts the user's default ones then.
pub(super) fn wants_defaults(document: &WrittenJob) -> bool {
    matches!(&document.extras.storages, Value::Array(items) if items.is_empty())
}

/// Every storage that the job names.
pub(super) fn named(document: &WrittenJob) -> Vec<NamedStorage> {
    let mut found = Vec::new();
    for (path, storage) in each(LIST, &document.extras.storages) {
        found.push(of_entry(path, storage));
    }
    for (index, plugin) in document.extras.plugins.iter().enumerate() {
        if plugin.plugin == PLUGIN {
            let path = format!(".extras.{RUNTIME_PLUGIN}[{index}].parameters");
            found.extend(of_plugin(&path, &plugin.parameters));
        }
    }
    found.extend(of_prerequisites(document));
    found
}

/// Plugins that come as prerequisites, each once, however many roles use it.
fn of_prerequisites(document: &WrittenJob) -> Vec<NamedStorage> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, role) in &document.task_roles {
        for used in uses(document, name, role) {
            let is_new = used.path.starts_with(".prerequisites") && seen.insert(used.path.clone());
            if used.plugin == PLUGIN && is_new {
                found.extend(of_plugin(&used.path, used.parameters));
            }
        }
    }
    found
}

fn of_plugin(path: &str, parameters: &Value) -> Vec<NamedStorage> {
    let names = parameters.get(NAMES).unwrap_or(&Value::Null);
    each(&format!("{path}.{NAMES}"), names)
        .map(|(path, name)| of(path, name))
        .collect()
}

/// The items of a list; what is no list counts as one item.
fn each<'v>(path: &str, value: &'v Value) -> impl Iterator<Item = (String, &'v Value)> {
    let (items, is_list) = match value {
        Value::Null => (&[][..], true),
        Value::Array(items) => (items.as_slice(), true),
        other => (std::slice::from_ref(other), false),
    };
    let items = items.iter().enumerate();
    items.map(move |(index, item)| match is_list {
        true => (format!("{path}[{index}]"), item),
        false => (path.to_owned(), item),
    })
}

fn of_entry(path: String, entry: &Value) -> NamedStorage {
    let field = |name: &str| entry.get(name).cloned().unwrap_or_default();
    NamedStorage {
        written: Written {
            mount_path: field("mountPath"),
            sub_path: field("subPath"),
            read_only: field("readOnly"),
        },
        ..of(path, entry.get("name").unwrap_or(entry))
    }
}

fn of(path: String, name: &Value) -> NamedStorage {
    NamedStorage {
        path,
        name: name.as_str().map(str::to_owned),
        written: Written::default(),
    }
}
