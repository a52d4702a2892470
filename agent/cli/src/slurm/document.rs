//! The job that a plan makes: a role of as many instances as nodes, or as tasks of the array. Each writes the
//! script to a file, says what Slurm says by variables, and runs it.

use serde_json::{Value, json};

use super::directives::interpreter;
use super::number::SlurmNumber;
use super::plan::{SlurmPlan, stem};
use super::quantity::ArrayIds;
use crate::error::CliError;
use crate::job_text;

const ROLE: &str = "main";
const IMAGE: &str = "image";
/// Sets `SLURM_JOB_NODELIST`.
const NODES: &str = include_str!("task/nodes.sh");
/// Programs that a script finds.
const PROGRAMS: [(&str, &str); 2] = [
    ("srun", include_str!("task/srun.sh")),
    ("scontrol", include_str!("task/scontrol.sh")),
];

/// What runs, and from where it was submitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlurmScript<'a> {
    pub(super) text: &'a str,
    pub(super) arguments: &'a [String],
    /// The directory that the command was given in.
    pub(super) directory: &'a str,
    pub(super) host: &'a str,
}

/// The job's name: `train-123456789`.
pub(super) fn job_name(plan: &SlurmPlan, number: SlurmNumber) -> String {
    format!("{}-{number}", stem(&plan.name))
}

/// The job's document.
pub(super) fn document(
    plan: &SlurmPlan,
    script: SlurmScript<'_>,
    number: SlurmNumber,
) -> Result<String, CliError> {
    let mut job = skeleton(plan, number);
    let lines = commands(plan, script, number).map_err(|_| {
        let why = "the script, its arguments and variables cannot hold a NUL byte";
        CliError::Usage(why.to_owned())
    })?;
    job_text::set_commands(&mut job, ROLE, &lines);
    Ok(job_text::text(&job))
}

fn skeleton(plan: &SlurmPlan, number: SlurmNumber) -> Value {
    let array = plan.array.as_ref().map(|ids| ids.0.len());
    let instances = match array {
        Some(ids) => ids,
        None => usize::try_from(plan.nodes).unwrap_or(usize::MAX),
    };
    let completion = match array {
        // Tasks of an array fail each for itself: the job has failed when all have.
        Some(all) => json!({ "minFailedInstances": all, "minSucceededInstances": -1 }),
        None => json!({ "minFailedInstances": 1, "minSucceededInstances": instances }),
    };
    let mut job = json!({
        "protocolVersion": 2,
        "name": job_name(plan, number),
        "type": "job",
        "jobRetryCount": 0,
        "prerequisites": [{
            "protocolVersion": 2,
            "type": "dockerimage",
            "name": IMAGE,
            "uri": plan.image,
        }],
        "taskRoles": { ROLE: {
            "instances": instances,
            "completion": completion,
            "dockerImage": IMAGE,
            "resourcePerInstance": {
                "gpu": plan.gpus,
                "cpu": plan.cpus,
                "memoryMB": plan.memory.0,
            },
        } },
    });
    if let Some(vc) = &plan.partition {
        job["defaults"] = json!({ "virtualCluster": vc });
    }
    if array.is_some() {
        job["extras"]["gangAllocation"] = json!(false);
    }
    if let Some(class) = &plan.class {
        job["extras"]["hivedScheduler"]["jobPriorityClass"] = json!(class);
    }
    if let Some(kind) = &plan.gpu_type {
        job["extras"]["hivedScheduler"]["taskRoles"][ROLE] = json!({ "skuType": kind });
    }
    if let Some(seconds) = plan.limit {
        job["extras"]["muster"] = json!({ "maxRunTime": seconds, "enforceMaxRunTime": true });
    }
    job
}

fn commands(
    plan: &SlurmPlan,
    script: SlurmScript<'_>,
    number: SlurmNumber,
) -> Result<Vec<String>, shlex::QuoteError> {
    let mut lines = vec![
        "muster_dir=${TMPDIR:-/tmp}/muster-slurm".to_owned(),
        "mkdir -p \"$muster_dir/bin\" || exit 1".to_owned(),
    ];
    for (name, text) in PROGRAMS {
        lines.push(written(&format!("bin/{name}"), text)?);
    }
    lines.push(written("slurm_script", script.text)?);
    lines.push("export PATH=\"$muster_dir/bin:$PATH\"".to_owned());
    for (name, value) in variables(plan, script, number) {
        lines.push(format!("export {name}={}", shlex::try_quote(&value)?));
    }
    lines.extend(of_task(plan));
    for variable in &plan.exports {
        let value = shlex::try_quote(&variable.value)?;
        lines.push(format!("export {}={value}", variable.name));
    }
    if let Some(directory) = &plan.directory {
        lines.push(format!("cd {} || exit 1", shlex::try_quote(directory)?));
    }
    lines.extend(check(script.text)?);
    lines.push(start(script.arguments)?);
    Ok(lines)
}

/// Writes a program into the container.
fn written(name: &str, text: &str) -> Result<String, shlex::QuoteError> {
    let text = shlex::try_quote(text)?;
    let file = format!("\"$muster_dir/{name}\"");
    Ok(format!(
        "printf %s {text} > {file} && chmod 755 {file} || exit 1"
    ))
}

/// Variables that are the same everywhere.
fn variables(
    plan: &SlurmPlan,
    script: SlurmScript<'_>,
    number: SlurmNumber,
) -> Vec<(&'static str, String)> {
    let number = number.to_string();
    let mut all = vec![
        ("SLURM_JOB_ID", number.clone()),
        ("SLURM_JOBID", number.clone()),
        ("SLURM_JOB_NAME", plan.name.clone()),
        ("SLURM_NNODES", plan.nodes.to_string()),
        ("SLURM_JOB_NUM_NODES", plan.nodes.to_string()),
        ("SLURM_NTASKS", plan.tasks.to_string()),
        ("SLURM_NPROCS", plan.tasks.to_string()),
        ("SLURM_TASKS_PER_NODE", tasks_per_node(plan)),
        ("SLURM_CPUS_PER_TASK", plan.cpus_per_task.to_string()),
        ("SLURM_CPUS_ON_NODE", plan.cpus.to_string()),
        ("SLURM_MEM_PER_NODE", plan.memory.0.to_string()),
        ("SLURM_SUBMIT_DIR", script.directory.to_owned()),
        ("SLURM_SUBMIT_HOST", script.host.to_owned()),
        ("SLURM_LOCALID", "0".to_owned()),
    ];
    if let Some(count) = plan.tasks_per_node {
        all.push(("SLURM_NTASKS_PER_NODE", count.to_string()));
    }
    if plan.gpus > 0 {
        all.push(("SLURM_GPUS_ON_NODE", plan.gpus.to_string()));
    }
    if let Some(ArrayIds(ids)) = &plan.array {
        let end = |id: Option<&u32>| id.map(u32::to_string).unwrap_or_default();
        all.push(("SLURM_ARRAY_JOB_ID", number));
        all.push(("SLURM_ARRAY_TASK_COUNT", ids.len().to_string()));
        all.push(("SLURM_ARRAY_TASK_MIN", end(ids.first())));
        all.push(("SLURM_ARRAY_TASK_MAX", end(ids.last())));
    }
    all
}

/// `2(x3)`, `3,2(x2)`: tasks node by node.
fn tasks_per_node(plan: &SlurmPlan) -> String {
    let (share, more) = (plan.tasks / plan.nodes, plan.tasks % plan.nodes);
    let counts = [(share + 1, more), (share, plan.nodes - more)];
    let counts = counts.into_iter().filter(|&(_, nodes)| nodes > 0);
    let counts = counts.map(|(tasks, nodes)| match nodes {
        1 => tasks.to_string(),
        nodes => format!("{tasks}(x{nodes})"),
    });
    counts.collect::<Vec<_>>().join(",")
}

/// Variables that each instance makes of its own.
fn of_task(plan: &SlurmPlan) -> Vec<String> {
    let index = "$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX";
    let own =
        "export SLURM_JOB_PARTITION=\"$PAI_VIRTUAL_CLUSTER\" SLURM_JOB_USER=\"$PAI_USER_NAME\"";
    let mut lines = vec![own.to_owned()];
    match &plan.array {
        None => {
            let (share, more) = (plan.tasks / plan.nodes, plan.tasks % plan.nodes);
            lines.push(format!("export SLURM_NODEID={index}"));
            lines.push(format!(
                "export SLURM_PROCID=$((SLURM_NODEID * {share} + (SLURM_NODEID < {more} ? SLURM_NODEID : {more})))"
            ));
            lines.push(NODES.trim_end().to_owned());
        }
        Some(ArrayIds(ids)) => {
            let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
            lines.push(format!("set -- {}", ids.join(" ")));
            lines.push(format!("shift {index}"));
            lines.push("export SLURM_ARRAY_TASK_ID=$1 SLURM_NODEID=0 SLURM_PROCID=0".to_owned());
            lines.push("export SLURM_JOB_NODELIST=\"$PAI_CURRENT_CONTAINER_IP\"".to_owned());
        }
    }
    lines.push("export SLURM_RESTART_COUNT=\"$FC_FRAMEWORK_ATTEMPT_ID\"".to_owned());
    lines
}

/// An image without the interpreter is told in so many words.
fn check(script: &str) -> Result<Option<String>, shlex::QuoteError> {
    let Some(program) = interpreter(script) else {
        return Ok(None);
    };
    let quoted = shlex::try_quote(program)?;
    let text =
        format!("sbatch: the image has no {program}, which the first line of the script names");
    let text = shlex::try_quote(&text)?;
    Ok(Some(format!(
        "[ -x {quoted} ] || {{ echo {text} >&2; exit 127; }}"
    )))
}

fn start(arguments: &[String]) -> Result<String, shlex::QuoteError> {
    let arguments = shlex::try_join(arguments.iter().map(String::as_str))?;
    let command = format!("exec \"$muster_dir/slurm_script\" {arguments}");
    Ok(command.trim_end().to_owned())
}

#[cfg(test)]
mod tests;
