//! What becomes of the marked jobs of the list, and what the page says of it.
//!
//! Such a notice is in an address as a code and a number, never as a text: an address may come from anybody.

use http::StatusCode;
use maud::{Markup, html};
use muster_model::state::ExecutionType;

use super::{form, frame, job_list};
use crate::call::Call;
use crate::error::ApiError;
use crate::handle::jobs::checked_tag;
use crate::port::{Jobs, Membership, Nodes};
use crate::reply::HandlerResult;

/// Jobs that one form changes at most.
const CHANGED_MAX: usize = 500;
/// In an address: no job was marked.
const UNMARKED: &str = "unmarked";

/// What is done with jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobAction {
    Stop,
    Tag,
}

impl JobAction {
    fn named(word: Option<&str>) -> Result<Self, ApiError> {
        match word {
            Some("stop") => Ok(Self::Stop),
            Some("tag") => Ok(Self::Tag),
            _ => {
                let rule = "action must be stop or tag";
                Err(ApiError::Parameters(rule.to_owned()))
            }
        }
    }

    /// In an address: how many jobs it was done with.
    const fn code(self) -> &'static str {
        match self {
            Self::Stop => "stopping",
            Self::Tag => "tagged",
        }
    }

    fn told(self, jobs: u64) -> String {
        match (self, jobs) {
            (Self::Stop, 1) => "1 job is being stopped.".to_owned(),
            (Self::Stop, _) => format!("{jobs} jobs are being stopped."),
            (Self::Tag, 1) => "1 job was tagged.".to_owned(),
            (Self::Tag, _) => format!("{jobs} jobs were tagged."),
        }
    }
}

/// What became of the jobs of a form.
struct ChangedJobs {
    action: JobAction,
    done: u64,
    /// Those that need not be stopped.
    ended: Vec<String>,
    /// Those that were not changed, each with the reason.
    failed: Vec<String>,
}

impl ChangedJobs {
    fn notice(&self) -> Markup {
        let class = if self.done > 0 {
            "card warn"
        } else {
            "card bad"
        };
        html! {
            section class=(class) role="alert" {
                @if self.done > 0 { p { (self.action.told(self.done)) } }
                (list(&self.ended, "had ended already"))
                (list(&self.failed, match self.done {
                    0 => "could not be changed",
                    _ if self.failed.len() == 1 => "was not",
                    _ => "were not",
                }))
            }
        }
    }
}

/// `1 was not: ann~job: ...`
fn list(lines: &[String], what: &str) -> Markup {
    html! {
        @if let [line] = lines { p { "1 " (what) ": " (line) } }
        @else if !lines.is_empty() {
            p { (lines.len()) " " (what) ":" }
            ul { @for line in lines { li { (line) } } }
        }
    }
}

/// `POST /jobs`: stops or tags the jobs that are marked. The address has the filters of the page that is shown next.
pub(crate) async fn change(
    mut call: Call,
    jobs: &dyn Jobs,
    nodes: &dyn Nodes,
    membership: &dyn Membership,
) -> HandlerResult {
    let fields = form::read(&mut call).await?;
    let action = JobAction::named(fields.text("action"))?;
    let names = fields.all("job");
    if names.is_empty() {
        let place = job_list::place(&call.query, &[(UNMARKED, "1")]);
        return Ok(frame::see(&place));
    }
    if names.len() > CHANGED_MAX {
        let rule = format!("at most {CHANGED_MAX} jobs can be changed at a time");
        return Err(ApiError::Parameters(rule));
    }
    let tag = match action {
        JobAction::Stop => String::new(),
        JobAction::Tag => checked_tag(fields.text("tag").unwrap_or_default().trim())?,
    };
    let mut changed = ChangedJobs {
        action,
        done: 0,
        ended: Vec::new(),
        failed: Vec::new(),
    };
    for name in names {
        let outcome = match action {
            JobAction::Stop => stop(&call, &name, jobs).await,
            JobAction::Tag => add_tag(&call, (&name, &tag), jobs).await.map(|()| true),
        };
        match outcome {
            Ok(true) => changed.done += 1,
            Ok(false) => changed.ended.push(name),
            Err(error) => changed.failed.push(format!("{name}: {error}")),
        }
    }
    if changed.failed.is_empty() && changed.ended.is_empty() {
        let done = changed.done.to_string();
        let place = job_list::place(&call.query, &[(action.code(), &done)]);
        return Ok(frame::see(&place));
    }
    let page = job_list::shown(&call, (jobs, nodes, membership), (changed.notice(), None)).await?;
    Ok(match changed.done {
        0 => page.with_status(StatusCode::BAD_REQUEST),
        _ => page,
    })
}

/// Whether there was something to stop.
async fn stop(call: &Call, name: &str, jobs: &dyn Jobs) -> Result<bool, ApiError> {
    let key = job_list::named(name)?;
    call.check_owner(&key, jobs).await?;
    let job = jobs.job(&call.sight(jobs)?, &key, None).await?.value;
    if job.summary.state().is_final() {
        return Ok(false);
    }
    jobs.set_execution_type(&key, ExecutionType::Stop).await?;
    Ok(true)
}

async fn add_tag(call: &Call, (name, tag): (&str, &str), jobs: &dyn Jobs) -> Result<(), ApiError> {
    let key = job_list::named(name)?;
    call.check_owner(&key, jobs).await?;
    Ok(jobs.add_tag(&key, tag).await?)
}

/// The notice that an address asks for.
pub(super) fn notice(call: &Call) -> Result<Markup, ApiError> {
    for action in [JobAction::Stop, JobAction::Tag] {
        if let Some(done) = call.number(action.code())? {
            return Ok(html! { p.card.good role="status" { (action.told(done)) } });
        }
    }
    Ok(match call.query.has(UNMARKED) {
        true => html! {
            p.card.warn role="alert" { "No job was marked, and nothing was changed. Mark jobs in the first column, then choose what to do." }
        },
        false => html! {},
    })
}
