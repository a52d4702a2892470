//! Events of a job.

use std::time::{Duration, UNIX_EPOCH};

use md5::{Digest as _, Md5};
use muster_model::id::JobKey;
use muster_model::view::{JobEvent, JobSummary};
use schemars::JsonSchema;
use serde::Serialize;

use super::{framework_name, hex, pod_name};

/// Who tells of events, where upstream names a component of Kubernetes.
const COMPONENT: &str = "muster";

/// One event.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireEvent {
    uid: String,
    framework_name: String,
    /// Upstream has a string always; empty for what is about the job as a whole.
    pod_uid: String,
    // sic: upstream writes this one name without a capital R.
    #[serde(rename = "taskroleName")]
    task_role_name: Option<String>,
    task_name: Option<String>,
    task_index: Option<u32>,
    #[serde(rename = "type")]
    kind: &'static str,
    reason: String,
    message: String,
    first_timestamp: String,
    last_timestamp: String,
    count: u32,
    source_component: &'static str,
    source_host: Option<String>,
}

impl WireEvent {
    pub(crate) fn of(key: &JobKey, event: &muster_model::view::JobEvent) -> Self {
        let framework_name = framework_name(key);
        let task = event.task.as_ref();
        Self {
            uid: event.uid.clone(),
            pod_uid: event
                .attempt_uid
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            task_role_name: task.map(|task| task.role.to_string()),
            task_name: task.map(|task| pod_name(key, task)),
            task_index: task.map(|task| task.index),
            framework_name,
            kind: if event.warning { "Warning" } else { "Normal" },
            reason: event.reason.clone(),
            message: event.message.clone(),
            first_timestamp: iso_8601(event.first),
            last_timestamp: iso_8601(event.last),
            count: event.count,
            source_component: COMPONENT,
            source_host: event.node.as_ref().map(ToString::to_string),
        }
    }
}

/// Why a job waits, as an event: a warning, for the portal shows no others. It is told as long as it is so
/// and kept nowhere.
pub(crate) fn waiting(job: &JobSummary, now_ms: u64) -> Option<JobEvent> {
    let why = job.waiting_for.as_ref()?;
    let last_end = job.last_end.as_ref().map(|end| end.ended);
    let first = last_end.unwrap_or(job.submitted);
    let name = hex(&Md5::digest(format!("{} waits since {first}", job.key)));
    let parts = [
        &name[..8],
        &name[8..12],
        &name[12..16],
        &name[16..20],
        &name[20..],
    ];
    Some(JobEvent {
        uid: parts.join("-"),
        attempt_uid: None,
        task: None,
        warning: true,
        reason: "Waiting".to_owned(),
        message: format!("Not placed yet: the job {why}."),
        first,
        last: now_ms.max(first),
        count: 1,
        node: None,
    })
}

/// Last moment that is written with a four-digit year, 9999-12-31T23:59:59.999Z.
const LAST_MS: u64 = 253_402_300_799_999;

/// Milliseconds since the epoch as JavaScript's `toISOString` writes them.
pub(super) fn iso_8601(ms: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(ms.min(LAST_MS));
    humantime::format_rfc3339_millis(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(iso_8601(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_8601(1_795_167_174_093), "2026-11-20T09:32:54.093Z");
        assert_eq!(iso_8601(u64::MAX), "9999-12-31T23:59:59.999Z");
    }
}
