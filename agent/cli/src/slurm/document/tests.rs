//! Documents are read by the protocol, and their commands are run by a shell.

use std::process::{Command, Output};

use muster_model::protocol;

use super::*;
use crate::byte_size::Mebibytes;

const NUMBER: &str = "123456789";

fn number() -> SlurmNumber {
    let name = format!("x-{NUMBER}").parse().unwrap();
    SlurmNumber::split(&name).1.unwrap()
}

fn sample() -> SlurmPlan {
    SlurmPlan {
        name: "my job".to_owned(),
        image: "registry.example/a/b:1".to_owned(),
        nodes: 1,
        tasks: 1,
        tasks_per_node: None,
        cpus_per_task: 1,
        cpus: 1,
        gpus: 0,
        memory: Mebibytes(2_048),
        gpu_type: None,
        partition: None,
        limit: None,
        class: None,
        directory: None,
        exports: Vec::new(),
        array: None,
        warnings: Vec::new(),
    }
}

fn spec(plan: &SlurmPlan, script: &str, arguments: &[String]) -> muster_model::job::JobSpec {
    let script = SlurmScript {
        text: script,
        arguments,
        directory: "/home/ada/it's",
        host: "login1",
    };
    let text = document(plan, script, number()).unwrap();
    let parsed = protocol::parse(&text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    parsed.job_spec().unwrap()
}

/// Runs the commands as instance `index` of a job on machines a, b, ...
fn run(plan: &SlurmPlan, script: &str, arguments: &[&str], index: u32) -> Output {
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    let spec = spec(plan, script, &arguments);
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(&spec.roles[0].entrypoint)
        .env("TMPDIR", folder.path())
        .env(
            "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX",
            index.to_string(),
        )
        .env("PAI_CURRENT_CONTAINER_IP", "10.0.0.1")
        .env("PAI_VIRTUAL_CLUSTER", "vision")
        .env("PAI_USER_NAME", "ada")
        .env("FC_FRAMEWORK_ATTEMPT_ID", "0")
        .env("MUSTER_MACHINES", "a=10.0.0.1,b=10.0.0.2")
        .env("PAI_HOST_IP_main_0", "10.0.0.1")
        .env("PAI_HOST_IP_main_1", "10.0.0.2")
        .env("PAI_HOST_IP_main_2", "10.0.0.2");
    command.output().unwrap()
}

fn printed(plan: &SlurmPlan, script: &str, arguments: &[&str], index: u32) -> String {
    let output = run(plan, script, arguments, index);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {err}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_document_asks_for_what_the_plan_says() {
    let mut plan = sample();
    plan.nodes = 2;
    plan.tasks = 8;
    (plan.cpus, plan.gpus, plan.memory) = (16, 4, Mebibytes(65_536));
    plan.gpu_type = Some("V100".to_owned());
    plan.partition = Some("vision".parse().unwrap());
    plan.class = Some("prod".to_owned());
    plan.limit = Some(3_600);
    let spec_of_nodes = spec(&plan, "#!/bin/sh\n", &[]);
    let limit = (
        spec_of_nodes.max_run_s,
        spec_of_nodes.ending.is_max_run_binding,
    );
    assert_eq!(limit, (Some(3_600), true));
    let role = &spec_of_nodes.roles[0];
    assert_eq!(
        (role.instances, role.min_failed, role.min_succeeded),
        (2, 1, 2)
    );
    let need = &role.resources;
    assert_eq!((need.cpu, need.gpu, need.memory_mb), (16, 4, 65_536));
    assert_eq!(
        (spec_of_nodes.vc.as_str(), spec_of_nodes.retry_count),
        ("vision", 0)
    );
    let text = format!("{spec_of_nodes:?}");
    for word in ["V100", "3600", "Prod"] {
        assert!(text.contains(word), "{word}: {text}");
    }

    let mut plan = sample();
    plan.array = Some(ArrayIds(vec![1, 3, 5]));
    let spec_of_array = spec(&plan, "#!/bin/sh\n", &[]);
    let role = &spec_of_array.roles[0];
    assert_eq!(
        (role.instances, role.min_failed, role.min_succeeded),
        (3, 3, -1)
    );
}

#[test]
fn a_script_runs_by_its_own_interpreter_with_its_arguments_and_status() {
    let plan = sample();
    let script =
        "#!/bin/sh\nprintf '%s|' \"$@\"; echo \"<% $0 %>\" | grep -c slurm_script; exit 7\n";
    let output = run(&plan, script, &["a b", "", "$HOME", "it's"], 0);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "a b||$HOME|it's|1\n"
    );
    assert_eq!(output.status.code(), Some(7));
    let output = run(&plan, "#!/no/such/program\n", &[], 0);
    assert_eq!(output.status.code(), Some(127));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("the image has no /no/such/program"), "{err}");
}

#[test]
fn a_script_finds_what_slurm_tells_it() {
    let mut plan = sample();
    (plan.nodes, plan.tasks, plan.tasks_per_node) = (3, 5, Some(2));
    plan.exports = vec!["LR=a b".parse().unwrap()];
    let script = "#!/bin/sh\necho $SLURM_JOB_ID $SLURM_JOB_NAME $SLURM_NNODES $SLURM_NTASKS $SLURM_NODEID \
                  $SLURM_PROCID \"$SLURM_TASKS_PER_NODE\" $SLURM_JOB_NODELIST $SLURM_JOB_PARTITION \
                  $SLURM_JOB_USER \"$SLURM_SUBMIT_DIR\" $LR\nscontrol show hostnames $SLURM_JOB_NODELIST\n";
    assert_eq!(
        printed(&plan, script, &[], 2),
        "123456789 my job 3 5 2 4 2(x2),1 a,b,b vision ada /home/ada/it's a b\na\nb\nb\n"
    );
    let mut plan = sample();
    plan.array = Some(ArrayIds(vec![1, 3, 5]));
    let script = "#!/bin/sh\necho $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_TASK_MIN \
                  $SLURM_ARRAY_TASK_MAX $SLURM_ARRAY_JOB_ID\n";
    assert_eq!(printed(&plan, script, &[], 0), "1 3 1 5 123456789\n");
    assert_eq!(printed(&plan, script, &[], 2), "5 3 1 5 123456789\n");
}

#[test]
fn srun_starts_the_tasks_of_its_node_once_each() {
    let mut plan = sample();
    (plan.nodes, plan.tasks) = (2, 5);
    let tasks = |line: &str, index| {
        let script = format!("#!/bin/sh\nset -e\n{line}\n");
        let text = printed(&plan, &script, &[], index);
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.join(" ")
    };
    let all = "srun sh -c 'echo $SLURM_PROCID.$SLURM_LOCALID/$SLURM_NTASKS'";
    assert_eq!(tasks(all, 0), "0.0/5 1.1/5 2.2/5");
    assert_eq!(tasks(all, 1), "3.0/5 4.1/5");
    let one = "srun -N1 --ntasks=1 -u --cpu-bind=none sh -c 'echo $SLURM_PROCID/$SLURM_NTASKS'";
    assert_eq!(
        (tasks(one, 0), tasks(one, 1)),
        ("0/1".to_owned(), String::new())
    );
    let per_node = "srun --ntasks-per-node 1 sh -c 'echo $SLURM_PROCID'";
    assert_eq!(
        (tasks(per_node, 0), tasks(per_node, 1)),
        ("0".to_owned(), "1".to_owned())
    );
    for (line, code, word) in [
        ("srun --pty bash", 2, "--pty is not supported"),
        ("srun -n zero id", 2, "write a number"),
        ("srun -N 3 id", 2, "the job has 2 nodes"),
        ("srun", 2, "no command"),
        ("srun sh -c 'exit $((SLURM_PROCID + 3))'", 5, ""),
        ("srun -n 2 no-such-program", 127, "no-such-program"),
    ] {
        let output = run(&plan, &format!("#!/bin/sh\n{line}\n"), &[], 0);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {err}");
        assert!(err.contains(word), "{line}: {err}");
    }
}

#[test]
fn a_directory_has_to_be_there() {
    let mut plan = sample();
    plan.directory = Some("/".to_owned());
    assert_eq!(printed(&plan, "#!/bin/sh\npwd\n", &[], 0), "/\n");
    plan.directory = Some("/no/such".to_owned());
    assert_eq!(
        run(&plan, "#!/bin/sh\npwd\n", &[], 0).status.code(),
        Some(1)
    );
}
