//! The variables a task starts with: OpenPAI's names, from the committed placement.
//!
//! Variables that carry a role name use the name as the job writes it, as the protocol promises.
//! Where OpenPAI's own runtime would have exported a lower-case, stripped name instead, that one
//! is exported too, unless it means another role.

use std::collections::BTreeMap;

use muster_model::id::JobKey;
use muster_model::job::{JobSpec, RoleSpec};
use muster_model::launch::Placement;

/// Everything the variables of one task are made of.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The job's name.
    pub key: &'a JobKey,
    /// The job.
    pub spec: &'a JobSpec,
    /// The job's attempt.
    pub attempt: u32,
    /// The task's attempt within it.
    pub task_attempt: u32,
    /// Every task that has a place now, this one included, in the job's order.
    pub placements: &'a [Placement],
    /// This task.
    pub own: &'a Placement,
}

type Variables = BTreeMap<String, String>;

/// The variables of a task.
pub fn variables(scene: &Scene<'_>) -> Variables {
    let mut env = Variables::new();
    job(scene, &mut env);
    task(scene, &mut env);
    let peers = peers(scene);
    env.extend(peers);
    own_ports(scene.own, &mut env);
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

fn task(scene: &Scene<'_>, env: &mut Variables) {
    let own = scene.own;
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
    set(env, "FC_FRAMEWORK_NAME", scene.key);
    set(env, "FC_FRAMEWORK_ATTEMPT_ID", scene.attempt);
    set(env, "FC_TASKROLE_NAME", &own.task.role);
    set(env, "FC_TASK_INDEX", own.task.index);
    set(env, "FC_TASK_ATTEMPT_ID", scene.task_attempt);
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
    for (name, value) in aliases {
        env.entry(name).or_insert(value);
    }
    env
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

fn own_ports(own: &Placement, env: &mut Variables) {
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

fn first_port(placement: &Placement, label: &str) -> String {
    let ports = placement.ports.iter().find(|(name, _)| name == label);
    let first = ports.and_then(|(_, ports)| ports.first());
    first.map(u16::to_string).unwrap_or_default()
}

fn comma(ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    ports.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::job::Resources;
    use muster_model::node::DeviceId;

    fn role(name: &str, instances: u32, gpu: u32) -> RoleSpec {
        RoleSpec {
            name: name.parse().unwrap(),
            instances,
            min_failed: 1,
            min_succeeded: -1,
            task_retry_count: 0,
            image: String::new(),
            image_auth: None,
            resources: Resources {
                cpu: 8,
                memory_mb: 16384,
                gpu,
                ports: Vec::new(),
            },
            shm_mb: None,
            infiniband: false,
            pre_commands: Vec::new(),
            entrypoint: String::new(),
            post_commands: Vec::new(),
        }
    }

    fn place(role: &str, index: u32, address: &str, ports: &[(&str, &[u16])]) -> Placement {
        let task = muster_model::id::TaskId {
            role: role.parse().unwrap(),
            index,
        };
        Placement {
            uid: format!("uid-{index}").parse().unwrap(),
            node: "n1".parse().unwrap(),
            address: address.to_owned(),
            devices: vec![(2, DeviceId("b".to_owned())), (3, DeviceId("c".to_owned()))],
            ports: ports
                .iter()
                .map(|(label, list)| ((*label).to_owned(), list.to_vec()))
                .collect(),
            task,
        }
    }

    fn spec(roles: Vec<RoleSpec>) -> JobSpec {
        JobSpec {
            vc: "default".parse().unwrap(),
            retry_count: 0,
            gang: true,
            priority: None,
            roles,
            notes: Vec::new(),
        }
    }

    fn variables_of(spec: &JobSpec, placements: &[Placement], own: usize) -> Variables {
        variables(&Scene {
            key: &"alice~job".parse().unwrap(),
            spec,
            attempt: 1,
            task_attempt: 2,
            placements,
            own: &placements[own],
        })
    }

    /// The expected lines are `NAME=value`; every one must be there.
    fn check(env: &Variables, expected: &str) {
        for line in expected
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let (name, value) = line.split_once('=').unwrap();
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    fn two_roles() -> (JobSpec, Vec<Placement>) {
        let placements = vec![
            place(
                "worker",
                0,
                "10.0.0.11",
                &[
                    ("mpi", &[37167, 19549]),
                    ("ssh", &[27456]),
                    ("http", &[19274]),
                ],
            ),
            place(
                "worker",
                1,
                "10.0.0.12",
                &[
                    ("mpi", &[36421, 38482]),
                    ("ssh", &[19997]),
                    ("http", &[23922]),
                ],
            ),
            place(
                "ps",
                0,
                "10.0.0.21",
                &[("ssh", &[17664]), ("http", &[17533])],
            ),
        ];
        (
            spec(vec![role("worker", 2, 4), role("ps", 1, 0)]),
            placements,
        )
    }

    #[test]
    fn a_task_of_two_roles() {
        let (spec, placements) = two_roles();
        let env = variables_of(&spec, &placements, 1);
        check(
            &env,
            "PAI_HOST_IP_worker_0=10.0.0.11
            PAI_HOST_IP_ps_0=10.0.0.21
            PAI_PORT_LIST_worker_1_mpi=36421,38482
            PAI_worker_1_mpi_PORT=36421,38482
            PAI_TASK_ROLE_worker_HOST_LIST=10.0.0.11:19274,10.0.0.12:23922
            PAI_TASK_ROLE_ps_HOST_LIST=10.0.0.21:17533
            PAI_CURRENT_CONTAINER_IP=10.0.0.12
            PAI_CURRENT_CONTAINER_PORT=23922
            PAI_CONTAINER_SSH_PORT=19997
            PAI_CONTAINER_HOST_mpi_PORT_LIST=36421,38482
            PAI_CONTAINER_HOST_PORT_LIST=mpi:36421,38482;ssh:19997;http:23922;
            PAI_TASK_ROLE_INSTANCES=worker:0,worker:1,ps:0
            PAI_TASK_ROLE_LIST=worker,ps
            PAI_TASKS_NUM=3
            PAI_TASK_ROLE_TASK_COUNT_worker=2
            PAI_RESOURCE_worker=4,8,16384,0
            PAI_MIN_FAILED_TASK_COUNT_worker=1
            PAI_MIN_SUCCEEDED_TASK_COUNT_worker=-1
            PAI_JOB_NAME=alice~job
            PAI_USER_NAME=alice
            PAI_DEFAULT_FS_URI=
            PAI_CURRENT_TASK_ROLE_NAME=worker
            PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=1
            PAI_TASK_INDEX=1
            NVIDIA_VISIBLE_DEVICES=2,3
            FC_FRAMEWORK_ATTEMPT_ID=1
            FC_TASK_ATTEMPT_ID=2
            FC_POD_UID=uid-1",
        );
    }

    #[test]
    fn names_that_openpai_would_strip_get_an_alias() {
        let ports: [(&str, &[u16]); 1] = [("http", &[9])];
        let placements = [
            place("Task_Role", 0, "10.0.0.1", &ports),
            place("a_b", 0, "10.0.0.2", &ports),
            place("ab", 0, "10.0.0.3", &ports),
        ];
        let spec = spec(vec![
            role("Task_Role", 1, 1),
            role("a_b", 1, 1),
            role("ab", 1, 1),
        ]);
        let env = variables_of(&spec, &placements, 0);
        check(
            &env,
            "PAI_HOST_IP_Task_Role_0=10.0.0.1
            PAI_HOST_IP_taskrole_0=10.0.0.1
            PAI_TASK_ROLE_taskrole_HOST_LIST=10.0.0.1:9
            PAI_HOST_IP_a_b_0=10.0.0.2
            PAI_HOST_IP_ab_0=10.0.0.3",
        );
    }

    /// What OpenPAI's own runtime exported for the same placement, where the files are at hand.
    #[test]
    fn agrees_with_openpai() {
        let golden = "../../shared/data/runtime-tests/two-role.worker-1.golden.sh";
        let Ok(golden) = std::fs::read_to_string(golden) else {
            eprintln!("skipped: {golden} is not here");
            return;
        };
        let (spec, placements) = two_roles();
        let env = variables_of(&spec, &placements, 1);
        let lines = golden
            .lines()
            .filter_map(|line| line.strip_prefix("export "));
        let expected: Vec<String> = lines.map(|line| line.replace('\'', "")).collect();
        assert!(expected.len() > 30);
        check(&env, &expected.join("\n"));
    }
}
