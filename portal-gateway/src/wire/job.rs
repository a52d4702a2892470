//! Jobs: a row of the listing, and the detail.

use std::collections::BTreeMap;

use muster_model::exit::Verdict;
use muster_model::remark::Remark;
use muster_model::state::{ExecutionType, JobState, PriorityClass, SubState};
use muster_model::view::{AttemptView, JobDetail, JobSummary, LastEnd, Retries, RunLimitView};
use schemars::JsonSchema;
use serde::Serialize;

use super::{exit, framework_name, object, task};

const SECOND_MS: u64 = 1000;

#[derive(Debug, Serialize, JsonSchema)]
struct RetryDetails {
    user: u32,
    platform: u32,
    resource: u32,
}

impl RetryDetails {
    fn of(retries: Retries) -> Self {
        Self {
            user: retries.accountable,
            platform: retries.total.saturating_sub(retries.accountable),
            resource: 0,
        }
    }
}

/// A row of the listing.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListingRow {
    debug_id: String,
    name: String,
    username: String,
    state: JobState,
    sub_state: SubState,
    execution_type: ExecutionType,
    tags: Vec<String>,
    retries: u32,
    retry_details: RetryDetails,
    retry_delay_time: Option<u64>,
    submission_time: u64,
    created_time: Option<u64>,
    launched_time: Option<u64>,
    completed_time: Option<u64>,
    app_exit_code: Option<i32>,
    virtual_cluster: String,
    total_gpu_number: u32,
    total_task_number: u32,
    total_task_role_number: u32,
    job_priority: Option<PriorityClass>,
}

impl ListingRow {
    pub(crate) fn of(job: &JobSummary) -> Self {
        Self {
            debug_id: framework_name(&job.key),
            name: job.key.name.to_string(),
            username: job.key.user.to_string(),
            state: job.state(),
            sub_state: job.sub_state,
            execution_type: job.execution_type,
            tags: job.tags.clone(),
            retries: job.retries.total,
            retry_details: RetryDetails::of(job.retries),
            retry_delay_time: retry_delay(job),
            submission_time: whole_second(job.submitted),
            created_time: job.created,
            launched_time: job.launched,
            completed_time: job.completed,
            app_exit_code: job.exit_code,
            virtual_cluster: job.vc.to_string(),
            total_gpu_number: job.gpus,
            total_task_number: job.tasks,
            total_task_role_number: job.roles,
            job_priority: job.priority,
        }
    }
}

/// Upstream's database keeps whole seconds.
const fn whole_second(ms: u64) -> u64 {
    ms - ms % SECOND_MS
}

/// Seconds of back-off, counted from the end of the last attempt.
fn retry_delay(job: &JobSummary) -> Option<u64> {
    let due = job.retry_at?;
    let now = crate::clock::now_s().saturating_mul(SECOND_MS);
    Some(due.saturating_sub(now).div_ceil(SECOND_MS))
}

/// A job in full.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail {
    debug_id: String,
    name: String,
    tags: Vec<String>,
    job_priority: Option<PriorityClass>,
    job_status: WireJobStatus,
    #[serde(serialize_with = "object")]
    #[schemars(with = "BTreeMap<String, task::WireRole>")]
    task_roles: Vec<(String, task::WireRole)>,
    /// Beyond OpenPAI: what of the job is not carried out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Remark>,
}

/// Fields of the job are those of its latest attempt, fields named after an attempt or `app`
/// those of the attempt asked for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WireJobStatus {
    username: String,
    state: JobState,
    sub_state: SubState,
    execution_type: ExecutionType,
    retries: u32,
    retry_details: RetryDetails,
    retry_delay_time: Option<u64>,
    created_time: Option<u64>,
    launched_time: Option<u64>,
    completed_time: Option<u64>,
    virtual_cluster: String,
    submission_time: u64,
    /// Muster's own: why it waits, if it does and somebody leads who knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for: Option<String>,
    /// Muster's own: how the last attempt ended, if the job goes on after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_attempt: Option<LastAttempt>,
    /// Ours: how long an attempt may run, if it has a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_limit: Option<RunLimit>,
    #[serde(flatten)]
    attempt: WireJobAttempt,
}

/// How the last attempt ended of a job that goes on.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LastAttempt {
    attempt_id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_role_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_index: Option<u32>,
    completed_time: u64,
    exit_code: i32,
    exit_phrase: String,
    exit_diagnostics: String,
    solution: Vec<String>,
    /// So many in a row, this one included, ended for the same reason.
    in_a_row: u32,
    /// So many in a row end the job; null: there is no such limit.
    in_a_row_max: Option<u32>,
    /// Whether the retry after it counts against the job's limit.
    accountable: bool,
    next_time: Option<u64>,
}

/// How long an attempt may run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RunLimit {
    /// Seconds from the start of its commands.
    seconds: u64,
    /// When what runs now is ended; null if nothing runs.
    ends_time: Option<u64>,
}

impl RunLimit {
    const fn of(limit: RunLimitView) -> Self {
        Self {
            seconds: limit.seconds,
            ends_time: limit.ends_at,
        }
    }
}

impl LastAttempt {
    fn of(last: &LastEnd) -> Self {
        let task = last.task.as_ref();
        Self {
            attempt_id: last.attempt,
            task_role_name: task.map(|task| task.role.to_string()),
            task_index: task.map(|task| task.index),
            completed_time: last.ended,
            exit_code: last.code,
            exit_phrase: last.phrase.clone(),
            exit_diagnostics: last.reason.clone(),
            solution: last.solution.clone(),
            in_a_row: last.in_a_row,
            in_a_row_max: last.tries_max,
            accountable: last.is_charged,
            next_time: last.next_at,
        }
    }
}

/// The attempt as the detail shows it. Before the first there is no id, not a null one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WireJobAttempt {
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt_id: Option<u32>,
    attempt_state: JobState,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_id: Option<String>,
    app_progress: u8,
    app_tracking_url: &'static str,
    app_created_time: Option<u64>,
    app_launched_time: Option<u64>,
    app_completed_time: Option<u64>,
    app_exit_code: Option<i32>,
    app_exit_spec: Option<exit::ExitSpecRow>,
    app_exit_diagnostics: Option<String>,
    app_exit_messages: Option<exit::Messages>,
    app_exit_trigger_message: Option<String>,
    app_exit_trigger_task_role_name: Option<String>,
    app_exit_trigger_task_index: Option<u32>,
    app_exit_type: Option<&'static str>,
    /// Ours, of a failure: which rule led to it, where in the log, and who can act.
    #[serde(skip_serializing_if = "Option::is_none")]
    app_exit_judged: Option<exit::JudgedExit>,
}

impl Detail {
    pub(crate) fn of(detail: &JobDetail) -> Self {
        let job = &detail.summary;
        Self {
            debug_id: framework_name(&job.key),
            name: job.key.name.to_string(),
            tags: job.tags.clone(),
            job_priority: job.priority,
            job_status: WireJobStatus::of(detail),
            task_roles: roles(detail),
            warnings: detail.warnings.clone(),
        }
    }
}

/// The task roles of a detail, in the user's order.
pub(super) fn roles(detail: &JobDetail) -> Vec<(String, task::WireRole)> {
    let attempt = detail.attempt.as_ref().map_or(0, |attempt| attempt.id);
    let role = |role| task::WireRole::of(&detail.summary.key, attempt, role);
    detail
        .roles
        .iter()
        .map(|view| (view.name.clone(), role(view)))
        .collect()
}

impl WireJobStatus {
    fn of(detail: &JobDetail) -> Self {
        let job = &detail.summary;
        Self {
            username: job.key.user.to_string(),
            state: job.state(),
            sub_state: job.sub_state,
            execution_type: job.execution_type,
            retries: job.retries.total,
            retry_details: RetryDetails::of(job.retries),
            retry_delay_time: retry_delay(job),
            created_time: job.created,
            launched_time: job.launched,
            completed_time: job.completed,
            virtual_cluster: job.vc.to_string(),
            submission_time: whole_second(job.submitted),
            waiting_for: job.waiting_for.clone(),
            last_attempt: job.last_end.as_deref().map(LastAttempt::of),
            run_limit: detail.run_limit.map(RunLimit::of),
            attempt: match &detail.attempt {
                Some(attempt) => WireJobAttempt::of(attempt),
                None => WireJobAttempt::before_the_first(job),
            },
        }
    }
}

impl WireJobAttempt {
    fn of(attempt: &AttemptView) -> Self {
        let verdict = attempt.verdict.as_ref();
        let code = verdict.map(Verdict::code);
        let trigger = attempt.trigger.as_ref();
        let task = trigger.and_then(|trigger| trigger.task.as_ref());
        Self {
            attempt_id: Some(attempt.id),
            attempt_state: JobState::of_attempt(attempt.sub_state, code),
            app_id: attempt.uid.as_ref().map(ToString::to_string),
            app_progress: u8::from(attempt.completed.is_some()),
            app_tracking_url: "",
            app_created_time: attempt.created,
            app_launched_time: attempt.launched,
            app_completed_time: attempt.completed,
            app_exit_code: code,
            app_exit_spec: verdict.map(|verdict| exit::ExitSpecRow::of(&verdict.spec)),
            app_exit_diagnostics: verdict.map(|verdict| verdict.diagnostics.clone()),
            app_exit_messages: verdict.map(exit::Messages::of),
            app_exit_trigger_message: trigger.map(|trigger| trigger.message.clone()),
            app_exit_trigger_task_role_name: task.map(|task| task.role.to_string()),
            app_exit_trigger_task_index: task.map(|task| task.index),
            app_exit_type: code.map(exit::kind),
            app_exit_judged: verdict.and_then(exit::JudgedExit::of),
        }
    }

    /// A job that was never placed. It may have ended all the same, by a stop.
    fn before_the_first(job: &JobSummary) -> Self {
        Self {
            attempt_id: None,
            attempt_state: JobState::of_attempt(job.sub_state, job.exit_code),
            app_id: None,
            app_progress: u8::from(job.state().is_final()),
            app_tracking_url: "",
            app_created_time: None,
            app_launched_time: None,
            app_completed_time: None,
            app_exit_code: job.exit_code,
            app_exit_spec: None,
            app_exit_diagnostics: None,
            app_exit_messages: None,
            app_exit_trigger_message: None,
            app_exit_trigger_task_role_name: None,
            app_exit_trigger_task_index: None,
            app_exit_type: job.exit_code.map(exit::kind),
            app_exit_judged: None,
        }
    }
}
