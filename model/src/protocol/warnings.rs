//! What a job says that is accepted and not carried out, or not as it reads.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::remark::Remark;

use super::document::{Deployment, WrittenJob, WrittenRole};
use super::nearest::nearest;
use super::plugins::{CMD, RUNTIME_PLUGIN, Use, uses};
use super::spec::{CPU_LEAST, MEMORY_MB_LEAST};
use super::ssh;
use super::storages;
use super::template::dropped;
use super::tools;

/// So many warnings are told of a job; where there are more, the last one counts the rest.
pub const WARNINGS_MAX: usize = 32;
/// So much of a name is repeated.
const NAME_CHARS_MAX: usize = 60;

/// All of them, up to [`WARNINGS_MAX`].
pub(super) fn warnings(document: &WrittenJob, source: &Value) -> Vec<Remark> {
    let mut found = Vec::new();
    of_keys(source, &mut found);
    of_plugins(document, &mut found);
    of_prerequisites(document, &mut found);
    of_deployments(document, &mut found);
    of_extras(document, source, &mut found);
    of_placement(document, &mut found);
    for (name, role) in &document.task_roles {
        of_role(document, name, role, &mut found);
    }
    let more = found.len().saturating_sub(WARNINGS_MAX);
    if more > 0 {
        found.truncate(WARNINGS_MAX - 1);
        let message = format!("There are {} more warnings.", more + 1);
        found.push(Remark::at("", message));
    }
    found
}

/// The keys that mean something where the shape admits others too.
const OPEN: [(&str, &[&str]); 9] = [
    (
        ".extras",
        &[
            "hivedScheduler",
            RUNTIME_PLUGIN,
            "gangAllocation",
            "storages",
            "jobStatusChangeNotification",
            "submitFrom",
            "muster",
        ],
    ),
    (".extras.storages[]", &storages::KEYS),
    (".defaults", &["virtualCluster", "deployment"]),
    (
        ".taskRoles.*.extraContainerOptions",
        &["shmMB", "infiniband"],
    ),
    (
        ".extras.hivedScheduler",
        &[
            "jobPriorityClass",
            "lazyPreemptionEnable",
            "gangReleaseEnable",
            "ignoreK8sSuggestedNodes",
            "taskRoles",
        ],
    ),
    (
        ".extras.hivedScheduler.taskRoles.*",
        &[
            "skuType",
            "pinnedCellId",
            "affinityGroupName",
            "skuNum",
            "skuNumber",
        ],
    ),
    (
        ".extras.com.microsoft.pai.runtimeplugin[]",
        &["plugin", "parameters", "taskroles", "failurePolicy"],
    ),
    (
        ".deployments[]",
        &[
            "protocolVersion",
            "name",
            "version",
            "contributor",
            "description",
            "taskRoles",
        ],
    ),
    (
        ".prerequisites[].auth",
        &["username", "password", "registryuri"],
    ),
];

/// Keys that nobody reads, at places where the shape admits any.
fn of_keys(source: &Value, found: &mut Vec<Remark>) {
    for (pattern, known) in OPEN {
        // The one key with dots in it is a single step.
        let steps = pattern.replace(RUNTIME_PLUGIN, "plugins");
        let steps: Vec<&str> = steps.split('.').skip(1).collect();
        walk(source, &steps, String::new(), &mut |path, value| {
            unknown_keys(path, value, known, found);
        });
    }
}

/// Visits what lies at a path, in which `*` is any key and `name[]` any item of a list.
fn walk(value: &Value, steps: &[&str], path: String, visit: &mut impl FnMut(&str, &Value)) {
    let Some((step, rest)) = steps.split_first() else {
        return visit(&path, value);
    };
    if *step == "*" {
        for (name, value) in value.as_object().into_iter().flatten() {
            walk(value, rest, format!("{path}.{name}"), visit);
        }
        return;
    }
    let name = step.trim_end_matches("[]");
    let name = if name == "plugins" {
        RUNTIME_PLUGIN
    } else {
        name
    };
    let Some(below) = value.get(name) else { return };
    let path = format!("{path}.{name}");
    if !step.ends_with("[]") {
        return walk(below, rest, path, visit);
    }
    for (index, item) in below.as_array().into_iter().flatten().enumerate() {
        walk(item, rest, format!("{path}[{index}]"), visit);
    }
}

fn unknown_keys(path: &str, value: &Value, known: &[&str], found: &mut Vec<Remark>) {
    let names = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name);
    for name in names.filter(|name| !known.contains(&name.as_str())) {
        let meant = match nearest(name, known.iter().copied()) {
            Some(meant) => format!("Did you mean {meant}?"),
            None => format!("Known here: {}.", known.join(", ")),
        };
        let path = format!("{path}.{}", short(name));
        found.push(Remark::at(path, format!("This key has no effect. {meant}")));
    }
}

fn short(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

/// Plugins that are not carried out, and what of `cmd` is not.
fn of_plugins(document: &WrittenJob, found: &mut Vec<Remark>) {
    let mut seen = BTreeSet::new();
    for (name, role) in &document.task_roles {
        for used in uses(document, name, role) {
            if !seen.insert(used.path.clone()) {
                continue;
            }
            let path = used.path.trim_end_matches(".parameters").to_owned();
            if used.plugin == storages::PLUGIN {
                // Its storages are mounted with those of the list.
            } else if used.plugin == ssh::PLUGIN {
                of_ssh(&used, document.is_gang(), found);
            } else if let Some(known) = keys(used.plugin) {
                if used.plugin == tools::TENSORBOARD && !tools::has_logs(&used) {
                    let message =
                        "No TensorBoard is started: it has no logdir, as {train: /mnt/logs/train}.";
                    found.push(Remark::at(&*path, message));
                }
                // A prerequisite has keys of its own beside the parameters.
                if !path.starts_with(".prerequisites") {
                    unknown_keys(&used.path, used.parameters, known, found);
                }
            } else {
                found.push(Remark::at(path, without_plugin(used.plugin)));
            }
        }
    }
    for (index, plugin) in document.extras.plugins.iter().enumerate() {
        for role in plugin.taskroles.iter().flatten() {
            if !document.has_role(role) {
                let path = format!(".extras.{RUNTIME_PLUGIN}[{index}].taskroles");
                found.push(Remark::at(path, no_role(document, role)));
            }
        }
    }
}

/// The parameters of a plugin that runs commands; none for another one.
fn keys(plugin: &str) -> Option<&'static [&'static str]> {
    match plugin {
        CMD => Some(&["preCommands", "postCommands", "callbacks"]),
        tools::GIT => Some(&tools::GIT_KEYS),
        tools::TENSORBOARD => Some(&tools::TENSORBOARD_KEYS),
        _ => None,
    }
}

fn no_role(document: &WrittenJob, role: &str) -> String {
    let known = document.task_roles.iter().map(|(name, _)| name.as_str());
    let meant = match nearest(role, known) {
        Some(meant) => format!(" Did you mean {meant}?"),
        None => String::new(),
    };
    format!(
        "There is no task role {}: this has no effect.{meant}",
        short(role)
    )
}

fn of_ssh(used: &Use, is_gang: bool, found: &mut Vec<Remark>) {
    // A prerequisite has keys of its own beside the parameters.
    if !used.path.starts_with(".prerequisites") {
        unknown_keys(&used.path, used.parameters, &ssh::KEYS, found);
        if let Some(user) = used.parameters.get("userssh") {
            unknown_keys(
                &format!("{}.userssh", used.path),
                user,
                &ssh::USER_KEYS,
                found,
            );
        }
    }
    found.extend(ssh::warnings(used, is_gang));
}

/// What does not happen for want of a plugin.
fn without_plugin(plugin: &str) -> String {
    format!(
        "There is no runtime plugin {}: it has no effect. Those that are carried out are {}.",
        short(plugin),
        [
            CMD,
            ssh::PLUGIN,
            tools::GIT,
            tools::TENSORBOARD,
            storages::PLUGIN
        ]
        .join(", ")
    )
}

/// Prerequisites that come as plugins and are not used as such.
fn of_prerequisites(document: &WrittenJob, found: &mut Vec<Remark>) {
    let roles = || document.task_roles.iter().map(|(_, role)| role);
    let listed: BTreeSet<&str> = roles()
        .flat_map(|role| role.prerequisites.iter().map(String::as_str))
        .collect();
    for (index, item) in document.prerequisites.iter().enumerate() {
        let path = format!(".prerequisites[{index}]");
        let plugin = item.text("plugin");
        let is_known = plugin.strip_prefix(RUNTIME_PLUGIN);
        let is_known = is_known.is_some_and(|name| name.starts_with('.'));
        if !plugin.is_empty() && !is_known {
            let message = format!(
                "There is no plugin {}: it has no effect. Runtime plugins are named {RUNTIME_PLUGIN}.NAME.",
                short(plugin)
            );
            found.push(Remark::at(format!("{path}.plugin"), message));
        } else if is_known && !listed.contains(item.name()) {
            let message = "No task role lists it in its prerequisites: this plugin has no effect.";
            found.push(Remark::at(&*path, message));
        }
        let required = item.0.get("require").and_then(Value::as_array);
        if required.is_some_and(|names| !names.is_empty()) {
            let message =
                "This has no effect: list what it requires in the task role's prerequisites.";
            found.push(Remark::at(format!("{path}.require"), message));
        }
    }
}

fn of_deployments(document: &WrittenJob, found: &mut Vec<Remark>) {
    if let (Some(first), None) = (document.deployments.first(), &document.defaults.deployment) {
        let message = format!(
            "No deployment is switched on, so their commands are not run. Name one in \
             defaults.deployment: {}.",
            short(&first.name)
        );
        found.push(Remark::at(".deployments", message));
    }
    let Some(Deployment { name, task_roles }) = document.deployment() else {
        return;
    };
    for role in task_roles.keys().filter(|role| !document.has_role(role)) {
        let mut deployments = document.deployments.iter();
        let index = deployments.position(|deployment| deployment.name == *name);
        let path = format!(".deployments[{}].taskRoles.{role}", index.unwrap_or(0));
        found.push(Remark::at(path, no_role(document, role)));
    }
}

fn of_extras(document: &WrittenJob, source: &Value, found: &mut Vec<Remark>) {
    let extras = &document.extras;
    let notified = extras.job_status_change_notification.as_object();
    if notified.is_some_and(|events| events.values().any(|wanted| *wanted == true)) {
        let message =
            "Nobody is notified: nothing sends mail here. `muster job wait` tells of a job's end.";
        found.push(Remark::at(".extras.jobStatusChangeNotification", message));
    }
    let gang = &extras.gang_allocation;
    if !gang.is_null() && !gang.is_boolean() {
        let message = "Only true and false mean something here: all tasks start together.";
        found.push(Remark::at(".extras.gangAllocation", message));
    }
    let hived = |field| source.pointer(&format!("/extras/hivedScheduler/{field}"));
    if hived("gangReleaseEnable") == Some(&Value::Bool(true)) {
        let message = "This has no effect: what a task had is free again when it has ended.";
        found.push(Remark::at(
            ".extras.hivedScheduler.gangReleaseEnable",
            message,
        ));
    }
    if hived("ignoreK8sSuggestedNodes") == Some(&Value::Bool(false)) {
        let message = "This has no effect: no Kubernetes scheduler suggests nodes here.";
        let path = ".extras.hivedScheduler.ignoreK8sSuggestedNodes";
        found.push(Remark::at(path, message));
    }
}

/// Where affinity groups and pinned cells are carried out otherwise than they read.
fn of_placement(document: &WrittenJob, found: &mut Vec<Remark>) {
    const PATH: &str = ".extras.hivedScheduler.taskRoles";
    let roles = document.extras.hived_scheduler.by_name();
    if !document.is_gang() {
        let grouped = roles.iter().find(|(_, role)| role.group().is_some());
        found.extend(grouped.map(|(name, _)| {
            let path = format!("{PATH}.{name}.affinityGroupName");
            let message =
                "This has no effect without gang allocation: tasks are placed one by one.";
            Remark::at(path, message)
        }));
        return;
    }
    let Some(cell) = roles.values().find_map(|role| role.pinned()) else {
        return;
    };
    let is_free = |name: &str| roles.get(name).is_none_or(|role| role.pinned().is_none());
    let free = document.task_roles.iter().filter(|(name, _)| is_free(name));
    found.extend(free.map(|(name, _)| {
        let message = format!(
            "It names no pinnedCellId, but starts together with roles in {}: it is placed there too.",
            short(cell)
        );
        Remark::at(format!(".taskRoles.{name}"), message)
    }));
}

fn of_role(document: &WrittenJob, name: &str, role: &WrittenRole, found: &mut Vec<Remark>) {
    let path = format!(".taskRoles.{name}");
    let mut warn = |field: &str, message: String| {
        found.push(Remark::at(format!("{path}.{field}"), message));
    };
    if role.resource_per_instance.cpu == 0 {
        let message = format!("A task that asks for no CPU gets {CPU_LEAST} core.");
        warn("resourcePerInstance.cpu", message);
    }
    if role.resource_per_instance.memory_mb == 0 {
        let message = format!("A task that asks for no memory gets {MEMORY_MB_LEAST} MiB.");
        warn("resourcePerInstance.memoryMB", message);
    }
    if let Some((field, message)) = completion(role) {
        warn(field, message);
    }
    if role.task_retry_count != 0 && document.is_gang() {
        let message = "This has no effect where all tasks start together: one that fails ends the attempt, \
                       and jobRetryCount counts. Or set extras.gangAllocation to false.";
        warn("taskRetryCount", message.to_owned());
    }
    for (index, listed) in role.prerequisites.iter().enumerate() {
        let item = document.prerequisites.named(listed);
        if item.is_some_and(|(_, item)| item.text("plugin").is_empty()) {
            let message = format!("{} has no plugin: listing it has no effect.", short(listed));
            warn(&format!("prerequisites[{index}]"), message);
        }
    }
    for field in unused(document, name, role) {
        let message = format!(
            "This has no effect: nothing is fetched or stored by itself, and no command has \
             <% ${field}.uri %> or the like."
        );
        warn(field, message);
    }
    if let Some((at, tag)) =
        texts(document, name, role).find_map(|(at, text)| Some((at, dropped(text)?)))
    {
        let message = format!("The tag <% {tag} %> is left out of the command, as OpenPAI does.");
        warn(at, message);
    }
}

/// A completion policy by which the attempt succeeds although every task of the role failed.
fn completion(role: &WrittenRole) -> Option<(&'static str, String)> {
    let set = |field: Option<i32>| field.filter(|count| *count != 0);
    let failed = set(role.completion.min_failed_instances).unwrap_or(1);
    let instances = i64::from(role.instances);
    if (1..=instances).contains(&i64::from(failed)) {
        return None;
    }
    let why = match failed {
        ..1 => "no number of failed tasks fails the attempt".to_owned(),
        _ => format!("more than the {instances} tasks that there are"),
    };
    let message = format!(
        "{failed} means {why}: every task of the role may fail and the job still SUCCEEDS. Write 1 to have it fail with \
         the first task, {instances} with the last."
    );
    Some(("completion.minFailedInstances", message))
}

/// The prerequisites of other types that a role selects, of which its commands make no use.
fn unused<'a>(document: &'a WrittenJob, name: &'a str, role: &'a WrittenRole) -> Vec<&'static str> {
    let selected = role.selected().into_iter().map(|(_, field, _)| field);
    selected
        .filter(|field| *field != "dockerImage")
        .filter(|field| {
            let root = format!("${field}");
            let mut texts = texts(document, name, role);
            let in_plugins = || {
                uses(document, name, role)
                    .iter()
                    .any(|used| used.parameters.to_string().contains(&root))
            };
            !texts.any(|(_, text)| text.contains(&root)) && !in_plugins()
        })
        .collect()
}

/// The commands of a role and of its deployment, with where they stand in the role.
fn texts<'a>(
    document: &'a WrittenJob,
    name: &str,
    role: &'a WrittenRole,
) -> impl Iterator<Item = (&'static str, &'a str)> {
    let deployed = document.deployment();
    let deployed = deployed.and_then(|deployment| deployment.task_roles.get(name));
    let around = deployed
        .into_iter()
        .flat_map(|role| role.pre_commands.iter().chain(&role.post_commands));
    let commands = role.commands.iter().chain(around);
    commands.map(|text| ("commands", text.as_str()))
}
