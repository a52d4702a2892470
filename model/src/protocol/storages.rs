//! The storages that a job names, none of which is mounted.

use serde_json::Value;

use super::JobProblem;
use super::document::WrittenJob;
use super::plugins::{RUNTIME_PLUGIN, uses};

const PLUGIN: &str = "teamwise_storage";
const NAMES: &str = "storageConfigNames";

/// A problem for each storage that the job wants mounted.
pub(super) fn missing(document: &WrittenJob) -> Vec<JobProblem> {
    let mut problems = Vec::new();
    for (path, storage) in each(".extras.storages", &document.extras.storages) {
        let name = storage.get("name").unwrap_or(storage);
        problems.push(problem(&path, name));
    }
    for (index, plugin) in document.extras.plugins.iter().enumerate() {
        if plugin.plugin == PLUGIN {
            let path = format!(".extras.{RUNTIME_PLUGIN}[{index}].parameters");
            problems.extend(of_plugin(&path, &plugin.parameters));
        }
    }
    problems.extend(of_prerequisites(document));
    problems
}

/// Plugins that come as prerequisites, each once, however many roles use it.
fn of_prerequisites(document: &WrittenJob) -> Vec<JobProblem> {
    let mut problems = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for (name, role) in &document.task_roles {
        for used in uses(document, name, role) {
            let is_new = used.path.starts_with(".prerequisites") && seen.insert(used.path.clone());
            if used.plugin == PLUGIN && is_new {
                problems.extend(of_plugin(&used.path, used.parameters));
            }
        }
    }
    problems
}

fn of_plugin(path: &str, parameters: &Value) -> Vec<JobProblem> {
    let names = parameters.get(NAMES).unwrap_or(&Value::Null);
    each(&format!("{path}.{NAMES}"), names)
        .map(|(path, name)| problem(&path, name))
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

fn problem(path: &str, name: &Value) -> JobProblem {
    let name = name.as_str().unwrap_or("without a name");
    JobProblem::at(
        path,
        format!(
            "Storage {name} is not found. No storage is mounted here: what the job reads there would be \
             missing, and what it writes there would be lost. Remove it, and let the commands fetch data \
             and store results."
        ),
    )
}
