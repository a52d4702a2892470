//! What a set of options asks for. Nothing is asked of anybody here: options and a few facts in, a plan out.

use std::fmt::Display;

use muster_model::id::VcName;

use super::job_options::GROUPS;
use super::option::GivenOption;
use super::quantity::{self, ArrayIds, GpuAmount};
use crate::byte_size::Mebibytes;
use crate::run::Variable;

/// Memory for a core where none is named, in MiB, as `muster run` has it.
const MEMORY_PER_CPU: u64 = 2_048;
/// Memory for a GPU where none is named, in MiB.
const MEMORY_PER_GPU: u64 = 8_192;
/// So much of a name goes into the job's.
const STEM_CHARS_MAX: usize = 64;

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlurmPlan {
    /// The name as the user gave it.
    pub(super) name: String,
    pub(super) image: String,
    pub(super) nodes: u32,
    pub(super) tasks: u32,
    /// Tasks of a node were asked for by name.
    pub(super) tasks_per_node: Option<u32>,
    pub(super) cpus_per_task: u32,
    /// Of one node.
    pub(super) cpus: u32,
    pub(super) gpus: u32,
    pub(super) memory: Mebibytes,
    pub(super) gpu_type: Option<String>,
    pub(super) partition: Option<VcName>,
    /// In seconds.
    pub(super) limit: Option<u64>,
    pub(super) class: Option<String>,
    pub(super) directory: Option<String>,
    pub(super) exports: Vec<Variable>,
    pub(super) array: Option<ArrayIds>,
    pub(super) warnings: Vec<String>,
}

/// What a plan is made of besides options.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanFacts {
    /// The name where no option gives one.
    pub(super) name: String,
    /// The image where no option names one.
    pub(super) image: Option<String>,
}

/// Makes the plan, or says everything that is wrong.
pub(super) fn plan(options: &[GivenOption], facts: PlanFacts) -> Result<SlurmPlan, Vec<String>> {
    let mut reader = PlanReader {
        options: winning(options),
        problems: Vec::new(),
        warnings: Vec::new(),
    };
    let plan = reader.plan(facts);
    match reader.problems.is_empty() {
        true => Ok(plan),
        false => Err(reader.problems),
    }
}

/// Without options that a later layer replaces.
fn winning(options: &[GivenOption]) -> Vec<&GivenOption> {
    let group = |name| GROUPS.iter().find(|group| group.contains(&name));
    let is_same = |a: &GivenOption, b: &GivenOption| match group(a.name) {
        Some(group) => group.contains(&b.name),
        None => a.name == b.name,
    };
    let wins = |one: &&GivenOption| {
        let layer = one.origin.layer();
        !options
            .iter()
            .any(|other| is_same(one, other) && other.origin.layer() > layer)
    };
    options.iter().filter(wins).collect()
}

struct PlanReader<'a> {
    options: Vec<&'a GivenOption>,
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl PlanReader<'_> {
    fn given(&self, name: &str) -> Option<&GivenOption> {
        self.options.iter().copied().rfind(|it| it.name == name)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.given(name).map(|it| it.value.clone())
    }

    fn read<T, E: Display>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let given = self.given(name)?;
        match read(&given.value) {
            Ok(value) => Some(value),
            Err(why) => {
                let problem = format!("{}--{name}: {why}", given.origin);
                self.problems.push(problem);
                None
            }
        }
    }

    fn plan(&mut self, facts: PlanFacts) -> SlurmPlan {
        let (nodes, tasks, tasks_per_node) = self.layout();
        let per_node = tasks.div_ceil(nodes);
        let gpus = self.gpus(nodes, per_node);
        let cpus_per_task = self.read("cpus-per-task", quantity::count).unwrap_or(1);
        let cpus = match self.read("cpus-per-gpu", quantity::count) {
            Some(cpus) => cpus.saturating_mul(gpus.count).max(1),
            None => cpus_per_task.saturating_mul(per_node),
        };
        let array = self.read("array", quantity::array);
        if array.is_some() && nodes > 1 {
            let problem = "--array with more than one node is not supported: submit each as a job";
            self.problems.push(problem.to_owned());
        }
        SlurmPlan {
            name: self.text("job-name").unwrap_or(facts.name),
            image: self.image(facts.image),
            nodes,
            tasks,
            tasks_per_node,
            cpus_per_task,
            cpus,
            memory: self.memory(cpus, gpus.count),
            gpus: gpus.count,
            gpu_type: gpus.kind,
            partition: self.read("partition", str::parse),
            limit: self.read("time", quantity::time_limit).flatten(),
            class: self.read("qos", class),
            directory: self.text("chdir"),
            exports: self.exports(),
            array,
            warnings: std::mem::take(&mut self.warnings),
        }
    }

    /// Nodes, tasks, and tasks on each node if that was given.
    fn layout(&mut self) -> (u32, u32, Option<u32>) {
        let nodes = self.read("nodes", quantity::nodes);
        let tasks = self.read("ntasks", quantity::count);
        let per_node = self.read("ntasks-per-node", quantity::count);
        let count = match (nodes, tasks, per_node) {
            (Some(nodes), Some(tasks), _) if tasks < nodes => {
                self.warnings.push(format!(
                    "{tasks} tasks do not need {nodes} nodes: {tasks} are used"
                ));
                tasks
            }
            (Some(nodes), ..) => nodes,
            (None, Some(tasks), Some(per_node)) => tasks.div_ceil(per_node),
            (None, ..) => 1,
        };
        let of_nodes = count.saturating_mul(per_node.unwrap_or(1));
        let tasks = tasks.unwrap_or(of_nodes);
        if per_node.is_some_and(|per_node| count.saturating_mul(per_node) < tasks) {
            let problem =
                format!("--ntasks: {tasks} are more than --nodes times --ntasks-per-node");
            self.problems.push(problem);
        }
        (count, tasks, per_node)
    }

    /// On one node.
    fn gpus(&mut self, nodes: u32, tasks_per_node: u32) -> GpuAmount {
        let of_node = [
            self.read("gres", quantity::gres),
            self.read("gpus-per-node", quantity::gpus),
        ];
        let of_task = self.read("gpus-per-task", quantity::gpus);
        let of_task = of_task.map(|it| GpuAmount {
            count: it.count.saturating_mul(tasks_per_node),
            ..it
        });
        let of_job = self.read("gpus", |text| {
            let amount = quantity::gpus(text)?;
            match amount.count % nodes {
                0 => Ok(GpuAmount {
                    count: amount.count / nodes,
                    ..amount
                }),
                _ => Err(format!(
                    "{} cannot be shared out evenly to {nodes} nodes: give --gpus-per-node",
                    amount.count
                )),
            }
        });
        let all = of_node.into_iter().chain([of_task, of_job]).flatten();
        let mut all: Vec<GpuAmount> = all.collect();
        let is_one = all.windows(2).all(|pair| pair[0] == pair[1]);
        if !is_one {
            let problem =
                "--gres, --gpus, --gpus-per-node and --gpus-per-task do not agree: give one";
            self.problems.push(problem.to_owned());
        }
        let nothing = GpuAmount {
            kind: None,
            count: 0,
        };
        all.pop().unwrap_or(nothing)
    }

    /// On one node.
    fn memory(&mut self, cpus: u32, gpus: u32) -> Mebibytes {
        let of_node = self.read("mem", quantity::memory);
        let of_cpu = self.read("mem-per-cpu", quantity::memory);
        let of_gpu = self.read("mem-per-gpu", quantity::memory);
        let times = |amount: Mebibytes, count: u32| {
            Mebibytes(amount.0.saturating_mul(u64::from(count.max(1))))
        };
        let all = [
            of_node,
            of_cpu.map(|it| times(it, cpus)),
            of_gpu.map(|it| times(it, gpus)),
        ];
        let all: Vec<Mebibytes> = all.into_iter().flatten().collect();
        if all.len() > 1 {
            let problem = "--mem, --mem-per-cpu and --mem-per-gpu exclude each other: give one";
            self.problems.push(problem.to_owned());
        }
        if let Some(&memory) = all.first() {
            return memory;
        }
        let memory =
            Mebibytes((MEMORY_PER_CPU * u64::from(cpus)).max(MEMORY_PER_GPU * u64::from(gpus)));
        if gpus > 0 && self.problems.is_empty() {
            let size = memory.0 >> 10;
            self.warnings.push(format!(
                "no --mem: each node gets {size} GiB (2 for a core, at least 8 for a GPU)"
            ));
        }
        memory
    }

    fn image(&mut self, default: Option<String>) -> String {
        let given = self.text("container-image").or_else(|| self.text("image"));
        match given.map(|image| pyxis(&image)).or(default) {
            Some(image) if !image.is_empty() => image,
            _ => {
                self.problems.push(NO_IMAGE.to_owned());
                String::new()
            }
        }
    }

    /// The environment of the shell stays there, but for what is named.
    fn exports(&mut self) -> Vec<Variable> {
        let text = self.text("export").unwrap_or_default();
        let mut exports = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match part {
                "NONE" | "NIL" => {}
                "ALL" => self.warnings.push(
                    "--export=ALL: the variables of this shell do not go into the container; name \
                     those that are needed: --export=NAME,OTHER=VALUE"
                        .to_owned(),
                ),
                part => match part.parse() {
                    Ok(variable) => exports.push(variable),
                    Err(why) => self.problems.push(format!("--export: {why}")),
                },
            }
        }
        exports
    }
}

const NO_IMAGE: &str = "\
no image is named, and a job runs in one. Name it in one of these places:
  #SBATCH --container-image=IMAGE   in the script, or as an option
  export MUSTER_IMAGE=IMAGE         in your shell
  ~/.config/muster/image            a file with the name in it, for all your jobs";

/// `registry#name` and `docker://name`, as pyxis writes images, as everybody else writes them.
fn pyxis(image: &str) -> String {
    let image = image.strip_prefix("docker://").unwrap_or(image);
    image.replacen('#', "/", 1)
}

fn class(text: &str) -> Result<String, String> {
    match text {
        "crit" | "prod" | "test" | "oppo" => Ok(text.to_owned()),
        _ => Err(format!(
            "{text:?} is no priority class: crit, prod, test (the default) and oppo are"
        )),
    }
}

/// The part of a job's name that comes from the user: what a job's name cannot hold becomes `_`.
pub(super) fn stem(name: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    let letters = name.chars().take(STEM_CHARS_MAX);
    let stem: String = letters.map(|it| if fits(it) { it } else { '_' }).collect();
    if stem.is_empty() {
        "job".to_owned()
    } else {
        stem
    }
}

#[cfg(test)]
mod tests;
