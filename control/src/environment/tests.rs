//! The variables of placed tasks, ours and OpenPAI's own.

use super::*;
use muster_model::job::{JobEnding, Partition, Resources};
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
        sku: None,
        pinned: None,
        affinity_group: None,
        near: None,
        shm_mb: None,
        infiniband: false,
        storages: Vec::new(),
        has_ssh: false,
        ssh: None,
        pre_commands: Vec::new(),
        entrypoint: String::new(),
        post_commands: Vec::new(),
    }
}

fn place(role: &str, index: u32, address: &str, ports: &[(&str, &[u16])]) -> TaskPlacement {
    let task = muster_model::id::TaskId {
        role: role.parse().unwrap(),
        index,
    };
    TaskPlacement {
        uid: format!("uid-{index}").parse().unwrap(),
        node: "n1".parse().unwrap(),
        address: address.to_owned(),
        leaves: Vec::new(),
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
        lazy: false,
        max_run_s: None,
        ending: JobEnding::default(),
        partition: Partition::default(),
        roles,
        warnings: Vec::new(),
    }
}

fn variables_of(spec: &JobSpec, placements: &[TaskPlacement], own: usize) -> Variables {
    let key = "alice~job".parse().unwrap();
    let all: Vec<&TaskPlacement> = placements.iter().collect();
    let mut env = shared_variables(&key, spec, &all);
    env.extend(super::own(&TaskContext {
        key: &key,
        attempt: 1,
        task_attempt: 2,
        place: all[own],
    }));
    env
}

fn shared_variables(key: &JobKey, spec: &JobSpec, placements: &[&TaskPlacement]) -> Variables {
    super::shared(&Scene {
        key,
        spec,
        placements,
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

fn two_roles() -> (JobSpec, Vec<TaskPlacement>) {
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

/// Upstream's files, where they are at hand.
fn shared(file: &str) -> Option<String> {
    let path = format!("{}/../../shared/data/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path);
    if text.is_err() {
        eprintln!("skipped: {path} is not here");
    }
    text.ok()
}

/// The two roles of OpenPAI's own runtime test.
fn runtime_test() -> (JobSpec, Vec<TaskPlacement>) {
    let placements = vec![
        place(
            "taskrole",
            0,
            "10.151.41.8",
            &[
                ("tcp", &[29877, 22353, 29076]),
                ("udp", &[31903, 33486, 35953]),
                ("ssh", &[39080]),
                ("http", &[30643]),
            ],
        ),
        place(
            "taskrole1",
            0,
            "10.151.41.9",
            &[
                ("mpi", &[20966, 21891]),
                ("tensorflow", &[22829]),
                ("ssh", &[26411]),
                ("http", &[36213]),
            ],
        ),
    ];
    let roles = vec![role("taskrole", 1, 1), role("taskrole1", 1, 1)];
    (spec(roles), placements)
}

/// What OpenPAI's own runtime exported for the same placement.
#[test]
fn agrees_with_openpais_runtime() {
    type Make = fn() -> (JobSpec, Vec<TaskPlacement>);
    let table: [(&str, Make, usize); 3] = [
        ("two-role.worker-1.golden.sh", two_roles, 1),
        ("runtime_env.taskrole-0.golden.sh", runtime_test, 0),
        ("runtime_env.taskrole1-0.golden.sh", runtime_test, 1),
    ];
    for (file, job, own) in table {
        let Some(golden) = shared(&format!("runtime-tests/{file}")) else {
            continue;
        };
        let (spec, placements) = job();
        let env = variables_of(&spec, &placements, own);
        let lines = golden
            .lines()
            .filter_map(|line| line.strip_prefix("export "));
        let expected: Vec<String> = lines.map(|line| line.replace('\'', "")).collect();
        assert!(expected.len() > 25, "{file}");
        check(&env, &expected.join("\n"));
    }
}

/// The first task of each role of a job document, on one node.
fn variables_of_document(user: &str, text: &str) -> Vec<Variables> {
    let protocol = muster_model::protocol::parse(text).unwrap();
    let spec = protocol.job_spec().unwrap();
    let ports: [(&str, &[u16]); 2] = [("ssh", &[1]), ("http", &[2])];
    let places = spec
        .roles
        .iter()
        .map(|role| place(role.name.as_str(), 0, "10.0.0.1", &ports));
    let placements: Vec<TaskPlacement> = places.collect();
    let key = format!("{user}~{}", protocol.name()).parse().unwrap();
    let placements: Vec<&TaskPlacement> = placements.iter().collect();
    let all = shared_variables(&key, &spec, &placements);
    let own = |place: &&TaskPlacement| {
        let own = super::own(&TaskContext {
            key: &key,
            attempt: 0,
            task_attempt: 0,
            place,
        });
        all.clone().into_iter().chain(own).collect()
    };
    placements.iter().map(own).collect()
}

/// The value of a variable as OpenPAI's files have it: text, or a number without quotes.
fn text_of(value: &serde_json::Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Examples that refer to secrets which they do not hold: OpenPAI takes them, and such a job is refused here.
const WITHOUT_THEIR_SECRETS: [&str; 3] = [
    "rs-test-secretmask-secrets_in_the_end.yaml",
    "rt-docker_image_acr_registry.yaml",
    "rt-docker_image_auth.yaml",
];

/// The variables that OpenPAI's REST server gives every task of each example job.
#[test]
fn agrees_with_openpai_on_every_example() {
    let Some(text) = shared("protocol-expected.json") else {
        return;
    };
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut checked = 0;
    for (name, job) in file["jobs"].as_object().unwrap() {
        let Some(expected) = job["jobEnv"].as_object() else {
            continue;
        };
        if WITHOUT_THEIR_SECRETS.contains(&name.as_str()) {
            continue;
        }
        let document = shared(&format!("protocol-examples/{name}")).unwrap();
        for env in variables_of_document("alice", &document) {
            for (variable, value) in expected {
                let value = text_of(value);
                assert_eq!(env.get(variable), Some(&value), "{name}: {variable}");
                checked += 1;
            }
        }
    }
    assert!(checked > 1000, "only {checked} values were compared");
}

/// The pods that OpenPAI made of its own test's job.
#[test]
fn agrees_with_the_pods_of_openpai() {
    let Some(text) = shared("runtime-tests/framework.json") else {
        return;
    };
    let framework: serde_json::Value = serde_json::from_str(&text).unwrap();
    let document = framework["metadata"]["annotations"]["config"].as_str();
    let all = variables_of_document("test_user", document.unwrap());
    let roles = framework["spec"]["taskRoles"].as_array().unwrap();
    assert_eq!(all.len(), roles.len());
    for (env, role) in all.iter().zip(roles) {
        let pod = &role["task"]["pod"]["spec"]["containers"][0]["env"];
        let mut checked = 0;
        for variable in pod.as_array().unwrap() {
            let name = variable["name"].as_str().unwrap();
            let Some(value) = variable["value"].as_str() else {
                assert!(env.contains_key(name), "{name} is missing");
                continue;
            };
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
            checked += 1;
        }
        assert!(checked > 10);
    }
}

#[test]
fn the_machines_of_a_job_are_told_once_each() {
    let (spec, mut placements) = two_roles();
    for (place, node) in placements.iter_mut().zip(["b", "a", "b"]) {
        place.node = node.parse().unwrap();
    }
    let env = variables_of(&spec, &placements, 0);
    check(&env, "MUSTER_MACHINES=b=10.0.0.11,a=10.0.0.12");
}
