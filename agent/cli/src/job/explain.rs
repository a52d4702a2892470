//! `muster job explain`.

use std::fmt::Write;

use clap::Args;
use muster_model::explanation::{Earliest, Explanation, GangExplanation, Launch};
use muster_model::id::JobKey;
use muster_model::sight::HIDDEN_JOB;
use muster_model::state::JobState;

use super::last_end::in_full;
use super::page::idle_gpus;
use crate::console::{Console, Paint, state_style};
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::job_ref::JobArgument;
use crate::moment::{date, now_ms, span};
use crate::output::OutputOption;
use crate::page::Page;
use crate::pull::progress;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
The earliest start is known if the jobs in the way declare extras.muster.maxRunTime (seconds).

Examples:
  muster job explain train
  muster job explain ada~train -o json | jq -r '.gangs[].holders[].job'";

#[derive(Debug, Args)]
pub struct ExplainArguments {
    #[command(flatten)]
    job: JobArgument,
    #[command(flatten)]
    output: OutputOption,
}

impl ExplainArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let (api, key) = self.job.resolve(connection)?;
        let explanation = api.explanation(&key).await?;
        let now = now_ms();
        self.output.write(console, &explanation, |shown, paint| {
            page(shown, now, paint)
        })?;
        Ok(CliStatus::Ok)
    }
}

/// The explanation as text. `now` is in milliseconds since the epoch.
fn page(explanation: &Explanation, now: u64, paint: Paint) -> String {
    let state = explanation.state;
    let key = paint.bold(&explanation.key.to_string());
    let styled = paint.styled(state_style(state), &state.to_string());
    let mut page = Page::new(paint, format!("{key}  {styled}"));
    page.lines(&match &explanation.reason {
        Some(reason) => format!("It {reason}."),
        None => without_reason(explanation).to_owned(),
    });
    if let Some(ahead) = &explanation.ahead {
        page.lines(&ahead.sentence());
    }
    if let Some(idle) = idle_gpus(explanation.gpus_idle) {
        page.lines(&format!("It {idle}."));
    }
    if let Some(last) = &explanation.last_end {
        page.section("How its last attempt ended", &in_full(last, now));
    }
    let launches = launches(&explanation.launches);
    page.section("Machines that it was placed on", &launches);
    for gang in &explanation.gangs {
        page.section(&gang_title(gang), &gang_lines(gang, now).join("\n"));
    }
    let shown = u32::try_from(explanation.gangs.len()).unwrap_or(u32::MAX);
    if let Some(more @ 1..) = explanation.waiting.checked_sub(shown)
        && shown > 0
    {
        page.lines(&format!("\nand {more} more that wait"));
    }
    page.into_text()
}

pub(super) fn gang_title(gang: &GangExplanation) -> String {
    match &gang.task {
        Some(task) => format!("Task {task}"),
        None => "All tasks, which start together".to_owned(),
    }
}

fn without_reason(explanation: &Explanation) -> &'static str {
    let state = explanation.state;
    if state.is_final() {
        return "It has ended and waits for nothing.";
    }
    match (state, explanation.launches.is_empty()) {
        (JobState::Waiting, true) => {
            "Why it waits is not known yet: the agent has just started. Ask again."
        }
        (JobState::Waiting, false) => "It has its places, and starts when all of it is ready.",
        _ => "It waits for nothing.",
    }
}

fn launches(launches: &[Launch]) -> String {
    let widest = launches.iter().map(|launch| launch.node.as_str().len());
    let width = widest.max().unwrap_or_default();
    let mut text = String::new();
    for launch in launches {
        let pulls = launch.pulls.iter();
        let pulls: Vec<String> = pulls
            .map(|pull| format!("gets {}: {}", pull.image, progress(pull)))
            .collect();
        let standing = match (launch.is_ready, launch.is_heard) {
            (true, _) => "is ready".to_owned(),
            (false, false) => "does not say how far it is".to_owned(),
            (false, true) if pulls.is_empty() => {
                "is not ready, and gets no image at the moment".to_owned()
            }
            (false, true) => pulls.join("; "),
        };
        let _ = writeln!(text, "{:<width$}  {standing}", launch.node.as_str());
    }
    text
}

pub(super) fn gang_lines(gang: &GangExplanation, now: u64) -> Vec<String> {
    let mut lines = vec![format!("blocked by       {}", gang.constraint)];
    if gang.task.is_some() {
        lines.push(format!("which means      it {}", gang.reason));
    }
    lines.extend(gang.lacks.iter().map(|lack| {
        format!(
            "lacks            {} of {} {} on {}",
            lack.missing, lack.wanted, lack.what, lack.node
        )
    }));
    lines.extend(gang.holders.iter().map(|holder| {
        let ends = match holder.ends_by {
            Some(at) => format!("ends by {}", date(at)),
            None => "does not say when it ends".to_owned(),
        };
        format!(
            "held by          {} ({}; {ends})",
            name(holder.job.as_ref()),
            holder.leaves
        )
    }));
    lines.push(format!("earliest start   {}", earliest(gang.earliest, now)));
    lines.extend(gang.moves.iter().map(|step| {
        let to: Vec<&str> = step.to.iter().map(|node| node.as_str()).collect();
        format!(
            "would fit if     {} ({}) went on elsewhere: {}",
            name(step.job.as_ref()),
            step.leaves,
            to.join(", ")
        )
    }));
    lines
}

/// What a job is called, as far as the user sees it.
pub(super) fn name(job: Option<&JobKey>) -> String {
    job.map_or_else(|| HIDDEN_JOB.to_owned(), ToString::to_string)
}

fn earliest(earliest: Earliest, now: u64) -> String {
    match earliest {
        Earliest::Now => "as soon as its turn comes".to_owned(),
        Earliest::At(at) => format!(
            "{} (in {}), if nobody comes before it",
            date(at),
            span(at.saturating_sub(now))
        ),
        Earliest::Unknown => "unknown: what is in the way does not say when it ends".to_owned(),
        Earliest::Never => "never, as it is".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::last_end::tests::unresolved;
    use muster_model::explanation::{CellHolder, JobsAhead, Lack, Move};
    use muster_model::pull::Pull;

    const PLAIN: Paint = Paint { colour: false };

    #[test]
    fn everything_known_is_told() {
        let explanation = Explanation {
            key: "ada~big".parse().unwrap(),
            state: JobState::Waiting,
            reason: Some("needs 4 V100 on one node; 2 are free on n1".to_owned()),
            gangs: vec![GangExplanation {
                task: None,
                constraint: "fragmented".to_owned(),
                reason: String::new(),
                lacks: vec![Lack {
                    node: "n1".parse().unwrap(),
                    what: "V100".to_owned(),
                    wanted: 4,
                    missing: 2,
                }],
                holders: [Some("bob~long"), None]
                    .map(|job| CellHolder {
                        job: job.map(|job| job.parse().unwrap()),
                        leaves: 2,
                        ends_by: Some(60_000),
                    })
                    .into(),
                earliest: Earliest::At(60_000),
                moves: vec![Move {
                    job: "bob~long".parse().ok(),
                    leaves: 2,
                    to: vec!["n2".parse().unwrap()],
                }],
            }],
            waiting: 3,
            ahead: Some(JobsAhead {
                jobs: 3,
                next: "lena~a".parse().ok(),
            }),
            last_end: None,
            gpus_idle: 0,
            launches: Vec::new(),
        };
        assert_eq!(
            page(&explanation, 0, PLAIN),
            "\
ada~big  WAITING
  It needs 4 V100 on one node; 2 are free on n1.
  3 jobs are ahead of it in its queue, the next: lena~a.

All tasks, which start together
  blocked by       fragmented
  lacks            2 of 4 V100 on n1
  held by          bob~long (2; ends by 1970-01-01 00:01:00 UTC)
  held by          a job of another user (2; ends by 1970-01-01 00:01:00 UTC)
  earliest start   1970-01-01 00:01:00 UTC (in 1m), if nobody comes before it
  would fit if     bob~long (2) went on elsewhere: n2

  and 2 more that wait
"
        );
    }

    #[test]
    fn a_job_that_was_tried_again_says_how_its_last_attempt_ended() {
        let explanation = Explanation {
            key: "ada~big".parse().unwrap(),
            state: JobState::Waiting,
            reason: Some("waits for the end of the pause before another try".to_owned()),
            gangs: Vec::new(),
            waiting: 1,
            ahead: None,
            last_end: Some(Box::new(unresolved())),
            gpus_idle: 2,
            launches: Vec::new(),
        };
        let page = page(&explanation, 90_000, PLAIN);
        let told = "
How its last attempt ended
  Attempt 3 ended with 254 (ContainerImageNotExists), 30s ago.
  The registry is not known: nosuch.example
";
        assert!(page.contains(told), "{page}");
        assert!(
            page.contains("The next attempt may start in 10s."),
            "{page}"
        );
        assert!(page.contains("  It keeps 2 GPUs idle"), "{page}");
    }

    #[test]
    fn each_machine_of_a_placed_gang_says_how_far_it_is() {
        let launch = |node: &str, is_ready, is_heard| Launch {
            node: node.parse().unwrap(),
            is_ready,
            images: ["big:1".to_owned()].into(),
            pulls: Vec::new(),
            is_heard,
        };
        let pull = Pull {
            image: "big:1".to_owned(),
            bytes: 3 << 20,
            bytes_total: Some(12 << 20),
            layers: 0,
            layers_total: 0,
            for_ms: 40_000,
        };
        let explanation = Explanation {
            key: "ada~big".parse().unwrap(),
            state: JobState::Waiting,
            reason: None,
            gangs: Vec::new(),
            waiting: 0,
            ahead: None,
            last_end: None,
            gpus_idle: 0,
            launches: vec![
                launch("n1", true, false),
                Launch {
                    pulls: vec![pull],
                    ..launch("node2", false, true)
                },
                launch("n3", false, true),
                launch("n4", false, false),
            ],
        };
        assert_eq!(
            page(&explanation, 0, PLAIN),
            "\
ada~big  WAITING
  It has its places, and starts when all of it is ready.

Machines that it was placed on
  n1     is ready
  node2  gets big:1: 3.00 MiB of 12.00 MiB have arrived, for 40s so far
  n3     is not ready, and gets no image at the moment
  n4     does not say how far it is
"
        );
    }
}
