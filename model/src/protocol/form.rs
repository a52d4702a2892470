//! A job's most used fields, as a form beside its YAML has them.
//!
//! The form is read from the YAML, and what is changed in it is written into the YAML, so that the rest of the
//! YAML stays as the user wrote it. Whether a value makes sense, [`verdict`](super::verdict) says.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::yaml_edit::{ValueStep, comment_lines, value_at, written};
use super::{JobProblem, yaml};

/// What a new task role runs until the user says otherwise.
const FIRST_COMMAND: &str = "echo hello";

/// The fields, each as text: what is wrong in them stays for the user to mend. An empty field is not there in the
/// YAML.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobForm {
    /// `name`
    pub name: String,
    /// `defaults.virtualCluster`
    pub vc: String,
    /// `extras.hivedScheduler.jobPriorityClass`
    pub priority: String,
    /// `jobRetryCount`
    pub retries: String,
    /// `extras.muster.maxRunTime`
    pub max_run_s: String,
    /// In the order of the YAML.
    pub roles: Vec<RoleForm>,
}

/// The fields of a task role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleForm {
    /// Its name, which the form does not change.
    pub role: String,
    /// `instances`
    pub instances: String,
    /// The `uri` of the prerequisite that `dockerImage` names.
    pub image: String,
    /// `commands`, one below the other.
    pub command: String,
    /// `resourcePerInstance.cpu`
    pub cpu: String,
    /// `resourcePerInstance.memoryMB`
    pub memory_mb: String,
    /// `resourcePerInstance.gpu`
    pub gpu: String,
}

/// A job's text after a change by the form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedJob {
    /// The text.
    pub text: String,
    /// How many comments had to be left out, for a part was written anew.
    pub comments_lost: usize,
}

impl JobForm {
    /// The form of a text.
    ///
    /// # Errors
    /// When the text is no YAML with fields.
    pub fn read(text: &str) -> Result<Self, JobProblem> {
        Ok(Self::of(&document(text)?))
    }

    fn of(document: &Value) -> Self {
        let field = |path: &str| shown(value_at(document, &steps(path)));
        let roles = document.get("taskRoles").and_then(Value::as_object);
        let roles = roles.into_iter().flatten();
        Self {
            name: field("name"),
            vc: field("defaults/virtualCluster"),
            priority: field("extras/hivedScheduler/jobPriorityClass"),
            retries: field("jobRetryCount"),
            max_run_s: field("extras/muster/maxRunTime"),
            roles: roles
                .map(|(name, role)| RoleForm::of(document, name, role))
                .collect(),
        }
    }

    /// The text with all that this form has otherwise than it was shown, which is `before`. What was changed in
    /// the text meanwhile stays.
    ///
    /// # Errors
    /// When the text is no YAML with fields: there is nothing to write into.
    pub fn applied(&self, before: &Self, text: &str) -> Result<EditedJob, JobProblem> {
        let mut draft = FormDraft::of(text)?;
        for (path, new, old, kind) in [
            ("name", &self.name, &before.name, FieldKind::Text),
            (
                "defaults/virtualCluster",
                &self.vc,
                &before.vc,
                FieldKind::Text,
            ),
            (
                "extras/hivedScheduler/jobPriorityClass",
                &self.priority,
                &before.priority,
                FieldKind::Text,
            ),
            (
                "jobRetryCount",
                &self.retries,
                &before.retries,
                FieldKind::Number,
            ),
            (
                "extras/muster/maxRunTime",
                &self.max_run_s,
                &before.max_run_s,
                FieldKind::Number,
            ),
        ] {
            if new != old {
                draft.set(&steps(path), kind.value(new))?;
            }
        }
        for role in &self.roles {
            let before = before.roles.iter().find(|one| one.role == role.role);
            if let Some(before) = before {
                draft.set_role(role, before)?;
            }
        }
        Ok(draft.edited(text))
    }

    /// The text with one more task role: like the first, but for its name and its command.
    ///
    /// # Errors
    /// When the text is no YAML with fields, or has such a role.
    pub fn with_role(name: &str, text: &str) -> Result<EditedJob, JobProblem> {
        let mut draft = FormDraft::of(text)?;
        let path = role_path(name, "");
        if value_at(&draft.document, &path).is_some() {
            let message = format!("There is a task role {name} already.");
            return Err(JobProblem::at(".taskRoles", message));
        }
        let roles = draft.document.get("taskRoles").and_then(Value::as_object);
        let first = roles.and_then(|roles| roles.values().next());
        let of_first = |field: &str| first.and_then(|role| role.get(field)).cloned();
        let resources = json!({"cpu": 1, "memoryMB": 1024, "gpu": 0});
        let mut role = Map::new();
        role.insert("instances".to_owned(), 1.into());
        if let Some(image) = of_first("dockerImage") {
            role.insert("dockerImage".to_owned(), image);
        }
        let resources = of_first("resourcePerInstance").unwrap_or(resources);
        role.insert("resourcePerInstance".to_owned(), resources);
        role.insert("commands".to_owned(), json!([FIRST_COMMAND]));
        draft.set(&path, Some(role.into()))?;
        Ok(draft.edited(text))
    }

    /// The text without a task role.
    ///
    /// # Errors
    /// When the text is no YAML with fields.
    pub fn without_role(name: &str, text: &str) -> Result<EditedJob, JobProblem> {
        let mut draft = FormDraft::of(text)?;
        draft.set(&role_path(name, ""), None)?;
        Ok(draft.edited(text))
    }
}

impl RoleForm {
    fn of(document: &Value, name: &str, role: &Value) -> Self {
        let field = |path: &str| shown(value_at(role, &steps(path)));
        let uri = image_of(document, role).map(image_path);
        let commands = role.get("commands").and_then(Value::as_array);
        let commands = commands.into_iter().flatten();
        let commands: Vec<String> = commands.map(|one| shown(Some(one))).collect();
        Self {
            role: name.to_owned(),
            instances: field("instances"),
            image: uri.map_or_else(String::new, |path| shown(value_at(document, &path))),
            command: commands.join("\n"),
            cpu: field("resourcePerInstance/cpu"),
            memory_mb: field("resourcePerInstance/memoryMB"),
            gpu: field("resourcePerInstance/gpu"),
        }
    }
}

/// A text that is being changed, and what it says.
struct FormDraft {
    text: String,
    document: Value,
}

impl FormDraft {
    fn of(text: &str) -> Result<Self, JobProblem> {
        Ok(Self {
            text: text.to_owned(),
            document: document(text)?,
        })
    }

    fn edited(self, before: &str) -> EditedJob {
        let (before, now) = (comment_lines(before), comment_lines(&self.text));
        EditedJob {
            comments_lost: before.saturating_sub(now),
            text: self.text,
        }
    }

    fn set(&mut self, path: &[ValueStep], value: Option<Value>) -> Result<(), JobProblem> {
        if value_at(&self.document, path) == value.as_ref() {
            return Ok(());
        }
        put(&mut self.document, path, value);
        let written = written(&self.text, path, &self.document);
        self.text = written.map_err(|error| JobProblem::at("", error))?;
        Ok(())
    }

    fn set_role(&mut self, role: &RoleForm, before: &RoleForm) -> Result<(), JobProblem> {
        let name = &role.role;
        if value_at(&self.document, &role_path(name, "")).is_none() {
            // The text has it no more.
            return Ok(());
        }
        for (path, new, old) in [
            ("instances", &role.instances, &before.instances),
            ("resourcePerInstance/cpu", &role.cpu, &before.cpu),
            (
                "resourcePerInstance/memoryMB",
                &role.memory_mb,
                &before.memory_mb,
            ),
            ("resourcePerInstance/gpu", &role.gpu, &before.gpu),
        ] {
            if new != old {
                self.set(&role_path(name, path), FieldKind::Number.value(new))?;
            }
        }
        if role.command != before.command {
            let command = FieldKind::Text.value(&role.command);
            let commands = command.map(|command| Value::from(vec![command]));
            self.set(&role_path(name, "commands"), commands)?;
        }
        if role.image != before.image {
            self.set_image(name, &role.image)?;
        }
        Ok(())
    }

    /// Gives a role another image: all roles have it then that name the same prerequisite.
    fn set_image(&mut self, role: &str, uri: &str) -> Result<(), JobProblem> {
        let written = value_at(&self.document, &role_path(role, ""));
        let known = written.and_then(|role| image_of(&self.document, role));
        if let Some(at) = known {
            return self.set(&image_path(at), FieldKind::Text.value(uri));
        }
        let name = format!("{role}_image");
        let mut all = match self.document.get("prerequisites") {
            Some(Value::Array(all)) => all.clone(),
            _ => Vec::new(),
        };
        all.push(json!({"type": IMAGE_TYPE, "name": name, "uri": uri}));
        self.set(&steps("prerequisites"), Some(all.into()))?;
        self.set(&role_path(role, "dockerImage"), Some(name.into()))
    }
}

/// The type of prerequisites that are images.
const IMAGE_TYPE: &str = "dockerimage";

/// What is made of a field's text.
#[derive(Clone, Copy)]
enum FieldKind {
    Text,
    /// What is no number stays text: it is told to be wrong then.
    Number,
}

impl FieldKind {
    /// None for an empty field.
    fn value(self, text: &str) -> Option<Value> {
        match (self, text.trim()) {
            (_, "") => None,
            (Self::Text, _) => Some(text.into()),
            (Self::Number, text) => {
                let number: Option<i64> = text.parse().ok();
                Some(number.map_or_else(|| text.into(), Value::from))
            }
        }
    }
}

/// A document that has fields. An empty text has none yet.
fn document(text: &str) -> Result<Value, JobProblem> {
    match yaml::read(text)? {
        Value::Null => Ok(Value::Object(Map::new())),
        document @ Value::Object(_) => Ok(document),
        _ => Err(JobProblem::at("", "The job is no mapping of fields.")),
    }
}

/// A scalar as a field shows it; nothing for what is no scalar.
fn shown(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
        _ => String::new(),
    }
}

fn steps(path: &str) -> Vec<ValueStep> {
    let keys = path.split('/').filter(|key| !key.is_empty());
    keys.map(|key| ValueStep::Key(key.to_owned())).collect()
}

fn role_path(role: &str, path: &str) -> Vec<ValueStep> {
    let mut all = steps("taskRoles");
    all.push(ValueStep::Key(role.to_owned()));
    all.extend(steps(path));
    all
}

/// Which prerequisite a role's image is.
fn image_of(document: &Value, role: &Value) -> Option<usize> {
    let name = role.get("dockerImage")?.as_str()?;
    let all = document.get("prerequisites")?.as_array()?;
    all.iter()
        .position(|one| one["name"] == name && one["type"] == IMAGE_TYPE)
}

fn image_path(at: usize) -> Vec<ValueStep> {
    let mut path = steps("prerequisites");
    path.push(ValueStep::Item(at));
    path.extend(steps("uri"));
    path
}

/// Puts a value into a document, or takes it out; mappings on the way are made.
fn put(document: &mut Value, path: &[ValueStep], value: Option<Value>) {
    let Some((last, around)) = path.split_last() else {
        return;
    };
    let mut place = document;
    for step in around {
        place = match step {
            ValueStep::Key(key) => {
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                &mut place[key.as_str()]
            }
            ValueStep::Item(index) => match place.get_mut(*index) {
                Some(item) => item,
                None => return,
            },
        };
    }
    let ValueStep::Key(key) = last else {
        return;
    };
    match value {
        Some(value) => {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            place[key.as_str()] = value;
        }
        None => {
            let fields = place.as_object_mut();
            fields.map(|fields| fields.shift_remove(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::verdict;

    const TEXT: &str = "\
# My job.
protocolVersion: 2
name: train  # of today
type: job
prerequisites:
  - type: dockerimage
    name: image
    uri: pytorch/pytorch
secrets:
  word: hush
taskRoles:
  # The one that counts.
  worker:
    instances: 2
    dockerImage: image
    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
    commands:
      - echo one
      - echo two # both
";

    fn form() -> JobForm {
        JobForm::read(TEXT).unwrap()
    }

    fn applied(edit: impl FnOnce(&mut JobForm)) -> EditedJob {
        let mut changed = form();
        edit(&mut changed);
        changed.applied(&form(), TEXT).unwrap()
    }

    #[test]
    fn the_form_shows_what_the_text_says() {
        let form = form();
        assert_eq!((&*form.name, &*form.vc), ("train", ""));
        let [role] = &*form.roles else {
            panic!("{form:?}");
        };
        let RoleForm { instances, cpu, .. } = role;
        assert_eq!((&**instances, &**cpu), ("2", "4"));
        assert_eq!(role.image, "pytorch/pytorch");
        assert_eq!(role.command, "echo one\necho two");
        assert_eq!(applied(|_| ()).text, TEXT, "nothing was changed");
    }

    #[test]
    fn a_changed_field_changes_its_place_in_the_text_alone() {
        type Edit = fn(&mut JobForm);
        let table: [(Edit, &str, &str); 4] = [
            (|form| form.name = "b".to_owned(), "train  # of", "b # of"),
            (
                |form| form.roles[0].instances = "3".to_owned(),
                "instances: 2",
                "instances: 3",
            ),
            (
                |form| form.roles[0].image = "busybox:1".to_owned(),
                "uri: pytorch/pytorch",
                "uri: busybox:1",
            ),
            (
                |form| form.roles[0].gpu = "two".to_owned(),
                "resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}",
                "resourcePerInstance:\n      cpu: 4\n      memoryMB: 8192\n      gpu: two",
            ),
        ];
        for (edit, old, new) in table {
            let edited = applied(edit);
            assert_eq!(edited.text, TEXT.replace(old, new));
            assert_eq!(edited.comments_lost, 0);
        }
    }

    #[test]
    fn an_empty_field_is_no_field() {
        let text = applied(|form| {
            form.vc = "vision".to_owned();
            form.priority = "prod".to_owned();
            form.max_run_s = "60".to_owned();
        });
        let shown = JobForm::read(&text.text).unwrap();
        assert_eq!((&*shown.vc, &*shown.priority), ("vision", "prod"));
        assert!(verdict(&text.text).valid, "{}", text.text);
        let mut cleared = shown.clone();
        cleared.vc = String::new();
        cleared.priority = String::new();
        let cleared = cleared.applied(&shown, &text.text).unwrap().text;
        let again = JobForm::read(&cleared).unwrap();
        assert_eq!((again.vc, again.priority), (String::new(), String::new()));
        assert!(cleared.contains("# The one that counts."), "{cleared}");
    }

    #[test]
    fn what_was_changed_in_the_text_meanwhile_stays() {
        let mut changed = form();
        changed.name = "other".to_owned();
        let text = TEXT.replace("instances: 2", "instances: 7");
        let text = changed.applied(&form(), &text).unwrap().text;
        assert!(text.contains("instances: 7") && text.contains("name: other"));
    }

    #[test]
    fn commands_of_several_lines_are_one_block() {
        let edited = applied(|form| form.roles[0].command = "if true\nthen\n  echo\nfi".to_owned());
        let block = "    commands:\n      - |-\n        if true\n        then\n          echo\n        fi\n";
        assert!(edited.text.ends_with(block), "{}", edited.text);
        assert!(verdict(&edited.text).valid);
    }

    #[test]
    fn roles_come_and_go() {
        let more = JobForm::with_role("ps", TEXT).unwrap();
        assert!(verdict(&more.text).valid, "{}", more.text);
        assert!(more.text.starts_with(TEXT), "{}", more.text);
        let roles = JobForm::read(&more.text).unwrap().roles;
        assert_eq!(roles[1].role, "ps");
        assert_eq!(roles[1].image, "pytorch/pytorch");
        assert!(JobForm::with_role("ps", &more.text).is_err());
        assert_eq!(JobForm::without_role("ps", &more.text).unwrap().text, TEXT);
    }

    #[test]
    fn a_role_without_an_image_is_given_one() {
        let text = "name: a\ntaskRoles:\n  w:\n    instances: 1\n";
        let before = JobForm::read(text).unwrap();
        let mut form = before.clone();
        form.roles[0].image = "busybox".to_owned();
        let text = form.applied(&before, text).unwrap().text;
        assert_eq!(JobForm::read(&text).unwrap().roles[0].image, "busybox");
        assert!(text.contains("dockerImage: w_image"), "{text}");
    }

    #[test]
    fn broken_text_is_not_changed() {
        for text in ["a: [", "- a", "just text"] {
            assert!(JobForm::read(text).is_err(), "{text}");
            assert!(form().applied(&JobForm::default(), text).is_err());
        }
        let empty = JobForm::default();
        let mut form = empty.clone();
        form.name = "a".to_owned();
        let text = form.applied(&empty, "# a comment\n").unwrap().text;
        assert_eq!(JobForm::read(&text).unwrap().name, "a");
    }
}
