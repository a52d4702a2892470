//! The storages that a job names. None is mounted yet.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::remark::Remark;

use super::JobProblem;
use super::document::WrittenJob;
use super::plugins::{RUNTIME_PLUGIN, uses};

const PLUGIN: &str = "teamwise_storage";
const NAMES: &str = "storageConfigNames";

/// What a job wants mounted, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedStorage {
    /// Where the job names it.
    pub path: String,
    /// Its name; none where there should be one.
    pub name: Option<String>,
}

impl NamedStorage {
    /// That there is no such storage for this user.
    pub fn missing(&self) -> JobProblem {
        let name = self.name.as_deref().unwrap_or("without a name");
        JobProblem::at(&*self.path, format!("Storage {name} is not found."))
    }

    /// That it is not mounted.
    pub(super) fn warning(&self) -> Remark {
        let name = self.name.as_deref().unwrap_or_default();
        Remark::at(
            &*self.path,
            format!(
                "Storage {name} is not mounted yet: its files are missing in the tasks, and what they write \
                 under its mount path is lost with the container. Have the commands fetch data and store \
                 results."
            ),
        )
    }
}

/// That default storages are not mounted, which upstream mounts where the list is empty.
pub(super) fn of_empty_list(document: &WrittenJob, defaults: &[String]) -> Option<Remark> {
    let is_empty = matches!(&document.extras.storages, Value::Array(items) if items.is_empty());
    (is_empty && !defaults.is_empty()).then(|| {
        let names = defaults.join(", ");
        Remark::at(
            ".extras.storages",
            format!("An empty list stands for your default storages ({names}), which are not mounted yet."),
        )
    })
}

/// Every storage that the job names.
pub(super) fn named(document: &WrittenJob) -> Vec<NamedStorage> {
    let mut found = Vec::new();
    for (path, storage) in each(".extras.storages", &document.extras.storages) {
        found.push(of(path, storage.get("name").unwrap_or(storage)));
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

fn of(path: String, name: &Value) -> NamedStorage {
    let name = name.as_str().map(str::to_owned);
    NamedStorage { path, name }
}
