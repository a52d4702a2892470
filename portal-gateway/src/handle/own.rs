//! Jobs in the model's own shape, for the command line.

use std::time::Duration;

use muster_model::protocol;
use muster_model::state::JobState;
use muster_model::view::{Age, JobSummary};
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Call;
use crate::error::ApiError;
use crate::listing::Listing;
use crate::port::{self, Awaited, FoundJobs, Jobs};
use crate::reply::{HandlerResult, HttpReply};

/// How long `wait` waits unless told, in milliseconds.
const WAIT_MS_DEFAULT: u64 = 30_000;
/// How long it waits at most. Proxies cut off requests that take longer.
const WAIT_MS_MAX: u64 = 60_000;

/// A job with the state that its fields add up to.
#[derive(Serialize, JsonSchema)]
struct OwnJob<'j> {
    #[serde(flatten)]
    job: &'j JobSummary,
    state: JobState,
    /// How old that is, where it has to be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    age: Option<&'j Age>,
    /// A word for how far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<String>,
}

impl<'j> OwnJob<'j> {
    fn of(job: &'j JobSummary, aged: &'j [Age]) -> Self {
        Self {
            job,
            state: job.state(),
            age: aged.iter().find(|age| age.vc == job.vc),
            mark: None,
        }
    }
}

/// A job as [`list`] has it, as a line of JSON.
pub(crate) fn line(job: &JobSummary, aged: &[Age]) -> Result<String, ApiError> {
    let text = serde_json::to_string(&OwnJob::of(job, aged));
    let text = text.map_err(|error| ApiError::Answer(error.to_string()))?;
    Ok(format!("{text}\n"))
}

/// `GET jobs`, with the filters of OpenPAI's listing
pub(crate) async fn list(call: Call, port: &dyn Jobs) -> HandlerResult {
    let listing = Listing::parse(&call.query)?;
    let FoundJobs {
        jobs,
        away,
        aged,
        hidden,
        ..
    } = listing.ask(&call.sight(port)?, port).await?;
    let page = listing.page(&jobs).into_iter();
    let rows: Vec<OwnJob> = page.map(|job| OwnJob::of(job, &aged)).collect();
    Ok(HttpReply::json(&rows)?
        .without(&away)
        .aged(&aged)
        .hiding(&hidden))
}

/// `POST jobs/what-if`, the body being a job: what it would take, and when it would start
pub(crate) async fn what_if(mut call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let body = call.read(call.config.limits.job_bytes).await?;
    let yaml = protocol::text_of(&body);
    let yaml = yaml.map_err(|problem| port::PortError::InvalidJob(vec![problem]))?;
    let sight = call.sight(jobs)?;
    HttpReply::json(&jobs.forecast(call.caller()?, &sight, yaml).await?)
}

/// `GET jobs/:job?attempt=`
pub(crate) async fn detail(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let key = call.job_key()?;
    let attempt = call.number("attempt")?;
    let attempt = attempt
        .map(u32::try_from)
        .transpose()
        .map_err(|_| ApiError::Parameters("attempt is out of range".to_owned()))?;
    let job = jobs.job(&call.sight(jobs)?, &key, attempt).await?;
    Ok(HttpReply::json(&job)?.aged(&job.age))
}

/// `GET jobs/:job/explanation`: why it waits
pub(crate) async fn explanation(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let key = call.job_key()?;
    HttpReply::json(&jobs.explanation(&call.sight(jobs)?, &key).await?)
}

/// `GET jobs/:job/wait?timeout_ms=&seen=`: answers when the job has ended, or has another mark than the one
/// that was seen, or as it stands then
pub(crate) async fn wait(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let key = call.job_key()?;
    let timeout = call.number("timeout_ms")?.unwrap_or(WAIT_MS_DEFAULT);
    let timeout = Duration::from_millis(timeout.min(WAIT_MS_MAX));
    let awaited = match call.query.text("seen") {
        Some(mark) => Awaited::Change(mark.to_owned()),
        None => Awaited::End,
    };
    let sight = call.sight(jobs)?;
    let job = jobs.wait(&sight, &key, &awaited, timeout).await?;
    // The policy may be another one by now.
    call.sight(jobs)?
        .check(&job.vc, &key)
        .map_err(port::PortError::from)?;
    HttpReply::json(&OwnJob {
        mark: Some(job.mark()),
        ..OwnJob::of(&job, &[])
    })
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use muster_model::explanation::Explanation;
    use muster_model::forecast::JobForecast;
    use muster_model::view::{Dated, JobDetail};

    use super::OwnJob;
    use crate::handle::listings;
    use crate::openapi::{FreeObject, RouteDoc, YAML, any};
    use crate::port::PortError;

    pub(crate) fn list() -> RouteDoc {
        listings::about::asks("Lists jobs in Muster's own shape.").json::<Vec<OwnJob<'static>>>()
    }

    pub(crate) fn what_if() -> RouteDoc {
        RouteDoc::new(
            "Tells what a job would take and when it would start if it were submitted now. Nothing is changed.",
        )
        .body::<FreeObject>(YAML)
        .checks_parameters()
        .fails([
            PortError::InvalidJob(Vec::new()),
            PortError::NoStorage(Vec::new()),
            PortError::JobExists {
                job: any(),
                same: None,
            },
            PortError::Forbidden(any()),
            PortError::NoVc(any()),
        ])
        .json::<JobForecast>()
    }

    pub(crate) fn detail() -> RouteDoc {
        RouteDoc::new("Shows a job in Muster's own shape.")
            .of_job()
            .query::<u32>("attempt", "At this attempt; the latest unless told.")
            .checks_parameters()
            .fails([PortError::NoAttempt {
                job: any(),
                attempt: 0,
            }])
            .json::<Dated<JobDetail>>()
    }

    pub(crate) fn explanation() -> RouteDoc {
        RouteDoc::new("Explains why a job waits.")
            .of_job()
            .json::<Explanation>()
    }

    pub(crate) fn wait() -> RouteDoc {
        RouteDoc::new("Waits until a job has ended, or has got on.")
            .of_job()
            .query::<u64>("timeout_ms", "How long, at most 60000; 30000 unless told.")
            .query::<String>("seen", "The mark that was seen: wait for another one.")
            .checks_parameters()
            .json::<OwnJob<'static>>()
    }
}
