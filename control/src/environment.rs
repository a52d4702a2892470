//! The variables a task starts with: OpenPAI's names, from the committed placement.
//!
//! Variables that carry a role name use the name as the job writes it, as the protocol promises.
//! Where OpenPAI's own runtime would have exported a lower-case, stripped name instead, that one
//! is exported too, unless it means another role.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::JobKey;
use muster_model::job::{JobSpec, RoleSpec};
use muster_model::launch::TaskPlacement;

/// The machines that the placed tasks of a job are on: `NAME=ADDRESS` of each, with commas between.
pub const MACHINES: &str = "MUSTER_MACHINES";

/// What the variables are made of that all tasks of a job have.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The job's name.
    pub key: &'a JobKey,
    /// The job.
    pub spec: &'a JobSpec,
    /// Every task that has a place now, in the job's order.
    pub placements: &'a [&'a TaskPlacement],
}

/// What the variables are made of that one task has.
#[derive(Clone, Copy, Debug)]
pub struct TaskContext<'a> {
    /// The job's name.
    pub key: &'a JobKey,
    /// The job's attempt.
    pub attempt: u32,
    /// The task's attempt within it.
    pub task_attempt: u32,
    /// Where the task is.
    pub place: &'a TaskPlacement,
}

/// Variables by their names.
pub type Variables = BTreeMap<String, String>;

/// The variables that all tasks of a job have: the job itself, and where each of them is.
pub fn shared(scene: &Scene<'_>) -> Variables {
    let mut env = Variables::new();
    job(scene, &mut env);
    let peers = peers(scene);
    env.extend(peers);
    env
}

/// The variables of one task; they go before those that all have.
pub fn own(part: &TaskContext<'_>) -> Variables {
    let mut env = Variables::new();
    task(part, &mut env);
    own_ports(part.place, &mut env);
    env
}

fn set(env: &mut Variables, name: impl Into<String>, value: impl ToString) {
    env.insert(name.into(), value.to_string());
}

fn job(scene: &Scene<'_>, env: &mut Variables) {
    let Scene { key, spec, .. } = scene;
    let roles: Vec<&str> = spec.roles.iter().map(|role| role.name.as_str()).collect();
    for name in ["PAI_FRAMEWORK_NAME", "PAI_JOB_NAME"] {
        set(env, name, key);
    }
    for name in ["PAI_USER_NAME", "PAI_USERNAME"] {
        set(env, name, &key.user);
    }
    for name in [
        "PAI_TASK_ROLE_COUNT",
        "PAI_TASK_ROLES_NUM",
        "PAI_JOB_TASK_ROLE_COUNT",
    ] {
        set(env, name, roles.len());
    }
    for name in ["PAI_TASK_ROLE_LIST", "PAI_JOB_TASK_ROLE_LIST"] {
        set(env, name, roles.join(","));
    }
    for name in ["PAI_TASKS_NUM", "PAI_JOB_TASK_COUNT"] {
        set(env, name, spec.task_count());
    }
    set(env, "PAI_DEFAULT_FS_URI", "");
    set(env, "PAI_VIRTUAL_CLUSTER", &spec.vc);
    for role in &spec.roles {
        job_role(role, env);
    }
}

fn job_role(role: &RoleSpec, env: &mut Variables) {
    let name = &role.name;
    let need = &role.resources;
    // OpenPAI shows 0 for a task that names no size, although it mounts one.
    let shm = role.shm_mb.unwrap_or(0);
    let resources = format!("{},{},{},{shm}", need.gpu, need.cpu, need.memory_mb);
    set(
        env,
        format!("PAI_TASK_ROLE_TASK_COUNT_{name}"),
        role.instances,
    );
    set(env, format!("PAI_RESOURCE_{name}"), resources);
    set(
        env,
        format!("PAI_MIN_FAILED_TASK_COUNT_{name}"),
        role.min_failed,
    );
    set(
        env,
        format!("PAI_MIN_SUCCEEDED_TASK_COUNT_{name}"),
        role.min_succeeded,
    );
}

fn task(part: &TaskContext<'_>, env: &mut Variables) {
    let own = part.place;
    set(env, "PAI_CURRENT_TASK_ROLE_NAME", &own.task.role);
    set(
        env,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX",
        own.task.index,
    );
    set(env, "PAI_TASK_INDEX", own.task.index);
    let devices: Vec<String> = own
        .devices
        .iter()
        .map(|(index, _)| index.to_string())
        .collect();
    let devices = if devices.is_empty() {
        "none".to_owned()
    } else {
        devices.join(",")
    };
    set(env, "NVIDIA_VISIBLE_DEVICES", devices);
    set(env, "FC_FRAMEWORK_NAME", part.key);
    set(env, "FC_FRAMEWORK_ATTEMPT_ID", part.attempt);
    set(env, "FC_TASKROLE_NAME", &own.task.role);
    set(env, "FC_TASK_INDEX", own.task.index);
    set(env, "FC_TASK_ATTEMPT_ID", part.task_attempt);
    set(env, "FC_TASK_ATTEMPT_INSTANCE_UID", &own.uid);
    set(env, "FC_POD_UID", &own.uid);
}

/// Addresses and ports of every placed task, under the role's name and its alias.
fn peers(scene: &Scene<'_>) -> Variables {
    let mut env = Variables::new();
    let mut aliases = Variables::new();
    for role in &scene.spec.roles {
        let name = role.name.as_str();
        role_peers(scene, role, name, &mut env);
        if let Some(alias) = alias(scene.spec, name) {
            role_peers(scene, role, &alias, &mut aliases);
        }
    }
    let instances: Vec<String> = scene
        .spec
        .roles
        .iter()
        .flat_map(|role| (0..role.instances).map(move |i| format!("{}:{i}", role.name)))
        .collect();
    set(&mut env, "PAI_TASK_ROLE_INSTANCES", instances.join(","));
    set(&mut env, MACHINES, machines(scene.placements));
    for (name, value) in aliases {
        env.entry(name).or_insert(value);
    }
    env
}

/// `NAME=ADDRESS` of each machine once, in the order of the tasks, with commas between.
fn machines(placements: &[&TaskPlacement]) -> String {
    let mut told = BTreeSet::new();
    let each = placements
        .iter()
        .filter(|place| told.insert(&place.node))
        .map(|place| format!("{}={}", place.node, place.address));
    each.collect::<Vec<_>>().join(",")
}

/// The name that OpenPAI's runtime makes of a role's, if it differs and is no other role's.
fn alias(spec: &JobSpec, name: &str) -> Option<String> {
    let stripped: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let alias = stripped.to_ascii_lowercase();
    let taken = spec.roles.iter().any(|role| role.name.as_str() == alias);
    (!alias.is_empty() && alias != name && !taken).then_some(alias)
}

fn role_peers(scene: &Scene<'_>, role: &RoleSpec, name: &str, env: &mut Variables) {
    let mut hosts = Vec::new();
    for peer in scene
        .placements
        .iter()
        .filter(|peer| peer.task.role == role.name)
    {
        let index = peer.task.index;
        set(env, format!("PAI_HOST_IP_{name}_{index}"), &peer.address);
        for (label, ports) in &peer.ports {
            let list = comma(ports);
            set(env, format!("PAI_PORT_LIST_{name}_{index}_{label}"), &list);
            set(env, format!("PAI_{name}_{index}_{label}_PORT"), list);
        }
        hosts.push(format!("{}:{}", peer.address, first_port(peer, "http")));
    }
    if !hosts.is_empty() {
        set(
            env,
            format!("PAI_TASK_ROLE_{name}_HOST_LIST"),
            hosts.join(","),
        );
    }
}

fn own_ports(own: &TaskPlacement, env: &mut Variables) {
    for name in ["PAI_CURRENT_CONTAINER_IP", "PAI_CONTAINER_HOST_IP"] {
        set(env, name, &own.address);
    }
    for name in ["PAI_CURRENT_CONTAINER_PORT", "PAI_CONTAINER_HOST_PORT"] {
        set(env, name, first_port(own, "http"));
    }
    set(env, "PAI_CONTAINER_SSH_PORT", first_port(own, "ssh"));
    let mut all = String::new();
    for (label, ports) in &own.ports {
        let list = comma(ports);
        all.push_str(&format!("{label}:{list};"));
        set(env, format!("PAI_CONTAINER_HOST_{label}_PORT_LIST"), list);
    }
    set(env, "PAI_CONTAINER_HOST_PORT_LIST", all);
}

fn first_port(placement: &TaskPlacement, label: &str) -> String {
    let ports = placement.ports.iter().find(|(name, _)| name == label);
    let first = ports.and_then(|(_, ports)| ports.first());
    first.map(u16::to_string).unwrap_or_default()
}

fn comma(ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    ports.join(",")
}

#[cfg(test)]
mod tests;
