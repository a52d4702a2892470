//! Runtime plugins: which a role uses, and the commands of `cmd`.

use serde_json::Value;

use super::JobProblem;
use super::document::{FailurePolicy, WrittenJob, WrittenRole};
use super::template::{RenderBudget, Scope, render};
use super::tools;

/// Name space of the plugins, and key of their section in `extras`.
pub(super) const RUNTIME_PLUGIN: &str = "com.microsoft.pai.runtimeplugin";
/// The plugin that runs commands.
pub(super) const CMD: &str = "cmd";

/// What a role's plugins run, one script for each plugin.
#[derive(Default)]
pub(super) struct PluginHooks {
    /// Before the user's commands, in this order.
    pub(super) pre: Vec<String>,
    /// After a success, in this order.
    pub(super) post: Vec<String>,
}

/// One plugin as a role uses it.
pub(super) struct Use<'a> {
    pub(super) plugin: &'a str,
    pub(super) parameters: &'a Value,
    pub(super) on_failure: FailurePolicy,
    /// Where its parameters stand.
    pub(super) path: String,
}

/// The commands of a `cmd` plugin before rendering.
#[derive(Default)]
struct Commands<'a> {
    pre: Vec<&'a str>,
    post: Vec<&'a str>,
}

/// Collects the hooks of a role. Plugins that come as prerequisites go first.
pub(super) fn hooks(
    document: &WrittenJob,
    (name, role): (&str, &WrittenRole),
    scope: &Scope,
    budget: &mut RenderBudget,
) -> Result<PluginHooks, JobProblem> {
    let mut hooks = PluginHooks::default();
    for used in uses(document, name, role) {
        match used.plugin {
            CMD => {
                let commands = Commands::of(&used)?;
                let mut script = |commands: &[&str]| used.script(commands, scope, budget);
                hooks.pre.extend(script(&commands.pre)?);
                hooks.post.extend(script(&commands.post)?);
            }
            tools::GIT => {
                let script = tools::git(&used, scope, budget)?;
                hooks.pre.push(used.bounded(script));
            }
            tools::TENSORBOARD if tools::has_logs(&used) => {
                let script = tools::tensorboard(&used, scope, budget)?;
                if tools::is_shown(document, name) {
                    hooks.pre.push(used.bounded(script));
                }
            }
            _ => {}
        }
    }
    hooks.post.reverse();
    Ok(hooks)
}

/// The plugins that a role uses, those that come as prerequisites first.
pub(super) fn uses<'a>(document: &'a WrittenJob, name: &str, role: &WrittenRole) -> Vec<Use<'a>> {
    let mut found = Vec::new();
    for wanted in &role.prerequisites {
        let Some((index, item)) = document.prerequisites.named(wanted) else {
            continue;
        };
        let plugin = item.text("plugin").strip_prefix(RUNTIME_PLUGIN);
        if let Some(plugin) = plugin.and_then(|plugin| plugin.strip_prefix('.')) {
            let ignore = item.text("failurePolicy") == "ignore";
            found.push(Use {
                plugin,
                parameters: &item.0,
                on_failure: if ignore {
                    FailurePolicy::Ignore
                } else {
                    FailurePolicy::Fail
                },
                path: format!(".prerequisites[{index}]"),
            });
        }
    }
    for (index, plugin) in document.extras.plugins.iter().enumerate() {
        let roles = plugin.taskroles.as_ref();
        if roles.is_none_or(|roles| roles.contains(name)) {
            found.push(Use {
                plugin: &plugin.plugin,
                parameters: &plugin.parameters,
                on_failure: plugin.failure_policy,
                path: format!(".extras.{RUNTIME_PLUGIN}[{index}].parameters"),
            });
        }
    }
    found
}

/// The commands of a role's `cmd` plugins with their paths, as far as they are well formed.
pub(super) fn commands<'a>(
    document: &'a WrittenJob,
    name: &str,
    role: &WrittenRole,
) -> Vec<(String, &'a str)> {
    let used = uses(document, name, role).into_iter();
    let used = used.filter(|used| used.plugin == CMD);
    used.flat_map(|used| {
        let commands = Commands::of(&used).unwrap_or_default();
        let texts = commands.pre.into_iter().chain(commands.post);
        texts.map(move |text| (used.path.clone(), text))
    })
    .collect()
}

impl Use<'_> {
    /// The commands as one script, so that a `cd` holds until the plugin's end and no longer
    /// where failures are ignored.
    fn script(
        &self,
        commands: &[&str],
        scope: &Scope,
        budget: &mut RenderBudget,
    ) -> Result<Option<String>, JobProblem> {
        if commands.is_empty() {
            return Ok(None);
        }
        let script = render(&commands.join("\n"), scope, budget)
            .map_err(|error| JobProblem::at(self.path.clone(), error.to_string()))?;
        Ok(Some(self.bounded(script)))
    }

    /// The script, whose failure is heeded or not.
    fn bounded(&self, script: String) -> String {
        match self.on_failure {
            FailurePolicy::Fail => script,
            FailurePolicy::Ignore => format!("(\n{script}\n) || true"),
        }
    }
}

impl<'a> Commands<'a> {
    fn of(used: &Use<'a>) -> Result<Self, JobProblem> {
        let field = |name| used.parameters.get(name);
        let plain = field("preCommands").or_else(|| field("postCommands"));
        match used.parameters.get("callbacks") {
            Some(_) if plain.is_some() => Err(JobProblem::at(
                used.path.clone(),
                "The cmd plugin takes preCommands and postCommands, or callbacks, not both.",
            )),
            Some(callbacks) => Self::of_callbacks(callbacks, &used.path),
            None => Ok(Self {
                pre: texts(
                    used.parameters.get("preCommands"),
                    &used.path,
                    "preCommands",
                )?,
                post: texts(
                    used.parameters.get("postCommands"),
                    &used.path,
                    "postCommands",
                )?,
            }),
        }
    }

    fn of_callbacks(callbacks: &'a Value, path: &str) -> Result<Self, JobProblem> {
        let mut commands = Self::default();
        let path = format!("{path}.callbacks");
        let Some(callbacks) = callbacks.as_array() else {
            return Err(JobProblem::at(path, "should be array"));
        };
        for (index, callback) in callbacks.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let list = texts(callback.get("commands"), &path, "commands")?;
            match callback.get("event").and_then(Value::as_str) {
                Some("taskStarts") => commands.pre.extend(list),
                Some("taskSucceeds") => commands.post.extend(list),
                _ => {
                    let message = "should be taskStarts or taskSucceeds";
                    return Err(JobProblem::at(format!("{path}.event"), message));
                }
            }
        }
        Ok(commands)
    }
}

/// A list of texts; an absent or null one is empty.
fn texts<'a>(
    value: Option<&'a Value>,
    path: &str,
    field: &str,
) -> Result<Vec<&'a str>, JobProblem> {
    let items = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(value) => value
            .as_array()
            .and_then(|list| list.iter().map(Value::as_str).collect()),
    };
    items.ok_or_else(|| JobProblem::at(format!("{path}.{field}"), "should be array of string"))
}
