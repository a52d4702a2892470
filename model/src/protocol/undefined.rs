//! References that refer to nothing: `<% $parameters.nosuch %>`.
//!
//! Upstream hands them to the shell as they are written. A misspelt one is found out late or never,
//! and a misspelt secret is sent to a registry as the password.

use serde_json::Value;

use super::JobProblem;
use super::advice::excerpt;
use super::document::{WrittenJob, WrittenRole};
use super::nearest::nearest;
use super::plugins::commands;
use super::secrets::Secrets;
use super::spec::scope;
use super::template::{CLOSE, OPEN, Scope, references, with_dots};

/// So many problems are told at most.
const PROBLEMS_MAX: usize = 100;
/// Fields of an image's login. Upstream puts nothing but secrets into them.
const AUTH: [&str; 3] = ["username", "password", "registryuri"];

/// A problem for each.
pub(super) fn check(document: &WrittenJob) -> Vec<JobProblem> {
    let secrets = Secrets::of(document);
    let mut problems = Vec::new();
    for (name, role) in &document.task_roles {
        let known = KnownNames {
            scope: scope(document, role),
            secrets: &secrets,
            document,
        };
        for (path, text) in texts(document, name, role) {
            problems.extend(known.problems(&path, text));
        }
    }
    let in_logins = KnownNames {
        scope: Scope::default(),
        secrets: &secrets,
        document,
    };
    for (index, item) in document.prerequisites.iter().enumerate() {
        for field in AUTH {
            let path = format!(".prerequisites[{index}].auth.{field}");
            problems.extend(in_logins.problems(&path, item.auth(field)));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    problems.retain(|problem| seen.insert((problem.path.clone(), problem.message.clone())));
    problems.truncate(PROBLEMS_MAX);
    problems
}

/// Every text of a role that is rendered, with its path.
fn texts<'a>(
    document: &'a WrittenJob,
    name: &str,
    role: &'a WrittenRole,
) -> Vec<(String, &'a str)> {
    let mut texts = Vec::new();
    let mut add = |path: &str, list: &'a [String]| {
        let list = list.iter().enumerate();
        texts.extend(list.map(|(index, text)| (format!("{path}[{index}]"), text.as_str())));
    };
    add(&format!(".taskRoles.{name}.commands"), &role.commands);
    let on = document.defaults.deployment.as_ref();
    let mut deployments = document.deployments.iter().enumerate();
    let deployment = deployments.find(|(_, deployment)| Some(&deployment.name) == on);
    if let Some((index, deployment)) = deployment
        && let Some(role) = deployment.task_roles.get(name)
    {
        let path = format!(".deployments[{index}].taskRoles.{name}");
        add(&format!("{path}.preCommands"), &role.pre_commands);
        add(&format!("{path}.postCommands"), &role.post_commands);
    }
    texts.extend(commands(document, name, role));
    texts
}

/// What references may refer to.
struct KnownNames<'a> {
    scope: Scope<'a>,
    secrets: &'a Secrets,
    document: &'a WrittenJob,
}

impl KnownNames<'_> {
    fn problems(&self, path: &str, text: &str) -> Vec<JobProblem> {
        // A text that is no template is told of where it is rendered.
        let references = references(text).unwrap_or_default().into_iter();
        references
            .filter_map(|reference| {
                let why = self.missing(&with_dots(reference))?;
                let shown = excerpt(reference);
                let message = format!("{OPEN} {shown} {CLOSE} refers to nothing: {why}");
                Some(JobProblem::at(path, message))
            })
            .collect()
    }

    /// Why a reference refers to nothing; `None` for one that does, and for what is no reference.
    fn missing(&self, reference: &str) -> Option<String> {
        let (root, below) = reference.split_once('.').unwrap_or((reference, ""));
        let field = root.strip_prefix('$')?;
        if field == "secrets" {
            let is_there = self.secrets.has(reference);
            return (!is_there).then(|| no_value("secrets", below, &self.document.secrets));
        }
        if !Scope::FIELDS.contains(&field) || self.scope.lookup(reference).is_some() {
            return None;
        }
        Some(match self.scope.root(root) {
            None if self.scope.is_empty() => "only secrets count in a login".to_owned(),
            None => format!("the task role names no {field}"),
            Some(value) => no_value(field, below, value),
        })
    }
}

fn no_value(field: &str, below: &str, value: &Value) -> String {
    let below = excerpt(below);
    let found = below
        .split('.')
        .try_fold(value, |value, part| value.get(part));
    match found {
        Some(Value::Null) => return format!("{below} of {field} is empty"),
        Some(_) => return format!("{below} of {field} holds more than one value"),
        None => {}
    }
    let names = value.as_object().into_iter().flatten();
    let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return format!("the job has no {field}");
    }
    match nearest(&below, names.iter().copied()) {
        Some(meant) if !below.contains('.') => {
            format!("{field} has no {below}; did you mean {meant}?")
        }
        _ => format!("{field} has no {below}"),
    }
}
