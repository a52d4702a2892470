//! The runtime plugins `git` and `tensorboard`: what they run before the user's commands.

use serde_json::Value;

use super::JobProblem;
use super::document::{WrittenJob, WrittenRole};
use super::plugins::{Use, uses};
use super::template::{RenderBudget, Scope, render};

/// The plugin that clones a repository.
pub(super) const GIT: &str = "git";
/// The plugin that shows what a training writes.
pub(super) const TENSORBOARD: &str = "tensorboard";
/// The parameters of `git` that mean something.
pub(super) const GIT_KEYS: [&str; 3] = [REPO, OPTIONS, CLONE_DIR];
/// Those of `tensorboard`.
pub(super) const TENSORBOARD_KEYS: [&str; 2] = [PORT, LOG_DIR];
const REPO: &str = "repo_uri";
const OPTIONS: &str = "options";
const CLONE_DIR: &str = "clone_dir";
const PORT: &str = "port";
const LOG_DIR: &str = "logdir";

/// Renders parameters of one use, as words of a shell.
struct Words<'a> {
    used: &'a Use<'a>,
    scope: &'a Scope<'a>,
    budget: &'a mut RenderBudget,
}

impl<'a> Words<'a> {
    const fn of(used: &'a Use<'a>, scope: &'a Scope<'a>, budget: &'a mut RenderBudget) -> Self {
        Self {
            used,
            scope,
            budget,
        }
    }

    fn wrong(&self, name: &str, message: &str) -> JobProblem {
        JobProblem::at(format!("{}.{name}", self.used.path), message)
    }

    /// A text in quotes.
    fn word(&mut self, name: &str, value: &Value) -> Result<String, JobProblem> {
        let text = value.as_str().filter(|text| !text.trim().is_empty());
        let text = text.ok_or_else(|| self.wrong(name, "should be string"))?;
        let text = render(text, self.scope, self.budget);
        let text = text.map_err(|error| self.wrong(name, &error.to_string()))?;
        Ok(quoted(&text))
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The commands of `git`.
pub(super) fn git(
    used: &Use,
    scope: &Scope,
    budget: &mut RenderBudget,
) -> Result<String, JobProblem> {
    let mut words = Words::of(used, scope, budget);
    let field = |name: &str| used.parameters.get(name).unwrap_or(&Value::Null);
    let mut clone = vec!["git clone".to_owned()];
    match field(OPTIONS) {
        Value::Null => {}
        Value::Array(options) => {
            for option in options {
                clone.push(words.word(OPTIONS, option)?);
            }
        }
        _ => return Err(words.wrong(OPTIONS, "should be array of string")),
    }
    clone.push("--".to_owned());
    clone.push(words.word(REPO, field(REPO))?);
    if !field(CLONE_DIR).is_null() {
        clone.push(words.word(CLONE_DIR, field(CLONE_DIR))?);
    }
    Ok(format!(
        "command -v git >/dev/null || {{ echo 'The plugin git needs the program git in the image.' >&2; exit 127; }}\n\
         {}",
        clone.join(" ")
    ))
}

/// Whether a use of `tensorboard` says what to show. One that does not starts nothing.
pub(super) fn has_logs(used: &Use) -> bool {
    let logs = used.parameters.get(LOG_DIR);
    logs.is_some_and(|logs| !logs.is_null())
}

/// The commands of `tensorboard`, for the first task of a role.
pub(super) fn tensorboard(
    used: &Use,
    scope: &Scope,
    budget: &mut RenderBudget,
) -> Result<String, JobProblem> {
    let mut words = Words::of(used, scope, budget);
    let port = port(used).ok_or_else(|| words.wrong(PORT, "should be integer, 1 to 65535"))?;
    // Tasks share the ports of their machine: one that the job chooses may be another job's.
    let (port, place) = match port {
        Some(port) => (port.to_string(), port.to_string()),
        None => (own_port(), TENSORBOARD.to_owned()),
    };
    let dirs = used.parameters.get(LOG_DIR).and_then(Value::as_object);
    let dirs = dirs.filter(|dirs| !dirs.is_empty());
    let dirs =
        dirs.ok_or_else(|| words.wrong(LOG_DIR, "should be object, as {train: /mnt/logs/train}"))?;
    let mut named = Vec::new();
    for (name, path) in dirs {
        named.push((name, words.word(&format!("{LOG_DIR}.{name}"), path)?));
    }
    let logs = match named.as_slice() {
        [(_, path)] => format!("--logdir {path}"),
        many => {
            let many = many.iter();
            let many: Vec<_> = many
                .map(|(name, path)| format!("{}:{path}", quoted(name)))
                .collect();
            format!("--logdir_spec {}", many.join(","))
        }
    };
    Ok(format!(
        "if [ \"$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX\" = 0 ]; then\n\
         if command -v tensorboard >/dev/null; then\n\
         tensorboard --host 127.0.0.1 --port {port} {logs} </dev/null >/tmp/tensorboard.log 2>&1 &\n\
         echo \"TensorBoard is started on port {port}, with /tmp/tensorboard.log: /proxy/$PAI_JOB_NAME/{place}/ of any node\"\n\
         else\n\
         echo 'TensorBoard is not started: the image has no program tensorboard.' >&2\n\
         fi\n\
         fi"
    ))
}

/// Whether TensorBoard runs in tasks of this role: in the first one that asks for it, as upstream in the first of all.
pub(super) fn is_shown(document: &WrittenJob, name: &str) -> bool {
    let asks = |(name, role): &&(String, WrittenRole)| {
        let mut used = uses(document, name, role).into_iter();
        used.any(|used| used.plugin == TENSORBOARD)
    };
    let first = document.task_roles.iter().find(asks);
    first.is_some_and(|(first, _)| first == name)
}

/// Whether tasks of a role need a port for TensorBoard, because the job names none.
pub(super) fn asks_for_port(document: &WrittenJob, name: &str, role: &WrittenRole) -> bool {
    let asks = |used: &Use| {
        used.plugin == TENSORBOARD && has_logs(used) && matches!(port(used), Some(None))
    };
    is_shown(document, name) && uses(document, name, role).iter().any(asks)
}

/// The task's port for TensorBoard, the first where the job asks for several, as a word of a shell.
fn own_port() -> String {
    format!("\"${{PAI_CONTAINER_HOST_{TENSORBOARD}_PORT_LIST%%,*}}\"")
}

/// The port that a use of `tensorboard` names, if it names one; none if what it names is no port.
fn port(used: &Use) -> Option<Option<u64>> {
    match used.parameters.get(PORT) {
        None | Some(Value::Null) => Some(None),
        Some(port) => {
            let port = port.as_u64().filter(|port| (1..=65_535).contains(port));
            port.map(Some)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::document::FailurePolicy;

    fn used<'a>(plugin: &'a str, parameters: &'a Value) -> Use<'a> {
        Use {
            plugin,
            parameters,
            on_failure: FailurePolicy::Fail,
            path: ".extras".to_owned(),
        }
    }

    fn cloned(parameters: &Value) -> Result<String, String> {
        let known = json!({"repo": "it's"});
        let scope = Scope {
            parameters: Some(&known),
            ..Scope::default()
        };
        let mut budget = RenderBudget::whole_job();
        let script = git(&used(GIT, parameters), &scope, &mut budget);
        let script = script.map_err(|problem| format!("{}: {}", problem.path, problem.message))?;
        Ok(script.lines().last().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_repository_is_cloned_with_its_options() {
        let plain = json!({"repo_uri": "https://git.example/a.git"});
        assert_eq!(
            cloned(&plain).unwrap(),
            "git clone -- 'https://git.example/a.git'"
        );
        let all = json!({
            "repo_uri": "<% $parameters.repo %>", "options": ["--depth", "1"], "clone_dir": "a b",
        });
        assert_eq!(
            cloned(&all).unwrap(),
            r"git clone '--depth' '1' -- 'it'\''s' 'a b'"
        );
        for (wrong, path) in [
            (json!({}), ".extras.repo_uri: should be string"),
            (
                json!({"repo_uri": "a", "options": "--depth 1"}),
                ".extras.options: should be array",
            ),
            (
                json!({"repo_uri": "a", "options": [1]}),
                ".extras.options: should be string",
            ),
            (
                json!({"repo_uri": "a", "clone_dir": 7}),
                ".extras.clone_dir: should be string",
            ),
        ] {
            let problem = cloned(&wrong).unwrap_err();
            assert!(problem.starts_with(path), "{problem}");
        }
    }

    fn shown(parameters: &Value) -> Result<String, String> {
        let mut budget = RenderBudget::whole_job();
        let used = used(TENSORBOARD, parameters);
        let script = tensorboard(&used, &Scope::default(), &mut budget);
        let script = script.map_err(|problem| format!("{}: {}", problem.path, problem.message))?;
        Ok(script.lines().nth(2).unwrap_or_default().to_owned())
    }

    #[test]
    fn one_directory_and_several_are_given_as_tensorboard_takes_them() {
        let one = shown(&json!({"logdir": {"train": "/mnt/logs"}})).unwrap();
        let own = r#""${PAI_CONTAINER_HOST_tensorboard_PORT_LIST%%,*}""#;
        let begin = format!("tensorboard --host 127.0.0.1 --port {own} --logdir '/mnt/logs' ");
        assert!(one.starts_with(&begin), "{one}");
        let two = shown(&json!({"port": 7000, "logdir": {"a": "/a", "b": "/b c"}})).unwrap();
        let begin = "tensorboard --host 127.0.0.1 --port 7000 --logdir_spec 'a':'/a','b':'/b c' ";
        assert!(two.starts_with(begin), "{two}");
        for (wrong, path) in [
            (json!({"logdir": "/a"}), ".extras.logdir: should be object"),
            (json!({"logdir": {}}), ".extras.logdir: should be object"),
            (
                json!({"logdir": {"a": 1}}),
                ".extras.logdir.a: should be string",
            ),
            (
                json!({"port": 0, "logdir": {"a": "/a"}}),
                ".extras.port: should be integer",
            ),
            (
                json!({"port": "6006", "logdir": {"a": "/a"}}),
                ".extras.port: should be integer",
            ),
        ] {
            let problem = shown(&wrong).unwrap_err();
            assert!(problem.starts_with(path), "{problem}");
        }
    }
}
