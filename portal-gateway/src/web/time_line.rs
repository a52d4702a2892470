//! A job's time on one line: waiting, running, and how it ended.

use maud::{Markup, html};
use muster_model::state::JobState;
use muster_model::view::JobSummary;

use super::{frame, moment};

/// Width of the drawing, in its own units.
const WIDTH: u64 = 1000;

/// A part of the line.
struct Span {
    class: &'static str,
    from: u64,
    to: u64,
    title: String,
}

/// The line of a job: from its submission to its end, or to now.
pub(super) fn of(job: &JobSummary) -> Markup {
    let end = job.completed.unwrap_or_else(frame::now_ms);
    let whole = end.saturating_sub(job.submitted).max(1);
    let x = |at: u64| at.saturating_sub(job.submitted).min(whole) * WIDTH / whole;
    html! {
        svg.line viewBox={ "0 0 " (WIDTH) " 34" } preserveAspectRatio="none" role="img"
            aria-label=(told(job, end)) {
            @for span in spans(job, end) {
                rect class=(span.class) x=(x(span.from)) y="4"
                    width=(x(span.to).saturating_sub(x(span.from)).max(2)) height="26" {
                    title { (span.title) }
                }
            }
        }
        p.dim { (told(job, end)) }
    }
}

fn spans(job: &JobSummary, end: u64) -> Vec<Span> {
    let span = |class, from: u64, to: u64, word: &str| Span {
        class,
        from,
        to,
        title: format!("{word} for {}", moment::long(to.saturating_sub(from))),
    };
    let placed = job.created.unwrap_or(end);
    let launched = job.launched.unwrap_or(end);
    let mut spans = vec![span("wait", job.submitted, placed, "waited")];
    if job.created.is_some() {
        spans.push(span("wait", placed, launched, "was prepared"));
    }
    if job.launched.is_some() {
        let class = match job.state() {
            JobState::Succeeded => "good",
            JobState::Failed => "bad",
            _ => "run",
        };
        spans.push(span(class, launched, end, "ran"));
    }
    spans
}

/// The same in words.
fn told(job: &JobSummary, end: u64) -> String {
    let parts = spans(job, end).into_iter().map(|span| span.title);
    let text = parts.collect::<Vec<_>>().join(", ");
    match job.retries.total {
        0 => format!("It {text}."),
        retries => format!("It {text}, with {retries} retries."),
    }
}
