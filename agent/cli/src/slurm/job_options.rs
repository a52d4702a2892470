//! The options of sbatch and srun.

use super::option::OptionValue::{Needed, No, Optional};
use super::option::{NO_SHORT as X, OF_ALL, SlurmOption, SlurmTool, done, refused, warned};

/// What both take.
const OF_BOTH: &[SlurmOption] = &[
    done(
        'J',
        "job-name",
        Needed,
        "name of the job; Muster appends its number",
    ),
    done(
        'N',
        "nodes",
        Needed,
        "nodes: parts of the job, each with a container of its own",
    ),
    done('n', "ntasks", Needed, "tasks, which srun starts"),
    done(X, "ntasks-per-node", Needed, "tasks on each node"),
    done('c', "cpus-per-task", Needed, "CPU cores of each task"),
    done(X, "cpus-per-gpu", Needed, "CPU cores for each GPU"),
    done(
        X,
        "mem",
        Needed,
        "memory on each node, with K, M, G or T; MiB without",
    ),
    done(X, "mem-per-cpu", Needed, "memory for each core"),
    done(X, "mem-per-gpu", Needed, "memory for each GPU"),
    done(X, "gres", Needed, "gpu[:TYPE][:N]: GPUs on each node"),
    done('G', "gpus", Needed, "[TYPE:]N: GPUs of the job"),
    done(X, "gpus-per-node", Needed, "[TYPE:]N: GPUs on each node"),
    done(X, "gpus-per-task", Needed, "[TYPE:]N: GPUs for each task"),
    done('p', "partition", Needed, "virtual cluster"),
    done('t', "time", Needed, "time limit: the job is ended then"),
    done(
        'q',
        "qos",
        Needed,
        "priority class: crit, prod, test or oppo",
    ),
    done(
        'D',
        "chdir",
        Needed,
        "working directory inside the container",
    ),
    done(
        X,
        "export",
        Needed,
        "NAME[=VALUE],... for the job; NONE for nothing",
    ),
    done(
        X,
        "container-image",
        Needed,
        "image; registry#name:tag as pyxis writes it, too",
    ),
    done(X, "image", Needed, "the same"),
    done(
        'v',
        "verbose",
        No,
        "print the job that is submitted, on stderr",
    ),
    done('Q', "quiet", No, "no warnings"),
    done('h', "help", No, "this text"),
    warned(
        'A',
        "account",
        Needed,
        "there are no accounts; the virtual cluster's quota counts",
    ),
    warned(
        X,
        "mail-type",
        Needed,
        "nobody is notified; `muster job wait` waits for the end",
    ),
    warned(
        X,
        "mail-user",
        Needed,
        "nobody is notified; `muster job wait` waits for the end",
    ),
    warned(X, "comment", Needed, "it is not kept"),
    warned(
        X,
        "no-requeue",
        No,
        "a job that is lost with its machine starts again all the same",
    ),
    warned(X, "cpu-bind", Needed, "tasks are not bound to cores"),
    warned(X, "mem-bind", Needed, "tasks are not bound to memory"),
    warned(
        X,
        "gpu-bind",
        Needed,
        "each task sees all GPUs of its node; choose by SLURM_LOCALID",
    ),
    done(
        X,
        "requeue",
        No,
        "what happens anyway to a job that is lost with its machine",
    ),
    refused(
        'd',
        "dependency",
        "submit the first with --wait, then the next: sbatch --wait a.sh && sbatch b.sh",
    ),
    refused(
        'w',
        "nodelist",
        "Muster chooses the nodes; GPUs of one type: --gres=gpu:TYPE:N",
    ),
    refused(
        'x',
        "exclude",
        "an admin keeps jobs off a node: `muster cordon`",
    ),
    refused(
        X,
        "exclusive",
        "ask for all GPUs or cores of a node: --gres=gpu:N, -c N",
    ),
    refused('C', "constraint", "GPUs of one type: --gres=gpu:TYPE:N"),
    refused('b', "begin", "submit it later, as with at(1)"),
    refused('H', "hold", "submit it when it is to run"),
    refused(X, "deadline", "limit its time: --time"),
    refused(
        X,
        "signal",
        "handle SIGTERM, which a job gets before it is stopped (docs/jobs.md)",
    ),
    refused(X, "time-min", "give one --time"),
    refused(X, "reservation", "name a virtual cluster: --partition"),
    refused('L', "licenses", "there are none"),
    refused(X, "priority", "name a priority class: --qos"),
    refused(X, "nice", "name a priority class: --qos"),
    refused('O', "overcommit", "ask for fewer cores: -c"),
    refused('s', "oversubscribe", "cores and GPUs are not shared"),
    refused('m', "distribution", "tasks are numbered node by node"),
    refused('B', "extra-node-info", "ask for cores: -c"),
    refused(X, "sockets-per-node", "ask for cores: -c"),
    refused(X, "cores-per-socket", "ask for cores: -c"),
    refused(X, "threads-per-core", "ask for cores: -c"),
    refused(X, "hint", "ask for cores: -c"),
    refused(X, "mincpus", "ask for cores: -c"),
    refused('S', "core-spec", "ask for cores: -c"),
    refused(X, "ntasks-per-core", "give --ntasks-per-node"),
    refused(X, "ntasks-per-socket", "give --ntasks-per-node"),
    refused(
        X,
        "ntasks-per-gpu",
        "give --ntasks-per-node and --gpus-per-node",
    ),
    refused(X, "gpus-per-socket", "give --gpus-per-node"),
    refused(X, "gpu-freq", "it cannot be set"),
    refused(X, "cpu-freq", "it cannot be set"),
    refused(
        X,
        "tmp",
        "a job may fill its writable layer as far as the policy allows",
    ),
    refused(
        X,
        "switches",
        "near each other: `topology` in a job file (docs/jobs.md)",
    ),
    refused(
        X,
        "contiguous",
        "near each other: `topology` in a job file (docs/jobs.md)",
    ),
    refused(X, "uid", "log in as that user"),
    refused(X, "gid", "groups are the image's"),
    refused(X, "get-user-env", "name variables: --export"),
    refused(X, "propagate", "limits are the container's"),
    refused(X, "container-mounts", "nothing of the machine is mounted"),
    refused(X, "container-workdir", "give --chdir"),
    refused(X, "container-name", "every job has a container of its own"),
    refused(X, "container-save", "build an image, and push it"),
    refused(X, "container", "name an image: --container-image"),
    refused(X, "network", "a job has the network of its machine"),
    refused(X, "input", "read the file in the script"),
];

const SBATCH: &[SlurmOption] = &[
    done('a', "array", Needed, "ids of tasks: 0-9, 0-20:5, 1,3,5"),
    done(X, "wrap", Needed, "a command in place of a script"),
    done(X, "parsable", No, "print the number alone"),
    done(X, "test-only", No, "check the job, and do not submit it"),
    done(
        'W',
        "wait",
        No,
        "wait until it has ended, and exit as it does",
    ),
    warned(
        'o',
        "output",
        Needed,
        "no file is written: `muster job logs JOB` shows what the job writes",
    ),
    warned(
        'e',
        "error",
        Needed,
        "no file is written: `muster job logs JOB --name stderr` shows it",
    ),
    warned(
        X,
        "open-mode",
        Needed,
        "no file is written: `muster job logs JOB` shows what the job writes",
    ),
];

const SRUN: &[SlurmOption] = &[
    warned('u', "unbuffered", No, "output is never held back here"),
    warned(
        'K',
        "kill-on-bad-exit",
        Optional,
        "a job ends anyway when the task of a node fails",
    ),
    refused('o', "output", "write > FILE behind the command"),
    refused('e', "error", "write 2> FILE behind the command"),
    refused(
        'l',
        "label",
        "`muster job logs JOB` names the part that wrote a line",
    ),
    refused(
        X,
        "pty",
        "there is no terminal in a job; run a command, or start sshd in the job",
    ),
    refused(
        X,
        "mpi",
        "there is no process manager: start ranks with mpirun or torchrun",
    ),
    refused(
        X,
        "jobid",
        "a step of a running job cannot be started from outside",
    ),
    refused(
        X,
        "overlap",
        "a step of a running job cannot be started from outside",
    ),
    refused(
        X,
        "exact",
        "a step of a running job cannot be started from outside",
    ),
    refused(X, "multi-prog", "run a script that looks at SLURM_PROCID"),
    refused('r', "relative", "look at SLURM_NODEID"),
    refused('W', "wait", "tasks are waited for"),
    refused(
        'I',
        "immediate",
        "`muster job explain` says why a job waits",
    ),
];

pub(super) const SBATCH_TOOL: SlurmTool = SlurmTool {
    name: "sbatch",
    operands: "[SCRIPT [ARGUMENT]...]",
    options: &[OF_BOTH, SBATCH, OF_ALL],
    ends_at_operand: true,
};

pub(super) const SRUN_TOOL: SlurmTool = SlurmTool {
    name: "srun",
    operands: "COMMAND [ARGUMENT]...",
    options: &[OF_BOTH, SRUN, OF_ALL],
    ends_at_operand: true,
};

/// Variables that stand for options of sbatch.
pub(super) const SBATCH_VARIABLES: &[(&str, &str)] = &[
    ("SBATCH_JOB_NAME", "job-name"),
    ("SBATCH_PARTITION", "partition"),
    ("SBATCH_TIMELIMIT", "time"),
    ("SBATCH_QOS", "qos"),
    ("SBATCH_ACCOUNT", "account"),
    ("SBATCH_GRES", "gres"),
    ("SBATCH_GPUS", "gpus"),
    ("SBATCH_GPUS_PER_NODE", "gpus-per-node"),
    ("SBATCH_GPUS_PER_TASK", "gpus-per-task"),
    ("SBATCH_MEM_PER_NODE", "mem"),
    ("SBATCH_MEM_PER_CPU", "mem-per-cpu"),
    ("SBATCH_EXPORT", "export"),
    ("SBATCH_ARRAY_INX", "array"),
    ("SBATCH_CONTAINER_IMAGE", "container-image"),
];

/// The same of srun.
pub(super) const SRUN_VARIABLES: &[(&str, &str)] = &[
    ("SLURM_PARTITION", "partition"),
    ("SLURM_TIMELIMIT", "time"),
    ("SLURM_QOS", "qos"),
    ("SLURM_CONTAINER_IMAGE", "container-image"),
];

/// Options that mean the same thing: one that is given at a later place takes the place of all of its group.
pub(super) const GROUPS: &[&[&str]] = &[
    &["mem", "mem-per-cpu", "mem-per-gpu"],
    &["gres", "gpus", "gpus-per-node", "gpus-per-task"],
    &["container-image", "image"],
    &["cpus-per-task", "cpus-per-gpu"],
];
