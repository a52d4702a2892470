//! From a checked document to the job that control and placement work with.

use serde_json::Value;

use crate::id::{InvalidName as NameError, RoleName, VcName};
use crate::job::{JobSpec, NearSpec, Resources, RoleSpec};
use crate::launch::RegistryAuth;

use super::JobProblem;
use super::document::{
    HivedRole, Prerequisite, PrerequisiteKind, RoleResources, WrittenJob, WrittenRole,
};
use super::muster;
use super::plugins::{PluginHooks, hooks};
use super::secrets::password_reference;
use super::ssh;
use super::storages;
use super::template::{RenderBudget, Scope, TemplateError, render};
use super::tools;
use super::warnings::warnings;

/// Cores of a task that asks for none. Upstream would start it without a limit, at its
/// neighbours' cost; here every task has one.
pub const CPU_LEAST: u32 = 1;
/// Memory in MiB of a task that asks for none.
pub const MEMORY_MB_LEAST: u64 = 1024;
/// The virtual cluster of a job that names none.
const VC_DEFAULT: &str = "default";
const VC_PATH: &str = ".defaults.virtualCluster";
/// OpenPAI gives every task these ports.
const PORTS_ALWAYS: [&str; 2] = ["ssh", "http"];

/// What a job's `extras` say of where a role is to run.
struct RoleWishes<'a> {
    hived: Option<&'a HivedRole>,
    near: Option<NearSpec>,
}

/// Every role's commands as one script, in the order of the roles.
pub(super) fn entrypoints(document: &WrittenJob) -> Result<Vec<(String, String)>, Vec<JobProblem>> {
    let mut budget = RenderBudget::whole_job();
    collect(document.task_roles.iter().map(|(name, role)| {
        let script = commands(document, name, role).join("\n");
        match render(&script, &scope(document, role), &mut budget) {
            Ok(entrypoint) => Ok((name.clone(), entrypoint)),
            Err(error) => Err(in_commands(name, &error)),
        }
    }))
}

/// The job; `entrypoints` as the function of that name made them.
pub(super) fn job_spec(
    document: &WrittenJob,
    source: &Value,
    entrypoints: &[(String, String)],
) -> Result<JobSpec, Vec<JobProblem>> {
    let mut budget = RenderBudget::whole_job();
    let wishes = muster::read(document)?;
    let storages = storages::job_storages(document)?;
    let accesses = ssh::accesses(document, &mut budget)?;
    let hived = document.extras.hived_scheduler.by_name();
    let roles = document.task_roles.iter().zip(entrypoints).zip(accesses);
    let roles = collect(roles.map(|(((name, role), (_, entrypoint)), ssh)| {
        let hooks = hooks(document, (name, role), &scope(document, role), &mut budget)?;
        let wishes = RoleWishes {
            hived: hived.get(name.as_str()).copied(),
            near: wishes.near.get(name).copied(),
        };
        let role = role_spec(document, (name, role), wishes, hooks, entrypoint)?;
        let storages = storages.clone();
        Ok(RoleSpec {
            storages,
            has_ssh: ssh.is_some(),
            ssh,
            ..role
        })
    }));
    let vc = virtual_cluster(document);
    let (roles, vc) = match (roles, vc) {
        (Ok(roles), Ok(vc)) => (roles, vc),
        (roles, vc) => {
            return Err(roles.err().into_iter().flatten().chain(vc.err()).collect());
        }
    };
    Ok(JobSpec {
        vc,
        retry_count: document.job_retry_count,
        gang: document.is_gang(),
        priority: document.extras.hived_scheduler.job_priority_class,
        lazy: document.extras.hived_scheduler.lazy_preemption_enable == Some(true),
        max_run_s: wishes.max_run_s,
        ending: wishes.ending,
        partition: wishes.partition,
        roles,
        warnings: warnings(document, source),
    })
}

/// All values, or all problems.
fn collect<T>(
    results: impl Iterator<Item = Result<T, JobProblem>>,
) -> Result<Vec<T>, Vec<JobProblem>> {
    let mut values = Vec::new();
    let mut problems = Vec::new();
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(values)
    } else {
        Err(problems)
    }
}

fn commands<'a>(document: &'a WrittenJob, name: &str, role: &'a WrittenRole) -> Vec<&'a str> {
    let deployed = document
        .deployment()
        .and_then(|deployment| deployment.task_roles.get(name));
    let pre = deployed
        .map(|role| role.pre_commands.as_slice())
        .unwrap_or_default();
    let post = deployed
        .map(|role| role.post_commands.as_slice())
        .unwrap_or_default();
    pre.iter()
        .chain(&role.commands)
        .chain(post)
        .map(|command| command.trim())
        .collect()
}

/// What the references of a role may point into.
pub(super) fn scope<'a>(document: &'a WrittenJob, role: &'a WrittenRole) -> Scope<'a> {
    let selected = |kind, name: &Option<String>| {
        let item = document.prerequisites.of_kind(kind, name.as_ref()?)?;
        Some(&item.0)
    };
    Scope {
        parameters: Some(&document.parameters),
        script: selected(PrerequisiteKind::Script, &role.script),
        output: selected(PrerequisiteKind::Output, &role.output),
        data: selected(PrerequisiteKind::Data, &role.data),
    }
}

fn in_commands(role: &str, error: &TemplateError) -> JobProblem {
    JobProblem::at(format!(".taskRoles.{role}.commands"), error.to_string())
}

fn virtual_cluster(document: &WrittenJob) -> Result<VcName, JobProblem> {
    let name = match &document.defaults.virtual_cluster {
        Value::Null => VC_DEFAULT,
        Value::String(name) if name.is_empty() => VC_DEFAULT,
        Value::String(name) => name,
        _ => return Err(JobProblem::at(VC_PATH, "should be string")),
    };
    name.parse()
        .map_err(|error: NameError| JobProblem::at(VC_PATH, error.to_string()))
}

fn role_spec(
    document: &WrittenJob,
    (name, role): (&str, &WrittenRole),
    wishes: RoleWishes,
    hooks: PluginHooks,
    entrypoint: &str,
) -> Result<RoleSpec, JobProblem> {
    let path = format!(".taskRoles.{name}");
    let parsed: RoleName = name
        .parse()
        .map_err(|error: NameError| JobProblem::at(path.clone(), error.to_string()))?;
    let image = document
        .prerequisites
        .of_kind(PrerequisiteKind::DockerImage, &role.docker_image);
    let uri = image.map_or("", |image| image.text("uri"));
    if uri.trim().is_empty() {
        let message = format!("Prerequisite {} has an empty uri.", role.docker_image);
        return Err(JobProblem::at(format!("{path}.dockerImage"), message));
    }
    let completion = &role.completion;
    let instances = i32::try_from(role.instances).unwrap_or(i32::MAX);
    let named = |field: fn(&HivedRole) -> Option<&str>| {
        let text = wishes.hived.and_then(field);
        text.map(str::to_owned)
    };
    Ok(RoleSpec {
        name: parsed,
        instances: role.instances,
        min_failed: set(completion.min_failed_instances).unwrap_or(1),
        min_succeeded: set(completion.min_succeeded_instances).unwrap_or(instances),
        task_retry_count: role.task_retry_count,
        image: uri.trim().to_owned(),
        image_auth: image.and_then(registry_auth),
        resources: resources(
            &role.resource_per_instance,
            tools::asks_for_port(document, name, role),
        ),
        sku: named(HivedRole::sku),
        pinned: named(HivedRole::pinned),
        affinity_group: named(HivedRole::group),
        near: wishes.near,
        shm_mb: Some(role.extra_container_options.shm_mb).filter(|mb| *mb > 0),
        infiniband: role.extra_container_options.infiniband,
        // All roles of a job have the same.
        storages: Vec::new(),
        has_ssh: false,
        ssh: None,
        pre_commands: hooks.pre,
        entrypoint: entrypoint.to_owned(),
        post_commands: hooks.post,
    })
}

/// Upstream takes 0 for "not set".
fn set(threshold: Option<i32>) -> Option<i32> {
    threshold.filter(|count| *count != 0)
}

fn registry_auth(image: &Prerequisite) -> Option<RegistryAuth> {
    let auth = RegistryAuth {
        username: image.auth("username").trim().to_owned(),
        password: password_reference(image.name(), image.auth("password")),
        registry: image.auth("registryuri").trim().to_owned(),
    };
    let given = !auth.username.is_empty() || !auth.password.is_empty();
    given.then_some(auth)
}

/// `has_board`: TensorBoard gets a port of its own.
fn resources(requests: &RoleResources, has_board: bool) -> Resources {
    let mut ports = requests.ports.clone();
    let board = has_board.then_some(tools::TENSORBOARD);
    for label in board.into_iter().chain(PORTS_ALWAYS) {
        match ports.iter_mut().find(|(name, _)| name == label) {
            Some((_, count)) => *count = (*count).max(1),
            None => ports.push((label.to_owned(), 1)),
        }
    }
    Resources {
        cpu: requests.cpu.max(CPU_LEAST),
        memory_mb: if requests.memory_mb == 0 {
            MEMORY_MB_LEAST
        } else {
            requests.memory_mb
        },
        gpu: requests.gpu,
        ports,
    }
}
