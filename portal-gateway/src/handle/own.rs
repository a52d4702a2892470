//! Jobs in the model's own shape, for the command line.

use std::time::Duration;

use serde_json::Value;

use super::jobs::with_state;
use crate::call::Call;
use crate::error::ApiError;
use crate::listing::Listing;
use crate::port::{self, Awaited, FoundJobs, Jobs};
use crate::reply::{HandlerResult, HttpReply};

/// How long `wait` waits unless told, in milliseconds.
const WAIT_MS_DEFAULT: u64 = 30_000;
/// How long it waits at most. Proxies cut off requests that take longer.
const WAIT_MS_MAX: u64 = 60_000;

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
    let rows: Result<Vec<Value>, ApiError> = page.map(|job| with_state(job, &aged)).collect();
    Ok(HttpReply::json(&rows?)?
        .without(&away)
        .aged(&aged)
        .hiding(&hidden))
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
    let mut value = with_state(&job, &[])?;
    value["mark"] = job.mark().into();
    HttpReply::json(&value)
}
