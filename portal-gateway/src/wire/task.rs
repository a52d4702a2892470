//! Tasks, in a job's detail and alone.

use std::collections::BTreeMap;

use muster_model::id::JobKey;
use muster_model::state::JobState;
use muster_model::view::{RoleView, TaskAttemptView, TaskHold, TaskView};
use schemars::JsonSchema;
use serde::Serialize;

use super::{exit, object, pod_name};

/// A task role in a job's detail.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireRole {
    task_role_status: RoleStatus,
    task_statuses: Vec<WireTaskStatus>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RoleStatus {
    name: String,
}

impl WireRole {
    pub(crate) fn of(key: &JobKey, attempt: u32, role: &RoleView) -> Self {
        Self {
            task_role_status: RoleStatus {
                name: role.name.clone(),
            },
            task_statuses: role
                .tasks
                .iter()
                .filter_map(|task| WireTaskStatus::of(key, attempt, task))
                .collect(),
        }
    }
}

/// A task with its newest attempt.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WireTaskStatus {
    #[serde(flatten)]
    task: WireTask,
    #[serde(flatten)]
    attempt: WireTaskAttempt,
}

impl WireTaskStatus {
    fn of(key: &JobKey, attempt: u32, task: &TaskView) -> Option<Self> {
        let place = AttemptContext { key, attempt, task };
        Some(Self {
            task: WireTask::of(task),
            attempt: WireTaskAttempt::of(place, task.attempts.last()?),
        })
    }
}

/// What holds for a task over all its attempts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WireTask {
    task_index: u32,
    task_uid: String,
    task_state: JobState,
    retries: u32,
    accountable_retries: u32,
    created_time: Option<u64>,
    launched_time: Option<u64>,
    completed_time: Option<u64>,
}

impl WireTask {
    fn of(task: &TaskView) -> Self {
        let code = task.attempts.last().and_then(code);
        Self {
            task_index: task.id.index,
            task_uid: task.uid.clone(),
            task_state: JobState::of(task.sub_state, code),
            retries: task.retries.total,
            accountable_retries: task.retries.accountable,
            created_time: task.created,
            launched_time: task.launched,
            completed_time: task.completed,
        }
    }
}

/// One attempt of a task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireTaskAttempt {
    attempt_id: u32,
    attempt_state: JobState,
    current_attempt_created_time: Option<u64>,
    current_attempt_launched_time: Option<u64>,
    current_attempt_completed_time: Option<u64>,
    container_id: Option<String>,
    container_ip: Option<String>,
    container_node_name: Option<String>,
    #[serde(serialize_with = "object")]
    #[schemars(with = "BTreeMap<String, String>")]
    container_ports: Vec<(String, String)>,
    /// Ours, of a task that runs and has the runtime plugin `ssh`: the command that logs in to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    container_ssh: Option<String>,
    /// A bit for each device by its index, as upstream had it until it gave it up; null without any. A number in
    /// a string, by OpenPAI's swagger; its portal takes both.
    container_gpus: Option<String>,
    container_log: String,
    container_exit_code: Option<i32>,
    container_exit_spec: Option<exit::ExitSpecRow>,
    container_exit_diagnostics: Option<String>,
    /// Ours, of a failure: which rule led to it, where in the log, and who can act.
    #[serde(skip_serializing_if = "Option::is_none")]
    container_exit_judged: Option<exit::JudgedExit>,
    /// Ours: the task has failed, and its container is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    container_on_hold: Option<WireHold>,
    /// Only of tasks that ask for cells, as upstream has it where HiveD schedules.
    #[serde(skip_serializing_if = "Option::is_none")]
    hived: Option<WireHived>,
}

/// A task that has failed, and whose container is kept.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WireHold {
    /// Until then at most, milliseconds since the epoch.
    until_time: u64,
    exit_code: i32,
    exit_phrase: String,
    exit_diagnostics: String,
}

impl WireHold {
    fn of(hold: &TaskHold) -> Self {
        Self {
            until_time: hold.until,
            exit_code: hold.code,
            exit_phrase: hold.phrase.clone(),
            exit_diagnostics: hold.reason.clone(),
        }
    }
}

/// What upstream tells of a task's place among cells. It never knew more than the name.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WireHived {
    affinity_group_name: String,
    lazy_preempted: Option<bool>,
    lazy_preemption_status: Option<String>,
}

/// Where a task attempt belongs.
#[derive(Clone, Copy)]
struct AttemptContext<'a> {
    key: &'a JobKey,
    attempt: u32,
    task: &'a TaskView,
}

impl WireTaskAttempt {
    fn of(place: AttemptContext<'_>, view: &TaskAttemptView) -> Self {
        let verdict = view.verdict.as_ref();
        Self {
            attempt_id: view.id,
            attempt_state: JobState::of_attempt(view.sub_state, code(view)),
            current_attempt_created_time: view.created,
            current_attempt_launched_time: view.launched,
            current_attempt_completed_time: view.completed,
            container_id: view.uid.as_ref().map(ToString::to_string),
            container_ip: view.address.clone(),
            container_node_name: view.node.as_ref().map(ToString::to_string),
            container_ports: view.ports.iter().map(port_text).collect(),
            container_ssh: place.login(view),
            container_gpus: device_mask(&view.devices).map(|mask| mask.to_string()),
            container_log: place.log(view.id),
            container_exit_code: code(view),
            container_exit_spec: verdict.map(|verdict| exit::ExitSpecRow::of(&verdict.spec)),
            container_exit_diagnostics: verdict.map(|verdict| verdict.diagnostics.clone()),
            container_exit_judged: verdict.and_then(exit::JudgedExit::of),
            container_on_hold: view.on_hold.as_ref().map(WireHold::of),
            hived: place.task.by_cells.then(|| place.hived()),
        }
    }
}

/// The highest index that has a bit: JSON numbers are exact up to 2^53.
const DEVICE_INDEX_MAX: u32 = 52;

/// A bit for each device. Null for none, and where a number could not hold them all.
fn device_mask(devices: &[u32]) -> Option<u64> {
    let fits = devices.iter().all(|index| *index <= DEVICE_INDEX_MAX);
    let is_some = fits && !devices.is_empty();
    is_some.then(|| devices.iter().fold(0, |mask, index| mask | 1 << index))
}

impl AttemptContext<'_> {
    /// The command that logs in to the task is that of its last attempt.
    fn login(self, view: &TaskAttemptView) -> Option<String> {
        let is_last = self
            .task
            .attempts
            .last()
            .is_some_and(|last| last.id == view.id);
        self.task.ssh.clone().filter(|_| is_last)
    }

    /// Upstream names a group after the pod, whatever the job calls it.
    fn hived(self) -> WireHived {
        WireHived {
            affinity_group_name: format!("default/{}", pod_name(self.key, &self.task.id)),
            lazy_preempted: None,
            lazy_preemption_status: None,
        }
    }

    /// Where the attempt's logs are listed. Clients put the server's address before it.
    fn log(self, task_attempt: u32) -> String {
        let Self { key, attempt, task } = self;
        let (role, index) = (&task.id.role, task.id.index);
        format!(
            "/api/v2/jobs/{key}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}\
             /attempts/{task_attempt}/logs"
        )
    }
}

fn code(attempt: &TaskAttemptView) -> Option<i32> {
    attempt
        .verdict
        .as_ref()
        .map(muster_model::exit::Verdict::code)
}

/// Upstream joins a label's ports with commas.
fn port_text((label, ports): &(String, Vec<u16>)) -> (String, String) {
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    (label.clone(), ports.join(","))
}

/// A task alone, with every attempt, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SingleTask {
    username: String,
    job_name: String,
    job_attempt_id: u32,
    task_role_name: String,
    #[serde(flatten)]
    task: WireTask,
    attempts: Vec<WireTaskAttempt>,
}

impl SingleTask {
    pub(crate) fn of(key: &JobKey, attempt: u32, task: &TaskView) -> Self {
        let place = AttemptContext { key, attempt, task };
        Self {
            username: key.user.to_string(),
            job_name: key.name.to_string(),
            job_attempt_id: attempt,
            task_role_name: task.id.role.to_string(),
            task: WireTask::of(task),
            attempts: task
                .attempts
                .iter()
                .rev()
                .map(|view| WireTaskAttempt::of(place, view))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::device_mask;

    #[test]
    fn each_device_has_a_bit() {
        for (devices, expect) in [
            (&[][..], None),
            (&[0], Some(1)),
            (&[0, 1, 5], Some(0b10_0011)),
            (&[52], Some(1 << 52)),
            (&[0, 53], None),
        ] {
            assert_eq!(device_mask(devices), expect, "{devices:?}");
        }
    }
}
