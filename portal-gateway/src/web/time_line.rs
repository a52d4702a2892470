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
    /// What the colour stands for.
    means: &'static str,
    from: u64,
    to: u64,
    /// What the job did, before a duration.
    did: &'static str,
}

impl Span {
    fn told(&self) -> String {
        let length = moment::long(self.to.saturating_sub(self.from));
        format!("{} {length}", self.did)
    }
}

/// The line of a job: from its submission to its end, or to now.
pub(super) fn of(job: &JobSummary) -> Markup {
    let end = job.completed.unwrap_or_else(frame::now_ms);
    let whole = end.saturating_sub(job.submitted).max(1);
    let x = |at: u64| at.saturating_sub(job.submitted).min(whole) * WIDTH / whole;
    let spans = spans(job, end);
    let mut shown: Vec<(&str, &str)> = Vec::new();
    for span in &spans {
        if !shown.contains(&(span.class, span.means)) {
            shown.push((span.class, span.means));
        }
    }
    html! {
        svg.line viewBox={ "0 0 " (WIDTH) " 34" } preserveAspectRatio="none" role="img"
            aria-label=(told(job, &spans)) {
            @for span in &spans {
                rect class=(span.class) x=(x(span.from)) y="4"
                    width=(x(span.to).saturating_sub(x(span.from)).max(2)) height="26" {
                    title { "It " (span.told()) }
                }
            }
        }
        p.dim { (told(job, &spans)) }
        ul.legend { @for (class, means) in shown { li { span class={ "key " (class) } {} (means) } } }
    }
}

/// The parts. Those of a job that goes on end now.
fn spans(job: &JobSummary, end: u64) -> Vec<Span> {
    let wait = |from, to, did| Span {
        class: "wait",
        means: "waiting",
        from,
        to,
        did,
    };
    let Some(placed) = job.created else {
        let did = match job.completed {
            None => "has waited for",
            Some(_) => "waited for",
        };
        return vec![wait(job.submitted, end, did)];
    };
    let mut spans = vec![wait(job.submitted, placed, "waited for")];
    let prepared = |to, did| Span {
        class: "prepare",
        means: "being prepared",
        from: placed,
        to,
        did,
    };
    let Some(first) = job.launched else {
        let did = match job.completed {
            None => "has been prepared for",
            Some(_) => "was prepared for",
        };
        spans.push(prepared(end, did));
        return spans;
    };
    spans.push(prepared(first, "was prepared for"));
    // What came before the latest attempt ran, with the waits in between.
    let last = job.attempt_launched;
    let ended = job.last_end.as_ref().map(|end| end.ended);
    let before_to = last.or(ended).unwrap_or(end);
    if last != Some(first) {
        spans.push(Span {
            class: "before",
            means: "earlier attempts",
            from: first,
            to: before_to,
            did: "had earlier attempts within",
        });
    }
    match last {
        Some(began) => spans.push(ran(job, began, end)),
        None if job.completed.is_none() => spans.push(wait(before_to, end, "has waited again for")),
        None => {}
    }
    spans
}

fn ran(job: &JobSummary, from: u64, to: u64) -> Span {
    let (class, means) = match job.state() {
        JobState::Succeeded => ("good", "ran, and succeeded"),
        JobState::Failed => ("bad", "ran, and failed"),
        JobState::Stopped => ("run", "ran, and was stopped"),
        JobState::Waiting | JobState::Running | JobState::Stopping => ("run", "running"),
    };
    let did = match job.completed {
        None => "has run for",
        Some(_) => "ran for",
    };
    Span {
        class,
        means,
        from,
        to,
        did,
    }
}

/// The same in words.
fn told(job: &JobSummary, spans: &[Span]) -> String {
    let parts = spans.iter().map(Span::told);
    let text = parts.collect::<Vec<_>>().join(", ");
    match job.retries.total {
        0 => format!("It {text}."),
        1 => format!("It {text}, with 1 retry."),
        retries => format!("It {text}, with {retries} retries."),
    }
}
