//! The page with what a job's tasks used over time. The page of the job shows its first plots as well.

use std::time::Duration;

use futures::future::join_all;
use maud::{Markup, html};
use muster_model::task_use::{DeviceUse, TaskUse};
use muster_model::view::{Dated, JobDetail, TaskAttemptView, TaskView};
use tokio::time::timeout;

use super::frame::{PortalPage, Section};
use super::job_list;
use super::plot::Plot;
use crate::call::Call;
use crate::error::ApiError;
use crate::handle::uses;
use crate::port::{Jobs, Membership, Uses};
use crate::reply::HandlerResult;

/// Tasks of a page.
const TASKS_MAX: usize = 16;
/// Nodes that are asked at a time, and for how long at most.
const AT_ONCE: usize = 8;
const PATIENCE: Duration = Duration::from_secs(2);

/// `GET /jobs/:job/use?attempt=&from=`
pub(crate) async fn page(
    call: Call,
    jobs: &dyn Jobs,
    uses: &dyn Uses,
    membership: &dyn Membership,
) -> HandlerResult {
    let key = call.job_key()?;
    let attempt = call.number("attempt")?;
    let attempt = attempt
        .map(u32::try_from)
        .transpose()
        .map_err(|_| ApiError::Parameters("attempt is out of range".to_owned()))?;
    let from = usize::try_from(call.number("from")?.unwrap_or(0)).unwrap_or(usize::MAX);
    let sight = call.sight(jobs)?;
    let Dated { value: job, .. } = jobs.job(&sight, &key, attempt).await?;
    let tasks: Vec<_> = started(&job).skip(from).take(TASKS_MAX).collect();
    let mut found = Vec::new();
    for some in tasks.chunks(AT_ONCE) {
        let mut asked = Vec::new();
        for (_, view) in some {
            asked.push(used(&call, uses, (&job, view)));
        }
        found.extend(join_all(asked).await);
    }
    let count = started(&job).count();
    let path = format!("{}/use", job_list::job_path(&key));
    let body = html! {
        p { a href=(job_list::job_path(&key)) { (key.name.as_str()) } }
        h1 { "What " (key.name.as_str()) " uses" }
        div #use {
            @if tasks.is_empty() { p.dim { "No task has run yet." } }
            @for ((task, view), found) in tasks.iter().zip(&found) { (plots(task, view, found)) }
            @if count > TASKS_MAX {
                p { "Tasks " (from + 1) " to " (from + tasks.len()) " of " (count) ". "
                    @for first in (0..count).step_by(TASKS_MAX).filter(|first| *first != from) {
                        a href={ (path) "?from=" (first) } { (first + 1) } " " }
                }
            }
            p.dim { "A node keeps figures of the last day in memory, and begins anew when its agent does." }
        }
    };
    let title = format!("Use of {} of {}", key.name, key.user);
    let page = PortalPage {
        refresh_s: (!job.summary.state().is_final()).then_some(10),
        ..PortalPage::live(Section::Jobs, title, body)
    };
    Ok(page.reply(&call, &membership.node_name()))
}

/// The newest attempt of each task that was placed.
fn started(job: &JobDetail) -> impl Iterator<Item = (&TaskView, &TaskAttemptView)> {
    let newest = |task: &'_ TaskView| -> Option<usize> { task.attempts.len().checked_sub(1) };
    job.tasks().filter_map(move |task| {
        let view = &task.attempts[newest(task)?];
        view.uid.as_ref().map(|_| (task, view))
    })
}

/// What the node tells of the use of an attempt, or why it tells nothing.
async fn used(
    call: &Call,
    uses: &dyn Uses,
    (job, view): (&JobDetail, &TaskAttemptView),
) -> Result<TaskUse, String> {
    let asked = timeout(PATIENCE, uses::of_attempt(call, uses, (&job.summary, view)));
    match asked.await {
        Ok(found) => found.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

fn plots(task: &TaskView, view: &TaskAttemptView, found: &Result<TaskUse, String>) -> Markup {
    let node = view.node.as_ref().map_or("its node", |node| node.as_str());
    html! {
        section.card {
            h2 { "CPU, memory and devices of task " (task.id.role.as_str()) " " (task.id.index) " on " (node) }
            @match found {
                Err(why) => { p.warn { "The figures are on " (node) ", which cannot be asked now: " (why) } }
                Ok(used) if used.points.len() < 2 => {
                    p.dim { (node) " keeps no figures of it: it has run for some seconds only, or ended too long ago, or before the agent there was started." }
                }
                Ok(used) => {
                    div.grid { (cpu(used)) (memory(used)) }
                    @for device in used.devices.iter().filter(|device| device.points.len() > 1) {
                        h3 { "Device " (device.index) }
                        div.grid { (busy(device)) (device_memory(device)) }
                    }
                }
            }
        }
    }
}

fn cpu(used: &TaskUse) -> Markup {
    // The first reading has none before it to compare with.
    let points = used.points.iter().skip(1);
    let plot = Plot {
        name: "CPU",
        points: points
            .map(|it| (it.at_ms, u64::from(it.cpu_milli)))
            .collect(),
        written: |milli| format!("{}.{:02} cores", milli / 1000, milli % 1000 / 10),
    };
    plot.drawn()
}

fn busy(device: &DeviceUse) -> Markup {
    let points = device.points.iter();
    let plot = Plot {
        name: "Utilization",
        points: points
            .filter_map(|it| Some((it.at_ms, u64::from(it.utilization?))))
            .collect(),
        written: |percent| format!("{percent} %"),
    };
    plot.drawn()
}

fn device_memory(device: &DeviceUse) -> Markup {
    let points = device.points.iter();
    let plot = Plot {
        name: "Memory of the device",
        points: points
            .filter_map(|it| Some((it.at_ms, u64::from(it.memory_mb?))))
            .collect(),
        written: mebibytes,
    };
    plot.drawn()
}

fn memory(used: &TaskUse) -> Markup {
    let points = used.points.iter();
    let plot = Plot {
        name: "Memory",
        points: points
            .map(|it| (it.at_ms, u64::from(it.memory_mb)))
            .collect(),
        written: mebibytes,
    };
    plot.drawn()
}

fn mebibytes(mb: u64) -> String {
    match mb {
        ..10_240 => format!("{mb} MiB"),
        _ => format!("{} GiB", mb / 1024),
    }
}
