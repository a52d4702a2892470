//! The newest attempt of a job that wrote something: what to show of a job that was tried again.

use muster_model::id::JobKey;
use muster_model::view::JobDetail;

use crate::api::{Api, LogSelection, LogSource, LogStart};
use crate::error::CliError;
use crate::follow::{Selection, sources};

/// What the newest attempt wrote that wrote anything.
#[derive(Debug)]
pub(super) struct WrittenLogs {
    /// Of each of its tasks that wrote something the newest log.
    pub(super) logs: Vec<LogSource>,
    /// Which attempt that is, where it is not the newest of all, in words.
    pub(super) remark: Option<String>,
}

/// Finds it; none if nothing was written, or nothing was tried again. `detail` is of the latest attempt.
pub(super) async fn newest(
    api: &Api,
    detail: &JobDetail,
    selection: &Selection,
    names: &[String],
) -> Result<Option<WrittenLogs>, CliError> {
    let key = &detail.summary.key;
    let is_named = selection.attempt.is_some() || selection.task_attempt.is_some();
    if is_named || !was_tried_again(detail) {
        return Ok(None);
    }
    let latest = detail.summary.retries.total;
    let mut older;
    let mut of_attempt = detail;
    let mut number = latest;
    loop {
        let logs = logs_of(api, key, &sources(of_attempt, selection, names)).await?;
        if !logs.is_empty() {
            let remark = remark(of_attempt, &logs, latest);
            return Ok(Some(WrittenLogs { logs, remark }));
        }
        // Of a job that is tried again and again only the newest attempts are kept.
        let Some(before) = number.checked_sub(1) else {
            return Ok(None);
        };
        number = before;
        older = match api.job(key, Some(number)).await {
            Ok(older) => older.value,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        of_attempt = &older;
    }
}

fn was_tried_again(detail: &JobDetail) -> bool {
    let mut tasks = detail.tasks();
    detail.summary.retries.total > 0 || tasks.any(|task| task.retries.total > 0)
}

/// Of each task its newest log that has something in it.
async fn logs_of(api: &Api, key: &JobKey, all: &[LogSource]) -> Result<Vec<LogSource>, CliError> {
    let mut logs = Vec::new();
    for of_task in all.chunk_by(|a, b| a.task == b.task) {
        for source in of_task.iter().rev() {
            if has_some(api, key, source).await? {
                logs.push(source.clone());
                break;
            }
        }
    }
    Ok(logs)
}

/// Whether anything was written there.
async fn has_some(api: &Api, key: &JobKey, source: &LogSource) -> Result<bool, CliError> {
    let last = LogSelection {
        start: LogStart::Tail(1),
        follow: false,
    };
    let mut log = match api.log(key, source, last).await {
        Ok(log) => log,
        Err(error) if error.is_not_found() || error.is_past_the_end() => return Ok(false),
        Err(error) => return Err(error),
    };
    while let Some(bytes) = log.next().await? {
        if !bytes.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Which attempt is shown, unless it is the newest of the job and of each task.
fn remark(detail: &JobDetail, logs: &[LogSource], latest: u32) -> Option<String> {
    let shown = logs.first()?.attempt;
    if shown != latest {
        return Some(format!(
            "this is of attempt {shown}, the newest that wrote something; --attempt shows others"
        ));
    }
    let newest = |log: &LogSource| {
        let mut tasks = detail.tasks();
        let task = tasks.find(|task| task.id == log.task)?;
        task.attempts.last().map(|attempt| attempt.id)
    };
    let older = logs
        .iter()
        .filter(|log| newest(log) != Some(log.task_attempt));
    let older: Vec<String> = older
        .map(|log| format!("attempt {} of {}", log.task_attempt, log.task))
        .collect();
    (!older.is_empty()).then(|| {
        format!(
            "this is of {}, the newest that wrote something; --task-attempt shows others",
            older.join(", ")
        )
    })
}
