//! Scripts as their authors write them, and what is made of them.

use super::*;
use crate::slurm::directives::directives;
use crate::slurm::job_options::SBATCH_TOOL;
use crate::slurm::option::{self, OptionOrigin};

fn options(script: &str, command_line: &str) -> Vec<GivenOption> {
    let mut all = Vec::new();
    for line in directives(script) {
        let origin = OptionOrigin::Line(line.number);
        all.extend(
            option::read(&SBATCH_TOOL, &line.words, origin)
                .unwrap()
                .options,
        );
    }
    let words: Vec<String> = command_line.split_whitespace().map(str::to_owned).collect();
    let line = option::read(&SBATCH_TOOL, &words, OptionOrigin::CommandLine).unwrap();
    all.extend(line.options);
    all
}

fn planned(script: &str, command_line: &str) -> Result<SlurmPlan, Vec<String>> {
    let facts = PlanFacts {
        name: "script".to_owned(),
        image: Some("img".to_owned()),
    };
    plan(&options(script, command_line), facts)
}

/// `2 nodes, 8 tasks, 16 cores, 4 gpus, 65536 MiB`
fn amounts(script: &str, command_line: &str) -> String {
    match planned(script, command_line) {
        Err(problems) => problems.join("; "),
        Ok(plan) => format!(
            "{} nodes, {} tasks, {} cores, {} gpus, {} MiB",
            plan.nodes, plan.tasks, plan.cpus, plan.gpus, plan.memory.0
        ),
    }
}

#[test]
fn a_script_of_every_kind_becomes_what_it_says() {
    for (script, expect) in [
        (
            "#!/bin/bash\npython x.py\n",
            "1 nodes, 1 tasks, 1 cores, 0 gpus, 2048 MiB",
        ),
        (
            "#!/bin/bash\n#SBATCH --job-name=mnist\n#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=4\n\
             #SBATCH --mem=16G\n#SBATCH --time=02:00:00\n",
            "1 nodes, 1 tasks, 4 cores, 1 gpus, 16384 MiB",
        ),
        (
            "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=v100:4\n\
             #SBATCH -c 8\n#SBATCH --mem=256G\n",
            "2 nodes, 8 tasks, 32 cores, 4 gpus, 262144 MiB",
        ),
        (
            "#!/bin/bash\n#SBATCH -N2 -n8 -c2 --mem-per-cpu=4G\n",
            "2 nodes, 8 tasks, 8 cores, 0 gpus, 32768 MiB",
        ),
        (
            "#!/bin/bash\n#SBATCH --ntasks=6\n#SBATCH --ntasks-per-node=4\n",
            "2 nodes, 6 tasks, 3 cores, 0 gpus, 6144 MiB",
        ),
        (
            "#!/bin/bash\n#SBATCH -n 16\n#SBATCH --mem-per-cpu=1000\n",
            "1 nodes, 16 tasks, 16 cores, 0 gpus, 16000 MiB",
        ),
        (
            "#!/bin/bash\n#SBATCH -G 8\n#SBATCH -N 2\n#SBATCH --cpus-per-gpu=3\n#SBATCH --mem-per-gpu=10G\n",
            "2 nodes, 2 tasks, 12 cores, 4 gpus, 40960 MiB",
        ),
        (
            "#!/bin/bash\n#SBATCH -n 4\n#SBATCH --gpus-per-task=2\n#SBATCH --gres=gpu:8\n",
            "1 nodes, 4 tasks, 4 cores, 8 gpus, 65536 MiB",
        ),
        (
            "#!/bin/bash\n#SBATCH -N 4 -n 2\n",
            "2 nodes, 2 tasks, 1 cores, 0 gpus, 2048 MiB",
        ),
        (
            "#!/bin/bash\n#SBATCH --mem=1G --mem-per-cpu=1G\n",
            "--mem, --mem-per-cpu and --mem-per-gpu exclude each other: give one",
        ),
        (
            "#!/bin/bash\n#SBATCH --gres=gpu:2\n#SBATCH --gpus-per-node=4\n",
            "--gres, --gpus, --gpus-per-node and --gpus-per-task do not agree: give one",
        ),
        (
            "#!/bin/bash\n#SBATCH -N 2 -n 9 --ntasks-per-node=4\n",
            "--ntasks: 9 are more than --nodes times --ntasks-per-node",
        ),
        (
            "#!/bin/bash\n#SBATCH -G 3\n#SBATCH -N 2\n",
            "line 2 of the script: --gpus: 3 cannot be shared out evenly to 2 nodes: give --gpus-per-node",
        ),
        (
            "#!/bin/bash\n#SBATCH -N 2\n#SBATCH -a 1-3\n",
            "--array with more than one node is not supported: submit each as a job",
        ),
        (
            "#!/bin/bash\n#SBATCH -c four\n#SBATCH --mem=much\n",
            "line 2 of the script: --cpus-per-task: \"four\" is no number of at least 1; line 3 of the \
             script: --mem: \"much\" is no size: write 512M, 16G or a number of MiB",
        ),
    ] {
        assert_eq!(amounts(script, ""), expect, "{script}");
    }
}

#[test]
fn the_command_line_wins_over_the_script_and_takes_the_place_of_what_means_the_same() {
    let script = "#!/bin/bash\n#SBATCH -c 8 --mem=64G --gres=gpu:v100:4 -t 60 -J one -J two\n";
    let plan = planned(
        script,
        "--mem-per-cpu=1G -G 2 -t 1-0 -p vision -q prod -D /work",
    )
    .unwrap();
    assert_eq!((plan.memory.0, plan.gpus, plan.gpu_type), (8_192, 2, None));
    assert_eq!((plan.limit, plan.name.as_str()), (Some(86_400), "two"));
    assert_eq!(plan.class.as_deref(), Some("prod"));
    assert_eq!(plan.directory.as_deref(), Some("/work"));
    assert_eq!(plan.partition.unwrap().as_str(), "vision");
    let plan = planned(script, "").unwrap();
    assert_eq!(plan.gpu_type.as_deref(), Some("v100"));
    assert_eq!(plan.warnings, [""; 0]);
}

#[test]
fn an_image_comes_from_one_of_three_places() {
    let image = |command_line: &str, default: Option<&str>| {
        let facts = PlanFacts {
            name: "x".to_owned(),
            image: default.map(str::to_owned),
        };
        plan(&options("#!/bin/sh\n", command_line), facts).map(|plan| plan.image)
    };
    for (command_line, default, expect) in [
        ("", Some("a:1"), "a:1"),
        ("--image b:2", Some("a:1"), "b:2"),
        (
            "--container-image=nvcr.io#nvidia/pytorch:24.05-py3",
            None,
            "nvcr.io/nvidia/pytorch:24.05-py3",
        ),
        (
            "--container-image docker://ubuntu:24.04",
            None,
            "ubuntu:24.04",
        ),
    ] {
        assert_eq!(image(command_line, default), Ok(expect.to_owned()));
    }
    let problems = image("", None).unwrap_err();
    for place in [
        "#SBATCH --container-image",
        "MUSTER_IMAGE",
        ".config/muster/image",
    ] {
        assert!(problems[0].contains(place), "{problems:?}");
    }
}

#[test]
fn what_does_not_go_along_is_told() {
    let plan = planned("#!/bin/sh\n", "--export=ALL,LR=0.1,NAME=a=b --gres=gpu:2").unwrap();
    let exports: Vec<String> = plan
        .exports
        .iter()
        .map(|it| format!("{}={}", it.name, it.value))
        .collect();
    assert_eq!(exports, ["LR=0.1", "NAME=a=b"]);
    let warnings = plan.warnings.join("\n");
    assert!(
        warnings.contains("--export=ALL: the variables of this shell"),
        "{warnings}"
    );
    assert!(warnings.contains("each node gets 16 GiB"), "{warnings}");
    let problems = planned("#!/bin/sh\n", "--export=1A=2 --qos=high").unwrap_err();
    assert!(
        problems.join("\n").contains("no variable name"),
        "{problems:?}"
    );
    assert!(
        problems.join("\n").contains("crit, prod, test"),
        "{problems:?}"
    );
}

#[test]
fn a_name_becomes_part_of_a_jobs_name() {
    for (name, expect) in [
        ("train", "train"),
        ("my job.v2", "my_job_v2"),
        ("größe", "gr__e"),
        ("", "job"),
    ] {
        assert_eq!(stem(name), expect);
    }
    assert_eq!(stem(&"n".repeat(300)).len(), 64);
}
