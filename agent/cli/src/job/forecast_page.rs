//! What would become of a job, as text.

use muster_model::forecast::{JobForecast, NodeShare};

use super::explain::{gang_lines, gang_title, name};
use crate::console::Paint;
use crate::names::at_most;
use crate::page::Page;

/// Names in one line, at most.
const NAMED_MAX: usize = 10;

/// The forecast as text. `now` is in milliseconds since the epoch.
pub(super) fn page(forecast: &JobForecast, now: u64, paint: Paint) -> String {
    let mut page = Page::new(paint, paint.bold(&forecast.key.to_string()));
    page.lines(&forecast.sentence());
    if let Some(turn) = forecast.turn() {
        page.lines(&turn);
    }
    let victims: Vec<String> = forecast
        .victims
        .iter()
        .map(|job| name(job.as_ref()))
        .collect();
    if !victims.is_empty() {
        page.lines(&format!("These would give way: {}.", victims.join(", ")));
    }
    page.section("What it would take", &takes(forecast));
    let places: Vec<String> = forecast.places.iter().map(share).collect();
    page.section("Where its tasks would start", &places.join("\n"));
    let told = u32::try_from(places.len()).unwrap_or(u32::MAX);
    if let more @ 1.. = forecast.nodes.saturating_sub(told) {
        page.lines(&format!("and {more} more nodes"));
    }
    for gang in &forecast.gangs {
        page.section(&gang_title(gang), &gang_lines(gang, now).join("\n"));
    }
    let told = u32::try_from(forecast.gangs.len()).unwrap_or(u32::MAX);
    if let more @ 1.. = forecast.waiting.saturating_sub(told) {
        page.lines(&format!("and {more} more that would wait"));
    }
    page.list("Warnings", &forecast.warnings);
    page.into_text()
}

fn takes(forecast: &JobForecast) -> String {
    let (takes, tasks) = (forecast.takes, forecast.tasks);
    format!(
        "{} GPUs, {} cores and {} MiB of memory for {tasks} {} in virtual cluster {}",
        takes.gpu,
        takes.cpu,
        takes.memory_mb,
        if tasks == 1 { "task" } else { "tasks" },
        forecast.vc
    )
}

fn share(share: &NodeShare) -> String {
    let tasks = at_most(NAMED_MAX, share.tasks.iter());
    let devices: Vec<String> = share.devices.iter().map(u32::to_string).collect();
    match devices.is_empty() {
        true => format!("{}  {tasks}", share.node),
        false => format!("{}  {tasks}  devices {}", share.node, devices.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::forecast::ForecastOutcome;
    use muster_model::id::TaskId;
    use muster_model::vc::Amount;

    use super::*;

    const PLAIN: Paint = Paint { colour: false };

    fn forecast(outcome: ForecastOutcome) -> JobForecast {
        JobForecast {
            key: "ada~big".parse().unwrap(),
            vc: "vision".parse().unwrap(),
            outcome,
            reason: None,
            takes: Amount {
                cpu: 8,
                memory_mb: 2048,
                gpu: 2,
            },
            tasks: 2,
            placed: 2,
            places: Vec::new(),
            nodes: 0,
            victims: Vec::new(),
            ahead: 0,
            gangs: Vec::new(),
            waiting: 0,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_job_that_would_start_says_where() {
        let task = |index| TaskId {
            role: "w".parse().unwrap(),
            index,
        };
        let told = JobForecast {
            places: vec![NodeShare {
                node: "n1".parse().unwrap(),
                tasks: vec![task(0), task(1)],
                devices: vec![0, 3],
            }],
            nodes: 3,
            victims: vec![Some("bob~long".parse().unwrap()), None],
            ..forecast(ForecastOutcome::Preempts)
        };
        assert_eq!(
            page(&told, 0, PLAIN),
            "\
ada~big
  It would start when other jobs have given way to it.
  These would give way: bob~long, a job of another user.

What it would take
  2 GPUs, 8 cores and 2048 MiB of memory for 2 tasks in virtual cluster vision

Where its tasks would start
  n1  w:0, w:1  devices 0, 3
  and 2 more nodes
"
        );
    }

    #[test]
    fn a_job_that_would_wait_says_why_and_behind_how_many() {
        let told = JobForecast {
            reason: Some("needs 2 devices; 1 is free".to_owned()),
            ahead: 3,
            placed: 0,
            ..forecast(ForecastOutcome::Waits)
        };
        let text = page(&told, 0, PLAIN);
        let wants =
            "  It would wait: it needs 2 devices; 1 is free.\n  3 waiting jobs come before it.\n";
        assert!(text.contains(wants), "{text}");
    }
}
