//! A job attempt as the deprecated `job-attempts` routes show it.

use std::collections::BTreeMap;

use muster_model::exit::Verdict;
use muster_model::state::{JobState, PriorityClass, SubState};
use muster_model::view::{AttemptView, JobDetail};
use schemars::JsonSchema;
use serde::Serialize;

use super::{exit, framework_name, job, object, task};

/// One attempt.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobAttempt {
    job_name: String,
    framework_name: String,
    uid: Option<String>,
    user_name: String,
    state: JobState,
    origin_state: SubState,
    attempt_index: u32,
    job_started_time: Option<u64>,
    attempt_started_time: Option<u64>,
    attempt_completed_time: Option<u64>,
    exit_code: Option<i32>,
    exit_phrase: Option<String>,
    exit_type: Option<&'static str>,
    exit_diagnostics: Option<Diagnostics>,
    app_exit_trigger_message: Option<String>,
    app_exit_trigger_task_role_name: Option<String>,
    app_exit_trigger_task_index: Option<u32>,
    app_exit_spec: Option<exit::ExitSpecRow>,
    app_exit_diagnostics: Option<String>,
    app_exit_messages: Option<exit::Messages>,
    total_gpu_number: u32,
    total_task_number: u32,
    total_task_role_number: u32,
    job_priority: Option<PriorityClass>,
    #[serde(serialize_with = "object")]
    #[schemars(with = "BTreeMap<String, task::WireRole>")]
    task_roles: Vec<(String, task::WireRole)>,
    is_latest: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Diagnostics {
    diagnostics_summary: String,
    #[serde(flatten)]
    messages: exit::Messages,
}

impl JobAttempt {
    /// The attempt that `detail` was asked for.
    pub(crate) fn of(detail: &JobDetail, attempt: &AttemptView) -> Self {
        let job = &detail.summary;
        let verdict = attempt.verdict.as_ref();
        let code = verdict.map(Verdict::code);
        let trigger = attempt.trigger.as_ref();
        let task = trigger.and_then(|trigger| trigger.task.as_ref());
        Self {
            job_name: job.key.name.to_string(),
            framework_name: framework_name(&job.key),
            uid: attempt.uid.as_ref().map(ToString::to_string),
            user_name: job.key.user.to_string(),
            state: JobState::of_attempt(attempt.sub_state, code),
            origin_state: attempt.sub_state,
            attempt_index: attempt.id,
            job_started_time: job.created,
            attempt_started_time: attempt.created,
            attempt_completed_time: attempt.completed,
            exit_code: code,
            exit_phrase: verdict.map(|verdict| verdict.spec.phrase.clone()),
            exit_type: code.map(exit::kind),
            exit_diagnostics: verdict.map(|verdict| Diagnostics {
                diagnostics_summary: verdict.diagnostics.clone(),
                messages: exit::Messages::of(verdict),
            }),
            app_exit_trigger_message: trigger.map(|trigger| trigger.message.clone()),
            app_exit_trigger_task_role_name: task.map(|task| task.role.to_string()),
            app_exit_trigger_task_index: task.map(|task| task.index),
            app_exit_spec: verdict.map(|verdict| exit::ExitSpecRow::of(&verdict.spec)),
            app_exit_diagnostics: verdict.map(|verdict| verdict.diagnostics.clone()),
            app_exit_messages: verdict.map(exit::Messages::of),
            total_gpu_number: job.gpus,
            total_task_number: job.tasks,
            total_task_role_number: job.roles,
            job_priority: job.priority,
            task_roles: job::roles(detail),
            is_latest: attempt.id == job.retries.total,
        }
    }
}
