//! `muster job top`.

use clap::Args;
use muster_model::task_use::{TaskUse, UsePoint};
use muster_model::view::{Dated, TaskView};
use serde::Serialize;

use crate::age;
use crate::api::LogSource;
use crate::console::{Console, Paint};
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::job_ref::JobArgument;
use crate::output::OutputOption;
use crate::status::CliStatus;
use crate::table::TextTable;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job top train
  muster job top ada~train -o json | jq '.[].points[-1]'

Nodes keep figures of the last day in memory, and begin anew when their agent does.";

#[derive(Debug, Args)]
pub struct TopArguments {
    #[command(flatten)]
    job: JobArgument,
    #[command(flatten)]
    output: OutputOption,
}

/// What the newest attempt of a task used.
#[derive(Debug, Serialize)]
struct UsedByTask {
    task: String,
    node: Option<String>,
    #[serde(flatten)]
    used: TaskUse,
    /// Why nothing is known, if so.
    problem: Option<String>,
}

impl TopArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let (api, key) = self.job.resolve(connection)?;
        let Dated { value: job, age } = api.job(&key, None).await?;
        age::tell(&age, console);
        let attempt = job.attempt.as_ref().map_or(0, |attempt| attempt.id);
        let mut all = Vec::new();
        for task in job.tasks() {
            let Some(source) = newest(task, attempt) else {
                continue;
            };
            let (used, problem) = match api.task_use(&key, &source).await {
                Ok(used) => (used, None),
                Err(error) => (TaskUse::default(), Some(error.to_string())),
            };
            let last = task.attempts.last();
            all.push(UsedByTask {
                task: task.id.to_string(),
                node: last
                    .and_then(|last| last.node.as_ref())
                    .map(ToString::to_string),
                used,
                problem,
            });
        }
        self.output
            .write(console, &all, |all, paint| table(all, paint))?;
        Ok(CliStatus::Ok)
    }
}

/// The newest attempt of a task that was placed.
fn newest(task: &TaskView, attempt: u32) -> Option<LogSource> {
    let last = task.attempts.last().filter(|last| last.uid.is_some())?;
    Some(LogSource {
        task: task.id.clone(),
        attempt,
        task_attempt: last.id,
        name: String::new(),
    })
}

fn table(all: &[UsedByTask], paint: Paint) -> String {
    if all.is_empty() {
        return "no task has run yet".to_owned();
    }
    let mut table = TextTable::new([
        "TASK", "NODE", "CORES", "MOST", "MEMORY", "MOST", "GPUS", "",
    ]);
    for one in all {
        let points = &one.used.points;
        let most = |of: fn(&UsePoint) -> u32| points.iter().map(of).max();
        let last = points.last();
        let cores = |milli: Option<u32>| milli.map(|it| format!("{:.2}", f64::from(it) / 1000.0));
        let memory = |mb: Option<u32>| mb.map(|it| format!("{it} MiB"));
        let remark = match (&one.problem, last) {
            (Some(problem), _) => problem.clone(),
            (None, None) => "its node keeps no figures of it".to_owned(),
            (None, Some(_)) => String::new(),
        };
        table.row([
            (&one.task).into(),
            one.node.clone().unwrap_or_default().into(),
            cores(last.map(|it| it.cpu_milli))
                .unwrap_or_default()
                .into(),
            cores(most(|it| it.cpu_milli)).unwrap_or_default().into(),
            memory(last.map(|it| it.memory_mb))
                .unwrap_or_default()
                .into(),
            memory(most(|it| it.memory_mb)).unwrap_or_default().into(),
            gpus(&one.used).unwrap_or_default().into(),
            remark.into(),
        ]);
    }
    table.render(paint, 0)
}

/// The mean of the newest utilization of the task's devices.
fn gpus(used: &TaskUse) -> Option<String> {
    let devices = used.devices.iter();
    let newest = devices.filter_map(|device| device.points.last()?.utilization);
    let newest: Vec<u32> = newest.map(u32::from).collect();
    let count = u32::try_from(newest.len()).ok()?;
    let mean = newest.iter().sum::<u32>().checked_div(count)?;
    Some(format!("{mean} %"))
}

#[cfg(test)]
mod tests {
    use muster_model::task_use::{DevicePoint, DeviceUse};

    use super::*;

    #[test]
    fn what_is_used_and_was_at_most_is_told_by_task() {
        let point = |cpu_milli, memory_mb| UsePoint {
            at_ms: 1,
            cpu_milli,
            memory_mb,
        };
        let busy = |percents: &[u8]| {
            let point = |percent: &u8| DevicePoint {
                utilization: Some(*percent),
                ..DevicePoint::default()
            };
            DeviceUse {
                index: 0,
                points: percents.iter().map(point).collect(),
            }
        };
        let devices = vec![busy(&[100, 90]), busy(&[20])];
        let one = |task: &str, points: Vec<_>, problem: Option<&str>| UsedByTask {
            task: task.to_owned(),
            node: Some("n1".to_owned()),
            used: TaskUse {
                points,
                devices: devices.clone(),
            },
            problem: problem.map(str::to_owned),
        };
        let all = [
            one("worker:0", vec![point(3500, 900), point(500, 700)], None),
            one("worker:1", Vec::new(), None),
            one("worker:2", Vec::new(), Some("n2 does not answer")),
        ];
        let text = table(&all, Paint { colour: false });
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|it| it.split_whitespace().collect())
            .collect();
        assert_eq!(
            words[1],
            [
                "worker:0", "n1", "0.50", "3.50", "700", "MiB", "900", "MiB", "55", "%"
            ]
        );
        assert!(text.contains("its node keeps no figures of it"), "{text}");
        assert!(text.contains("n2 does not answer"), "{text}");
        assert_eq!(table(&[], Paint { colour: false }), "no task has run yet");
    }
}
