//! The page of one job.

use maud::{Markup, html};
use muster_model::aftermath::what_was_done;
use muster_model::id::JobKey;
use muster_model::protocol::document_yaml;
use muster_model::state::{ExecutionType, JobState, SubState};
use muster_model::view::{
    AttemptView, Dated, JobDetail, JobEvent, JobSummary, LastEnd, RoleView, TaskAttemptView,
    TaskView,
};

use super::frame::{self, PortalPage, Section};
use super::{
    chip, explained, form, job_list, moment, node_list, placement, stacks_page, terminal_page,
    time_line,
};
use crate::call::Call;
use crate::error::ApiError;
use crate::handle::jobs::checked_tag;
use crate::port::{Jobs, Membership, Nodes};
use crate::reply::HandlerResult;

/// The reason of an event that names the job which a job gave way to.
const PREEMPTED: &str = "Preempted";
/// Events of a page, the newest.
const EVENTS_MAX: usize = 50;
/// Attempts that a page leads to, the newest.
const ATTEMPTS_MAX: usize = 50;
/// Tasks of a page.
const TASKS_MAX: usize = 256;

/// `GET /jobs/:job?attempt=`, with what was changed before: `notice=`
pub(crate) async fn page(
    call: Call,
    jobs: &dyn Jobs,
    nodes: &dyn Nodes,
    membership: &dyn Membership,
) -> HandlerResult {
    let key = call.job_key()?;
    let attempt = call.number("attempt")?;
    let attempt = attempt
        .map(u32::try_from)
        .transpose()
        .map_err(|_| ApiError::Parameters("attempt is out of range".to_owned()))?;
    let sight = call.sight(jobs)?;
    let Dated { value: job, age } = jobs.job(&sight, &key, attempt).await?;
    let explanation = match job.summary.state() {
        JobState::Waiting => jobs.explanation(&sight, &key).await.ok(),
        _ => None,
    };
    let kept = match &explanation {
        Some(_) => kept_free(membership).await,
        None => Vec::new(),
    };
    let config = jobs.config(&sight, &key).await?.value;
    let mut events = jobs.events(&sight, &key).await?.value;
    events.sort_by(|a, b| b.last.cmp(&a.last).then_with(|| a.uid.cmp(&b.uid)));
    let known = nodes.list().await;
    let now = frame::now_ms();
    let body = html! {
        @if let Some(age) = &age { (job_list::old(age)) }
        @if let Some(notice) = notice(&call) { p.card.good role="status" { (notice) } }
        (head(&call, &job.summary))
        @if let Some(explanation) = &explanation { (explained::waiting(explanation, &kept, now)) }
        @if let Some(end) = &job.summary.last_end { (explained::last_end(end, gave_way(end, &events), now)) }
        @if let Some(verdict) = job.attempt.as_ref().and_then(failed) {
            (explained::verdict(verdict, what_was_done(&job).as_deref(), deciding_log(&job).as_deref()))
        }
        (on_hold(&job, now))
        (facts(&job, expected_s(&config), now))
        (attempts(&job))
        @for role in &job.roles { (tasks(&job, role, (call.is_own(&key), now))) }
        (placement::of(&job, &known))
        (used(&job))
        (happened(&events, now))
        (description(&key, &config)?)
    };
    let title = format!("{} of {}", key.name, key.user);
    let page = PortalPage {
        refresh_s: (!job.summary.state().is_final()).then_some(5),
        ..PortalPage::live(Section::Jobs, title, body)
    };
    Ok(page.reply(&call, &membership.node_name()))
}

/// The nodes that are kept free, each with a line that says so.
async fn kept_free(membership: &dyn Membership) -> Vec<(String, String)> {
    let members = membership.view().await.map(|view| view.members);
    let now = frame::now_ms();
    let members = members.unwrap_or_default().into_iter();
    let kept = members.filter_map(|member| {
        let line = node_list::kept_free(&member, now)?;
        Some((member.name, line))
    });
    kept.collect()
}

/// `POST /jobs/:job`: stops it, or changes its tags
pub(crate) async fn change(mut call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let fields = form::read(&mut call).await?;
    let key = call.job_key()?;
    call.check_owner(&key, jobs).await?;
    let notice = match fields.text("action") {
        Some("stop") => {
            jobs.set_execution_type(&key, ExecutionType::Stop).await?;
            "stopping"
        }
        Some("tag") => {
            let tag = checked_tag(fields.text("tag").unwrap_or_default().trim())?;
            jobs.add_tag(&key, &tag).await?;
            "tagged"
        }
        Some("untag") => {
            let tag = fields.text("tag").unwrap_or_default();
            jobs.remove_tag(&key, tag).await?;
            "untagged"
        }
        _ => {
            let rule = "action must be stop, tag or untag";
            return Err(ApiError::Parameters(rule.to_owned()));
        }
    };
    let path = job_list::job_path(&key);
    Ok(frame::see(&format!("{path}?notice={notice}")))
}

/// What was changed before, by a code of the address: a text there could be anybody's.
fn notice(call: &Call) -> Option<&'static str> {
    match call.query.text("notice")? {
        "stopping" => Some("The job is being stopped."),
        "tagged" => Some("The tag was set."),
        "untagged" => Some("The tag was taken away."),
        _ => None,
    }
}

/// To which job the attempt gave way that ended last, as the event says to this user; `events`: the newest first.
fn gave_way<'a>(end: &LastEnd, events: &'a [JobEvent]) -> Option<&'a str> {
    let mut ends = events
        .iter()
        .filter(|event| event.reason == PREEMPTED || event.reason == end.phrase);
    let last = ends.next().filter(|event| event.reason == PREEMPTED)?;
    Some(&last.message)
}

/// The verdict of an attempt that did not succeed by itself.
fn failed(attempt: &AttemptView) -> Option<&muster_model::exit::Verdict> {
    let verdict = attempt.verdict.as_ref()?;
    let state = JobState::of_attempt(attempt.sub_state, Some(verdict.code()));
    (state == JobState::Failed).then_some(verdict)
}

fn head(call: &Call, job: &JobSummary) -> Markup {
    let path = job_list::job_path(&job.key);
    let is_own = call.is_own(&job.key);
    html! {
        h1 { (job.key.name.as_str()) " " (chip::detailed(job.state(), job.sub_state)) }
        section.card {
            (time_line::of(job))
            div.row {
                @for tag in &job.tags { (tag_form(call, &path, tag, is_own)) }
                @if is_own {
                    form.row method="post" action=(path) {
                        (frame::key_field(call))
                        div { label for="tag" { "New tag" } input #tag name="tag" size="12" required; }
                        button name="action" value="tag" { "Tag" }
                    }
                    @if !job.state().is_final() {
                        form method="post" action=(path) {
                            (frame::key_field(call))
                            @if job.execution_type == ExecutionType::Stop {
                                span.dim { "It is being stopped." }
                            } @else {
                                button.danger name="action" value="stop" { "Stop the job" }
                            }
                        }
                    }
                    @if job.state() == JobState::Running {
                        (stacks_page::button(call, &job.key, "Where are its tasks?"))
                    }
                }
            }
        }
    }
}

fn tag_form(call: &Call, path: &str, tag: &str, is_own: bool) -> Markup {
    html! {
        @if is_own {
            form method="post" action=(path) {
                (frame::key_field(call))
                input type="hidden" name="tag" value=(tag);
                button name="action" value="untag" title={ "Take the tag " (tag) " away" } {
                    (tag) " ×"
                }
            }
        } @else { span.tag { (tag) } }
    }
}

/// The tasks that have failed, and whose containers are kept.
fn on_hold(job: &JobDetail, now: u64) -> Markup {
    let held: Vec<_> = job.held().collect();
    html! {
        @if !held.is_empty() {
            section.card {
                h2 { "Kept for a look" }
                @for (task, hold) in &held {
                    p.warn { strong { (task.id.to_string()) } " failed with exit code " (hold.code) " (" (hold.phrase) "). "
                        "Its container and devices are kept for " (moment::long(hold.until.saturating_sub(now))) "." }
                    @if !hold.reason.is_empty() { p.dim { (hold.reason) } }
                }
                p { "Then the job goes on as its failure calls for. To end it now, stop the job." }
            }
        }
    }
}

/// How long the job runs by its user's estimate, in seconds.
fn expected_s(config: &serde_json::Value) -> Option<u64> {
    config.pointer("/extras/muster/maxRunTime")?.as_u64()
}

fn facts(job: &JobDetail, expected_s: Option<u64>, now: u64) -> Markup {
    let summary = &job.summary;
    html! {
        section.card {
            h2 { "Facts" }
            dl.facts {
                dt { "User" } dd { a href=(job_list::list_path(&[("user", summary.key.user.as_str())])) { (summary.key.user.as_str()) } }
                dt { "Virtual cluster" } dd { a href={ "/virtual-clusters/" (summary.vc.as_str()) } { (summary.vc.as_str()) } }
                dt { "Submitted" } dd { (moment::past(summary.submitted, now)) }
                @if let Some(began) = summary.launched { dt { "Started" } dd { (moment::past(began, now)) } }
                @if let Some(end) = summary.completed { dt { "Ended" } dd { (moment::past(end, now)) } }
                @if let Some(limit) = job.run_limit { dt { "Time limit" }
                    dd { (moment::long(limit.seconds.saturating_mul(1000)))
                        @if let Some(at) = limit.ends_at { span.dim { ", ends in " (moment::long(at.saturating_sub(now))) } } } }
                @else if let Some(expected) = expected_s { dt { "Expected run time" }
                    dd { (moment::long(expected.saturating_mul(1000))) span.dim { ", for the forecast alone" } } }
                dt { "GPUs" } dd { (summary.gpus) " in " (counted(summary.tasks, "task")) " of " (counted(summary.roles, "role")) }
                @if let Some(priority) = summary.priority { dt { "Priority" } dd { (format!("{priority:?}").to_lowercase()) } }
                @if summary.gpus_idle > 0 { dt { "Held and not used" } dd.warn { (summary.gpus_idle) " GPUs" } }
                @if summary.retries.total > 0 {
                    dt { "Retries" } dd { (summary.retries.total) ", of which " (summary.retries.accountable) " count against the job's limit" }
                }
                @if let Some(used) = job.used() { dt { "Used" } dd { (used.to_string()) } }
                @if let Some(code) = summary.exit_code { dt { "Exit code" } dd { (exit_code(code, job.attempt.as_ref())) } }
            }
            @for warning in &job.warnings { p.warn { (warning.to_string()) } }
        }
    }
}

/// `1 (Muster's class 226)`: the command's own code first, if it is another one.
fn exit_code(code: i32, attempt: Option<&AttemptView>) -> String {
    let verdict = attempt.and_then(|attempt| attempt.verdict.as_ref());
    let verdict = verdict.filter(|verdict| verdict.code() == code);
    match verdict.and_then(|verdict| verdict.origin_exit_code) {
        Some(own) if own != code => format!("{own} (Muster's class {code})"),
        _ => code.to_string(),
    }
}

/// Where the script puts the plots, and what leads to them without it.
fn used(job: &JobDetail) -> Markup {
    let Some(attempt) = job.attempt.as_ref().map(|attempt| attempt.id) else {
        return html! {};
    };
    let path = format!(
        "{}/use?attempt={attempt}",
        job_list::job_path(&job.summary.key)
    );
    html! {
        section #use data-part=(path) {
            div.card { h2 { "CPU and memory" } p { a href=(path) { "What each task used over time" } } }
        }
    }
}

/// `1 task`, `2 tasks`
fn counted(number: u32, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn attempts(job: &JobDetail) -> Markup {
    let latest = job.summary.retries.total;
    let shown = job.attempt.as_ref().map(|attempt| attempt.id);
    let path = job_list::job_path(&job.summary.key);
    html! {
        @if latest > 0 {
            nav.card aria-label="Attempts" {
                h2 { "Attempts" }
                p { @for id in (0..=latest).rev().take(ATTEMPTS_MAX) {
                    @if Some(id) == shown { strong { (id) } } @else { a href={ (path) "?attempt=" (id) } { (id) } }
                    " "
                } }
            }
        }
    }
}

fn tasks(job: &JobDetail, role: &RoleView, (is_own, now): (bool, u64)) -> Markup {
    html! {
        section.card {
            h2 { "Tasks of role " (role.name) }
            div.wide tabindex="0" role="region" aria-label={ "Tasks of role " (role.name) } { table {
                thead { tr { th.n { "Task" } th { "State" } th { "Node" } th.narrow-off { "GPUs" }
                    th.narrow-off { "Address and ports" } th.n { "Exit code" } th.narrow-off { "Ran for" }
                    th.n.narrow-off { "Retries" } th { "Open" } } }
                tbody { @for task in role.tasks.iter().take(TASKS_MAX) { (task_row(job, task, (is_own, now))) } }
            } }
            @if role.tasks.len() > TASKS_MAX {
                p.dim { "The first " (TASKS_MAX) " of " (role.tasks.len()) " tasks. "
                    code { "muster job show " (job.summary.key.to_string()) } " shows all." }
            }
        }
    }
}

fn task_row(job: &JobDetail, task: &TaskView, (is_own, now): (bool, u64)) -> Markup {
    let verdict = task.attempts.last().and_then(|last| last.verdict.as_ref());
    let code = verdict.map(muster_model::exit::Verdict::code);
    let own = verdict.and_then(|verdict| verdict.origin_exit_code);
    let class = code.filter(|code| own.is_some_and(|own| own != *code));
    let state = JobState::of(task.sub_state, code);
    let last = task.attempts.last();
    html! {
        tr {
            td.n { (task.id.index) }
            td { (chip::detailed(state, task.sub_state)) }
            td { @if let Some(node) = last.and_then(|it| it.node.as_ref()) { (node.as_str()) } }
            td.narrow-off { @if let Some(last) = last { (numbers(&last.devices)) } }
            td.narrow-off {
                @if let Some(last) = last { (reached(last)) }
                @if let Some(login) = &task.ssh { br; code { (login) } }
            }
            td.n { @if let Some(code) = own.or(code) { (code) } @if let Some(class) = class { div.dim { "class " (class) } } }
            td.narrow-off { @if let Some(began) = task.launched {
                (moment::long(task.completed.unwrap_or(now).saturating_sub(began))) } }
            td.n.narrow-off { (task.retries.total) }
            td { @if let (Some(last), Some(attempt)) = (last.filter(|it| it.uid.is_some()), job.attempt.as_ref()) {
                a href=(log_path(&job.summary.key, attempt.id, task, last.id)) { "Log" }
                @if is_own && last.sub_state == SubState::AttemptRunning {
                    br; a href=(terminal_page::path(&job.summary.key, &task.id)) { "Terminal" }
                }
            } }
        }
    }
}

fn numbers(devices: &[u32]) -> String {
    let texts: Vec<_> = devices.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

fn reached(attempt: &TaskAttemptView) -> Markup {
    html! {
        @if let Some(address) = &attempt.address { (address) }
        @for (label, ports) in &attempt.ports {
            br; span.dim { (label) " " (ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")) }
        }
    }
}

/// The path of the page with the log of the task that decided the attempt which is shown.
fn deciding_log(job: &JobDetail) -> Option<String> {
    let attempt = job.attempt.as_ref()?;
    let id = attempt.trigger.as_ref()?.task.as_ref()?;
    let task = job.tasks().find(|task| task.id == *id)?;
    let last = task.attempts.last().filter(|last| last.uid.is_some())?;
    Some(log_path(&job.summary.key, attempt.id, task, last.id))
}

/// The path of the page with a task's log.
fn log_path(key: &JobKey, attempt: u32, task: &TaskView, number: u32) -> String {
    let (role, index) = (&task.id.role, task.id.index);
    let job = job_list::job_path(key);
    format!("{job}/attempts/{attempt}/tasks/{role}/{index}/{number}/log")
}

fn happened(events: &[JobEvent], now: u64) -> Markup {
    html! {
        @if !events.is_empty() {
            section.card {
                h2 { "Events" }
                ul.plain { @for event in events.iter().take(EVENTS_MAX) {
                    li { span.dim { (moment::past(event.last, now)) } " "
                        span class=[event.warning.then_some("warn")] { strong { (event.reason) } " " (event.message) }
                        @if event.count > 1 { span.dim { " (" (event.count) " times)" } } }
                } }
            }
        }
    }
}

fn description(key: &JobKey, config: &serde_json::Value) -> Result<Markup, ApiError> {
    let text = document_yaml(config).map_err(ApiError::Answer)?;
    Ok(html! {
        section.card {
            details { summary { "The job as it was submitted (secrets are hidden)" } pre.log tabindex="0" { (text) } }
            p { a.button href={ "/submit?clone=" (key.to_string()) } { "Submit it again, changed or not" } }
        }
    })
}
