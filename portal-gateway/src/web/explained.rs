//! Why a job waits, and how its last attempt ended.

use maud::{Markup, html};
use muster_model::aftermath::{Actor, judged_by};
use muster_model::exit::{LinePlace, Verdict};
use muster_model::explanation::{Earliest, Explanation, GangExplanation};
use muster_model::health::DeviceEvent;
use muster_model::pull::Pull;
use muster_model::view::LastEnd;

use super::job_list;
use super::moment::{self, stamp};

/// What blocks a gang whose cells are faulty, away or kept free.
const HARDWARE: &str = "hardware";

/// The card of a job that waits.
/// `kept`: nodes that are kept free, each with a line that says so.
pub(super) fn waiting(explanation: &Explanation, kept: &[(String, String)], now: u64) -> Markup {
    let Some(reason) = &explanation.reason else {
        return html! {};
    };
    html! {
        section.card.warn {
            h2 { "Why it waits" }
            p { "It " (reason) "." }
            @for (node, line) in kept.iter().filter(|(node, _)| is_cause(explanation, node)) {
                p { "Node " a href={ "/nodes/" (node) } { (node) } ": " (line) "." }
            }
            @if let Some(ahead) = &explanation.ahead { p { (ahead.sentence()) } }
            @for gang in &explanation.gangs { (gang_reason(gang, now)) }
            @for launch in explanation.launches.iter().filter(|launch| !launch.is_ready) {
                p.dim { "Node " (launch.node.as_str()) " is not ready yet."
                    @for pull in &launch.pulls { " " (pulled(pull)) } }
            }
        }
    }
}

/// Whether a node that is kept free is why a gang waits: the reason names it then.
fn is_cause(explanation: &Explanation, node: &str) -> bool {
    let told = explanation
        .gangs
        .iter()
        .filter(|gang| gang.constraint == HARDWARE);
    let mut reasons = told
        .map(|gang| gang.reason.as_str())
        .chain(explanation.reason.as_deref());
    let is_end = |c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.');
    reasons.any(|reason| {
        reason
            .split(is_end)
            .any(|word| word.trim_end_matches('.') == node)
    })
}

/// How far an image is.
fn pulled(pull: &Pull) -> String {
    const MIB: u64 = 1 << 20;
    let image = &pull.image;
    match (pull.layers_total, pull.bytes_total) {
        (0, Some(total)) => format!(
            "It fetches {image}: {} of {} MiB.",
            pull.bytes / MIB,
            total.div_ceil(MIB)
        ),
        (0, None) => format!("It fetches {image}: {} MiB so far.", pull.bytes / MIB),
        (layers, _) => format!("It unpacks {image}: {} of {layers} layers.", pull.layers),
    }
}

/// When a job ends by its own word, or for how long it has been due.
fn ends(end: u64, now: u64) -> Markup {
    html! {
        @match now.checked_sub(end) {
            Some(late) => { "overdue by " (moment::long(late)) }
            None => { "expected to end " (moment::future(end, now)) }
        }
    }
}

pub(super) fn gang_reason(gang: &GangExplanation, now: u64) -> Markup {
    html! {
        div {
            @if let Some(task) = &gang.task { p { "Task " (task.to_string()) ": " (gang.reason) } }
            @if !gang.lacks.is_empty() {
                p.dim { "Has to come free: "
                    @for lack in &gang.lacks {
                        (lack.missing) " of " (lack.what) " on " (lack.node.as_str()) ". "
                    } }
            }
            @if !gang.holders.is_empty() {
                p.dim { "In use by: "
                    @for holder in &gang.holders {
                        @match &holder.job {
                            Some(job) => { (job_list::link(job)) }
                            None => { "a job that you do not see" }
                        }
                        @if let Some(end) = holder.ends_by { " (" (ends(end, now)) ")" }
                        " "
                    } }
            }
            @if let Earliest::At(ms) = gang.earliest {
                p { "It does not start before " (stamp(ms)) " (" (moment::future(ms, now)) "): by then what it needs may be free. \
                    Jobs that are ahead of it may take that first." }
            }
        }
    }
}

/// The card of an end that is not a success: what happened, the lines that show it, and what to do.
/// `done`: what the platform did after it. `log`: the page of the log that the lines are from.
pub(super) fn verdict(verdict: &Verdict, done: Option<&str>, log: Option<&str>) -> Markup {
    let spec = &verdict.spec;
    html! {
        section.card.bad {
            h2 { "Why it ended" }
            p { @match verdict.origin_exit_code {
                Some(own) if own != spec.code => {
                    strong { "Exit code " (own) } " of the command, "
                    (spec.phrase) " (Muster's class " (spec.code) ")"
                }
                _ => { strong { (spec.phrase) } " (exit code " (spec.code) ")" }
            } }
            p { (verdict.diagnostics) }
            @if let Some(reason) = spec.reason.as_ref().filter(|it| !verdict.diagnostics.contains(it.as_str())) {
                p { (reason) }
            }
            @if let Some(done) = done { p { (done) } }
            p { strong { "Who can act: " } (Actor::of(spec).to_string()) }
            @if !spec.solution.is_empty() {
                p { strong { "What to do" } }
                ul { @for step in &spec.solution { li { (step) } } }
            }
            (evidence("The lines that show it", verdict.matched_user_log.as_deref(), true))
            @if let (Some(log), Some(place)) = (log, place(verdict)) {
                p { a href={ (log) "?mark=" (place.offset) "#here" } {
                    @match place.line { Some(line) => { "Line " (line) " of the log" } None => { "The place in the log" } }
                } }
            }
            (device_events(&verdict.device_events))
            (evidence("The lines of the platform that show it", verdict.matched_platform_log.as_deref(), true))
            (evidence("The end of the log", Some(verdict.user_log.as_str()), true))
            (evidence("The end of the platform's log", Some(verdict.platform_log.as_str()), false))
            @if let Some(rule) = judged_by(verdict) { p.dim { (rule) } }
        }
    }
}

fn place(verdict: &Verdict) -> Option<LinePlace> {
    verdict.judged.as_ref()?.place
}

/// What was reported of the task's devices.
fn device_events(events: &[DeviceEvent]) -> Markup {
    html! {
        @if !events.is_empty() {
            p { strong { "What was reported of its devices" } }
            ul { @for event in events {
                li { span.dim { (stamp(event.at_ms)) } " " (event.subject.to_string()) " " strong { (event.code) } ": " (event.text) }
            } }
        }
    }
}

fn evidence(title: &str, text: Option<&str>, is_open: bool) -> Markup {
    let text = text.unwrap_or_default().trim_end();
    html! {
        @if !text.is_empty() {
            details open[is_open] { summary { (title) } pre.log tabindex="0" { (super::terminal::coloured(text)) } }
        }
    }
}

/// How the attempt before ended, of a job that was tried again.
/// `gave_way`: to which job it gave way, as a sentence, if it did.
pub(super) fn last_end(end: &LastEnd, gave_way: Option<&str>, now: u64) -> Markup {
    html! {
        section.card.warn {
            h2 { "It was tried again" }
            p { "Attempt " (end.attempt) @if let Some(task) = &end.task { " of task " (task.to_string()) }
                " ended " (moment::past(end.ended, now)) ": " strong { (end.phrase) }
                " (exit code " (end.code) ")." }
            p { (end.reason) }
            @if let Some(gave_way) = gave_way { p { (gave_way) } }
            @if !end.solution.is_empty() { ul { @for step in &end.solution { li { (step) } } } }
            @if end.in_a_row > 1 { p { (end.in_a_row) " attempts in a row ended so." } }
            @if let Some(at) = end.next_at { p { "The next attempt may start " (moment::future(at, now)) "." } }
        }
    }
}
