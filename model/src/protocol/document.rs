//! The document after its shape was checked: the fields we work with, typed.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::id::JobName;
use crate::state::PriorityClass;

/// A job as the user wrote it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenJob {
    pub(super) name: JobName,
    #[serde(default)]
    pub(super) prerequisites: Prerequisites,
    #[serde(default)]
    pub(super) parameters: Value,
    #[serde(default)]
    pub(super) secrets: Value,
    #[serde(default)]
    pub(super) job_retry_count: i32,
    #[serde(deserialize_with = "in_order")]
    pub(super) task_roles: Vec<(String, WrittenRole)>,
    #[serde(default)]
    pub(super) deployments: Vec<Deployment>,
    #[serde(default)]
    pub(super) defaults: Defaults,
    #[serde(default)]
    pub(super) extras: Extras,
}

/// A script, output, data set or image; kept as written, because templates refer into it.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Prerequisite(pub(super) Value);

/// All prerequisites, found by name without a search: a document may have thousands.
#[derive(Default, Deserialize)]
#[serde(from = "Vec<Prerequisite>")]
pub(super) struct Prerequisites {
    items: Vec<Prerequisite>,
    by_name: BTreeMap<String, usize>,
    by_kind: BTreeMap<PrerequisiteKind, BTreeMap<String, usize>>,
}

/// The types of prerequisites that a task role selects one of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PrerequisiteKind {
    Script,
    Output,
    Data,
    DockerImage,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenRole {
    #[serde(default = "one")]
    pub(super) instances: u32,
    #[serde(default)]
    pub(super) completion: Completion,
    #[serde(default)]
    pub(super) task_retry_count: i32,
    #[serde(default)]
    pub(super) prerequisites: Vec<String>,
    pub(super) docker_image: String,
    pub(super) data: Option<String>,
    pub(super) output: Option<String>,
    pub(super) script: Option<String>,
    #[serde(default)]
    pub(super) extra_container_options: ContainerOptions,
    pub(super) resource_per_instance: RoleResources,
    pub(super) commands: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Completion {
    pub(super) min_failed_instances: Option<i32>,
    pub(super) min_succeeded_instances: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerOptions {
    #[serde(rename = "shmMB")]
    pub(super) shm_mb: u32,
    pub(super) infiniband: bool,
}

#[derive(Deserialize)]
pub(super) struct RoleResources {
    pub(super) cpu: u32,
    #[serde(rename = "memoryMB")]
    pub(super) memory_mb: u64,
    pub(super) gpu: u32,
    #[serde(default, deserialize_with = "in_order")]
    pub(super) ports: Vec<(String, u32)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Deployment {
    pub(super) name: String,
    pub(super) task_roles: BTreeMap<String, DeployedRole>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeployedRole {
    #[serde(default)]
    pub(super) pre_commands: Vec<String>,
    #[serde(default)]
    pub(super) post_commands: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Defaults {
    pub(super) virtual_cluster: Value,
    pub(super) deployment: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Extras {
    pub(super) gang_allocation: Value,
    pub(super) storages: Value,
    pub(super) job_status_change_notification: Value,
    pub(super) hived_scheduler: Hived,
    pub(super) muster: Value,
    #[serde(rename = "com.microsoft.pai.runtimeplugin")]
    pub(super) plugins: Vec<Plugin>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Hived {
    pub(super) job_priority_class: Option<PriorityClass>,
    pub(super) lazy_preemption_enable: Option<bool>,
    #[serde(deserialize_with = "in_order")]
    pub(super) task_roles: Vec<(String, HivedRole)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HivedRole {
    pub(super) sku_type: Option<String>,
    pub(super) pinned_cell_id: Option<String>,
    pub(super) affinity_group_name: Option<String>,
}

impl HivedRole {
    /// The type of cells it is to run on.
    pub(super) fn sku(&self) -> Option<&str> {
        self.sku_type.as_deref().filter(|text| !text.is_empty())
    }

    /// The pinned cell it is to run in.
    pub(super) fn pinned(&self) -> Option<&str> {
        self.pinned_cell_id
            .as_deref()
            .filter(|text| !text.is_empty())
    }

    /// Its affinity group.
    pub(super) fn group(&self) -> Option<&str> {
        self.affinity_group_name
            .as_deref()
            .filter(|text| !text.is_empty())
    }
}

impl Hived {
    /// What is said of each task role.
    pub(super) fn by_name(&self) -> BTreeMap<&str, &HivedRole> {
        let roles = self.task_roles.iter();
        roles.map(|(name, role)| (name.as_str(), role)).collect()
    }
}

#[derive(Deserialize)]
pub(super) struct Plugin {
    pub(super) plugin: String,
    #[serde(default)]
    pub(super) parameters: Value,
    pub(super) taskroles: Option<BTreeSet<String>>,
    #[serde(default, rename = "failurePolicy")]
    pub(super) failure_policy: FailurePolicy,
}

/// What a failure of a plugin's commands does.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FailurePolicy {
    /// Fails the task.
    #[default]
    Fail,
    /// Nothing.
    Ignore,
}

impl WrittenJob {
    /// The deployment that is switched on.
    pub(super) fn deployment(&self) -> Option<&Deployment> {
        let name = self.defaults.deployment.as_ref()?;
        self.deployments
            .iter()
            .find(|deployment| deployment.name == *name)
    }

    /// Whether all tasks start together. Only a literal `false` says no.
    pub(super) fn is_gang(&self) -> bool {
        self.extras.gang_allocation != false
    }

    /// Whether there is a task role of this name.
    pub(super) fn has_role(&self, name: &str) -> bool {
        self.task_roles.iter().any(|(role, _)| role == name)
    }
}

impl From<Vec<Prerequisite>> for Prerequisites {
    fn from(items: Vec<Prerequisite>) -> Self {
        let mut by_name = BTreeMap::new();
        let mut by_kind: BTreeMap<PrerequisiteKind, BTreeMap<String, usize>> = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            by_name.insert(item.name().to_owned(), index);
            if let Some(kind) = PrerequisiteKind::of(item.kind()) {
                by_kind
                    .entry(kind)
                    .or_default()
                    .insert(item.name().to_owned(), index);
            }
        }
        Self {
            items,
            by_name,
            by_kind,
        }
    }
}

impl Prerequisites {
    /// In the order written.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Prerequisite> {
        self.items.iter()
    }

    /// The one of a type by name.
    pub(super) fn of_kind(&self, kind: PrerequisiteKind, name: &str) -> Option<&Prerequisite> {
        self.items.get(*self.by_kind.get(&kind)?.get(name)?)
    }

    /// The last one of any type by name, with its index.
    pub(super) fn named(&self, name: &str) -> Option<(usize, &Prerequisite)> {
        let index = *self.by_name.get(name)?;
        Some((index, self.items.get(index)?))
    }
}

impl Prerequisite {
    pub(super) fn name(&self) -> &str {
        self.text("name")
    }

    pub(super) fn kind(&self) -> &str {
        self.text("type")
    }

    /// A text field, empty if there is none.
    pub(super) fn text(&self, field: &str) -> &str {
        self.0
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// A text field of an image's `auth`, empty if there is none.
    pub(super) fn auth(&self, field: &str) -> &str {
        let auth = self.0.get("auth");
        auth.and_then(|auth| auth.get(field))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

impl WrittenRole {
    /// The prerequisites this role selects: type, field and name, in upstream's order.
    pub(super) fn selected(&self) -> Vec<(PrerequisiteKind, &'static str, &str)> {
        let optional = [
            (PrerequisiteKind::Script, "script", &self.script),
            (PrerequisiteKind::Output, "output", &self.output),
            (PrerequisiteKind::Data, "data", &self.data),
        ];
        let optional = optional.into_iter();
        optional
            .filter_map(|(kind, field, name)| Some((kind, field, name.as_deref()?)))
            .chain([(
                PrerequisiteKind::DockerImage,
                "dockerImage",
                self.docker_image.as_str(),
            )])
            .collect()
    }
}

impl PrerequisiteKind {
    fn of(text: &str) -> Option<Self> {
        match text {
            "script" => Some(Self::Script),
            "output" => Some(Self::Output),
            "data" => Some(Self::Data),
            "dockerimage" => Some(Self::DockerImage),
            _ => None,
        }
    }
}

const fn one() -> u32 {
    1
}

/// A mapping as pairs, in the order written.
fn in_order<'de, D, T>(deserializer: D) -> Result<Vec<(String, T)>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let fields = Map::<String, Value>::deserialize(deserializer)?;
    let typed = |(name, value)| match serde_json::from_value(value) {
        Ok(value) => Ok((name, value)),
        Err(error) => Err(D::Error::custom(format!("{name}: {error}"))),
    };
    fields.into_iter().map(typed).collect()
}
