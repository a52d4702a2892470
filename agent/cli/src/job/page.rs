//! A job as a page of text: how it stands, why, what to do, and its tasks.

use std::fmt::Write;

use muster_model::aftermath::{Actor, judged_by, what_was_done};
use muster_model::exit::Verdict;
use muster_model::health::DeviceEvent;
use muster_model::id::TaskId;
use muster_model::remark::Remark;
use muster_model::state::{ExecutionType, JobState};
use muster_model::view::{
    AttemptView, JobDetail, JobSummary, NodeLease, PartitionView, Retries, RunLease, RunLimitView,
    TaskHold, TaskView,
};

use super::last_end::{capital, in_full};
use crate::console::{Paint, printable, state_style};
use crate::moment::{date, span};
use crate::page::Page;
use crate::table::{TableCell, TextTable};

/// The page. `now` is in milliseconds since the epoch.
pub(super) fn page(detail: &JobDetail, now: u64, paint: Paint) -> String {
    let mut page = Page::new(paint, headline(&detail.summary, paint));
    page.facts(17, facts(detail, now));
    if let Some(failed) = failed_all_the_same(detail) {
        page.section("How it ended", &failed);
    }
    if let Some(why) = waiting(&detail.summary, now) {
        page.section("Why it waits", &why);
    }
    page.section("Kept for a look", &kept(detail, now).unwrap_or_default());
    if let Some(last) = &detail.summary.last_end {
        page.section("How its last attempt ended", &in_full(last, now));
    }
    if let Some(attempt) = &detail.attempt
        && let Some(verdict) = &attempt.verdict
    {
        // With code 0 there is nothing to explain.
        if verdict.code() != 0 {
            page.section("How it ended", &how_it_ended(attempt, verdict));
            page.section("What was done", &what_was_done(detail).unwrap_or_default());
            page.section(
                "Who can act",
                &capital(&Actor::of(&verdict.spec).to_string()),
            );
            let steps = verdict.spec.solution.iter().map(|step| step.trim());
            page.list("What to do", &steps.collect::<Vec<_>>());
            evidence(
                &mut page,
                verdict,
                &read_on(detail, attempt, verdict).unwrap_or_default(),
            );
        }
    }
    let warnings: Vec<String> = detail.warnings.iter().map(Remark::to_string).collect();
    page.section("Not carried out", &warnings.join("\n"));
    page.table("Tasks", &tasks(detail));
    page.section("To log in", &logins(detail));
    page.into_text()
}

/// `keeps 1 GPU idle`, and why, if it keeps any: the end of a sentence.
pub(super) fn idle_gpus(count: u32) -> Option<String> {
    let gpus = counted(count, "GPU");
    let why = "of cells that it was given for cores or memory";
    (count > 0).then(|| format!("keeps {gpus} idle, {why}"))
}

/// `2 of 2 tasks failed`, if any did: what completes a job well is the user's choice, and may be that.
pub(super) fn failed_tasks(summary: &JobSummary) -> Option<String> {
    let JobSummary {
        tasks,
        tasks_failed: failed @ 1..,
        ..
    } = *summary
    else {
        return None;
    };
    Some(format!("{failed} of {} failed", counted(tasks, "task")))
}

/// `ada~train  FAILED`, and the exit code if there is one other than 0; of one that succeeded how many of its tasks
/// failed, if any did.
pub(super) fn headline(summary: &JobSummary, paint: Paint) -> String {
    let state = summary.state();
    let mut line = format!(
        "{}  {}",
        paint.bold(&summary.key.to_string()),
        paint.styled(state_style(state), &state.to_string())
    );
    if let (JobState::Failed, Some(code)) = (state, summary.exit_code) {
        let _ = write!(line, "  exit code {code}");
    }
    if let Some(failed) = failed_tasks(summary).filter(|_| state == JobState::Succeeded) {
        let _ = write!(line, "  {failed}");
    }
    if summary.execution_type == ExecutionType::Stop && !state.is_final() {
        line.push_str("  (a stop was asked for)");
    }
    line
}

/// How many tasks failed of a job that succeeded all the same.
pub(super) fn failed_all_the_same(detail: &JobDetail) -> Option<String> {
    let has_failed = |task: &&TaskView| {
        let last = task.attempts.last();
        let verdict = last.and_then(|attempt| attempt.verdict.as_ref());
        let stopped = |code: i32| (-999..0).contains(&code);
        verdict.is_some_and(|verdict| verdict.code() != 0 && !stopped(verdict.code()))
    };
    let failed = detail.tasks().filter(has_failed).count();
    let all = u32::try_from(detail.tasks().count()).unwrap_or(u32::MAX);
    (detail.summary.state() == JobState::Succeeded && failed > 0).then(|| {
        format!(
            "{failed} of {} failed; by its completion policy the job succeeded all the same",
            counted(all, "task")
        )
    })
}

/// One or two sentences on why a job ended otherwise than well.
pub(super) fn ending(detail: &JobDetail) -> Option<String> {
    let verdict = detail.attempt.as_ref()?.verdict.as_ref()?;
    (verdict.code() != 0).then(|| printable(sentence(verdict).trim()))
}

fn sentence(verdict: &Verdict) -> &str {
    let reason = verdict.spec.reason.as_deref().unwrap_or_default();
    if verdict.diagnostics.trim().is_empty() {
        reason
    } else {
        &verdict.diagnostics
    }
}

fn facts(detail: &JobDetail, now: u64) -> Vec<(&'static str, String)> {
    let summary = &detail.summary;
    let ago = |ms: u64| format!("{} ({} ago)", date(ms), span(now.saturating_sub(ms)));
    let mut facts = vec![
        ("virtual cluster", virtual_cluster(summary)),
        ("size", size(summary)),
        ("submitted", ago(summary.submitted)),
    ];
    if let Some(launched) = summary.launched {
        let ran = span(summary.completed.unwrap_or(now).saturating_sub(launched));
        facts.push(("started", format!("{}, ran {ran}", ago(launched))));
    }
    if let Some(completed) = summary.completed {
        facts.push(("ended", ago(completed)));
    }
    if let Some(attempt) = &detail.attempt {
        facts.push(("attempt", attempt_line(attempt, summary.retries)));
    }
    if let Some(partition) = &detail.partition {
        facts.push(("on silence", on_silence(partition)));
        let runs = partition.runs.iter();
        facts.extend(runs.map(|run| ("run lease", run_lease(run, now))));
    }
    facts.extend(
        detail
            .run_limit
            .map(|limit| ("time limit", run_limit(limit, now))),
    );
    facts.extend(detail.used().map(|used| ("used", used.to_string())));
    facts.extend(idle_gpus(summary.gpus_idle).map(|idle| ("note", idle)));
    if !summary.tags.is_empty() {
        facts.push(("tags", summary.tags.join(", ")));
    }
    facts
}

/// `1h, ends 2026-05-01 10:00:00 (in 20m 3s)`
fn run_limit(RunLimitView { seconds, ends_at }: RunLimitView, now: u64) -> String {
    let limit = span(seconds.saturating_mul(1000));
    match ends_at {
        Some(at) => format!(
            "{limit}, ends {} (in {})",
            date(at),
            span(at.saturating_sub(now))
        ),
        None => limit,
    }
}

fn virtual_cluster(summary: &JobSummary) -> String {
    match summary.priority {
        Some(class) => format!("{}, priority {}", summary.vc, class.as_str()),
        None => summary.vc.to_string(),
    }
}

fn size(summary: &JobSummary) -> String {
    let JobSummary {
        tasks, roles, gpus, ..
    } = summary;
    format!(
        "{} in {}, {}",
        counted(*tasks, "task"),
        counted(*roles, "role"),
        counted(*gpus, "GPU")
    )
}

fn counted(number: u32, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn attempt_line(attempt: &AttemptView, retries: Retries) -> String {
    let code = attempt.verdict.as_ref().map(Verdict::code);
    let state = JobState::of_attempt(attempt.sub_state, code);
    let mut line = format!("{} is {state}", attempt.id);
    if retries.total > 0 {
        let _ = write!(
            line,
            "; {} so far, {} of them counted against the job's limit",
            if retries.total == 1 {
                "1 retry".to_owned()
            } else {
                format!("{} retries", retries.total)
            },
            retries.accountable
        );
    }
    line
}

/// What becomes of the job when a machine falls silent.
fn on_silence(
    PartitionView {
        policy, seconds, ..
    }: &PartitionView,
) -> String {
    match seconds {
        Some(seconds) => format!("{policy}, {seconds} s"),
        None => policy.clone(),
    }
}

/// How a run holds: until when by its lease, or why it has none.
fn run_lease(run: &RunLease, now: u64) -> String {
    let which = run.task.as_ref().map(|task| format!("{task}: "));
    let which = which.unwrap_or_default();
    let Some(seconds) = run.seconds else {
        let why = run.without.as_deref().unwrap_or_default();
        return format!("{which}none: it {why}");
    };
    let known = run.nodes.iter().filter_map(|it| Some((it.ends_by?, it)));
    match known.min_by_key(|(at, _)| *at) {
        Some((at, NodeLease { node, .. })) => format!(
            "{which}{seconds} s; over in {} if {node} is not heard by then",
            span(at.saturating_sub(now))
        ),
        None => format!("{which}{seconds} s"),
    }
}

/// The tasks that have failed and whose containers are kept, until when, and how that is ended.
fn kept(detail: &JobDetail, now: u64) -> Option<String> {
    let line = |(task, hold): (&TaskView, &TaskHold)| {
        let TaskHold {
            until,
            code,
            phrase,
            reason,
        } = hold;
        format!(
            "{} failed with exit code {code} ({phrase}); its container is kept until {} (for {}).\n{}",
            task.id,
            date(*until),
            span(until.saturating_sub(now)),
            reason.trim()
        )
    };
    let mut lines: Vec<String> = detail.held().map(line).collect();
    lines.first()?;
    let key = &detail.summary.key;
    lines.push(format!(
        "Then the job goes on as the failure calls for. To end it now: muster job stop {key}"
    ));
    Some(lines.join("\n"))
}

fn waiting(summary: &JobSummary, now: u64) -> Option<String> {
    if summary.state().is_final() {
        return None;
    }
    let reason = summary
        .waiting_for
        .as_ref()
        .map(|reason| format!("It {reason}."));
    // Where an attempt has ended, this is told with its end.
    let retry = summary
        .retry_at
        .filter(|&at| at > now && summary.last_end.is_none())
        .map(|at| format!("The next attempt may start in {}.", span(at - now)));
    match (reason, retry) {
        (None, None) => None,
        (reason, retry) => Some(
            [reason, retry]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("\n"),
        ),
    }
}

fn how_it_ended(attempt: &AttemptView, verdict: &Verdict) -> String {
    let spec = &verdict.spec;
    let mut text = format!("{} {}", spec.code, spec.phrase);
    if let Some(kind) = &spec.kind {
        let _ = write!(text, " ({})", kind.replace('_', " ").to_lowercase());
    }
    text.push('\n');
    text.push_str(sentence(verdict).trim());
    if let Some(reason) = &spec.reason
        && !text.contains(reason.trim())
    {
        let _ = write!(text, "\n{}", reason.trim());
    }
    if let Some(origin) = verdict.origin_exit_code
        && origin != spec.code
    {
        let signal = verdict
            .signal
            .map(|signal| format!(", from signal {signal}"));
        let _ = write!(
            text,
            "\nThe command exited with {origin}{}.",
            signal.unwrap_or_default()
        );
    }
    if let Some(trigger) = &attempt.trigger {
        let task = trigger
            .task
            .as_ref()
            .map(|task| format!("{task}: "))
            .unwrap_or_default();
        let _ = write!(text, "\nDecided by {task}{}", trigger.message.trim());
    }
    text
}

/// Where in the log the lines stand, and the command that shows it from there on.
fn read_on(detail: &JobDetail, attempt: &AttemptView, verdict: &Verdict) -> Option<String> {
    let place = verdict.judged.as_ref()?.place?;
    let task = attempt.trigger.as_ref()?.task.as_ref()?;
    let begin = match place.line {
        Some(line) => format!("Line {line}, at byte {}", place.offset),
        None => format!("Byte {}", place.offset),
    };
    let TaskId { role, index } = task;
    Some(format!(
        "{begin} of the log of {task}. Read on from there:\n  muster job logs {} --attempt {} --role {role} --index \
         {index} --tail {}",
        detail.summary.key, attempt.id, place.to_end,
    ))
}

/// The lines that led to the verdict, the events of devices, and the rule. `read_on`: where the lines stand.
fn evidence(page: &mut Page, verdict: &Verdict, read_on: &str) {
    let quotes = [
        (
            "The log line that tells",
            verdict.matched_user_log.as_deref(),
        ),
        (
            "The runtime's log line that tells",
            verdict.matched_platform_log.as_deref(),
        ),
    ];
    for (title, lines) in quotes {
        page.section(title, &quoted(lines.unwrap_or_default()));
    }
    page.section("Where it stands", read_on);
    let events: Vec<String> = verdict.device_events.iter().map(device_event).collect();
    page.section("What was reported of its devices", &events.join("\n"));
    page.section("By which rule", &judged_by(verdict).unwrap_or_default());
    page.section("Last lines of the log", &quoted(&verdict.user_log));
    page.section(
        "Last lines of the runtime's log",
        &quoted(&verdict.platform_log),
    );
}

/// The lines of a log, each behind a bar.
fn quoted(log: &str) -> String {
    let lines = log.trim_end().lines();
    let lines: Vec<String> = lines.map(|line| format!("| {line}")).collect();
    match log.trim().is_empty() {
        true => String::new(),
        false => lines.join("\n"),
    }
}

/// `2026-11-30 15:03:09  GPU 1  xid 48: Double Bit ECC Error`
fn device_event(event: &DeviceEvent) -> String {
    let DeviceEvent {
        subject,
        at_ms,
        code,
        text,
        ..
    } = event;
    format!("{}  {subject}  {code}: {text}", date(*at_ms))
}

fn tasks(detail: &JobDetail) -> TextTable<9> {
    let mut table = TextTable::new([
        "TASK", "STATE", "NODE", "ADDRESS", "DEVICES", "PORTS", "ATTEMPT", "RETRIES", "EXIT",
    ]);
    for task in detail.tasks() {
        table.row(task_row(task));
    }
    table
}

/// `worker:0  ssh -p 20001 ada@10.0.0.7`, a line for each task that runs and has a server.
fn logins(detail: &JobDetail) -> String {
    let lines = detail.tasks().filter_map(|task| {
        let login = task.ssh.as_ref()?;
        Some(format!("{}  {login}", task.id))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn task_row(task: &TaskView) -> [TableCell; 9] {
    let latest = task.attempts.last();
    let verdict = latest.and_then(|attempt| attempt.verdict.as_ref());
    let state = JobState::of(task.sub_state, verdict.map(Verdict::code));
    let node = latest.and_then(|attempt| attempt.node.as_ref());
    let devices = latest
        .map(|attempt| list(&attempt.devices))
        .unwrap_or_default();
    let ports = latest
        .map(|attempt| ports(&attempt.ports))
        .unwrap_or_default();
    [
        (&task.id).into(),
        TableCell::styled(state, state_style(state)),
        node.map(ToString::to_string).unwrap_or_default().into(),
        latest
            .and_then(|attempt| attempt.address.clone())
            .unwrap_or_default()
            .into(),
        devices.into(),
        ports.into(),
        latest
            .map(|attempt| attempt.id.to_string())
            .unwrap_or_default()
            .into(),
        task.retries.total.into(),
        verdict
            .map(|verdict| format!("{} {}", verdict.code(), verdict.spec.phrase))
            .or_else(|| {
                let hold = latest?.on_hold.as_ref()?;
                Some(format!("{} {} (kept)", hold.code, hold.phrase))
            })
            .unwrap_or_default()
            .into(),
    ]
}

fn ports(ports: &[(String, Vec<u16>)]) -> String {
    let ports: Vec<String> = ports
        .iter()
        .map(|(label, numbers)| format!("{label}={}", list(numbers)))
        .collect();
    ports.join(" ")
}

fn list(numbers: &[impl ToString]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(",")
}

#[cfg(test)]
mod tests;
