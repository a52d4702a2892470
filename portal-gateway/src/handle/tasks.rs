//! Tasks of a job, and the deprecated list of a job's attempts.

use muster_model::view::{Dated, JobDetail};

use crate::call::Call;
use crate::port::{self, Jobs};
use crate::reply::{HandlerResult, HttpReply};
use crate::wire::attempt::JobAttempt;
use crate::wire::task::SingleTask;

/// Attempts listed at most, the latest ones.
const ATTEMPTS_MAX: u32 = 100;

/// `GET …/taskRoles/:role/taskIndex/:index/attempts`
pub(crate) async fn attempts(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let key = call.job_key()?;
    let attempt = call.attempt(&key)?;
    let task = call.task_id(&key)?;
    let sight = call.sight(jobs)?;
    let found = jobs.task(&sight, &key, (attempt, &task)).await?;
    let Dated { value, age } = found.found;
    Ok(HttpReply::json(&SingleTask::of(&key, attempt, &value))?.aged(&age))
}

/// `GET /jobs/:job/job-attempts`
pub(crate) async fn job_attempts(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let key = call.job_key()?;
    let sight = call.sight(jobs)?;
    let Dated { value: latest, age } = jobs.job(&sight, &key, None).await?;
    let mut attempts: Vec<JobAttempt> = wire(&latest).into_iter().collect();
    if let Some(last) = latest.attempt.as_ref().map(|attempt| attempt.id) {
        for id in (last.saturating_sub(ATTEMPTS_MAX)..last).rev() {
            let earlier = jobs.job(&sight, &key, Some(id)).await?;
            attempts.extend(wire(&earlier.value));
        }
    }
    Ok(HttpReply::json(&attempts)?.aged(&age))
}

/// `GET /jobs/:job/job-attempts/:attempt`
pub(crate) async fn job_attempt(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let key = call.job_key()?;
    let attempt = call.attempt(&key)?;
    let Dated { value, age } = jobs.job(&call.sight(jobs)?, &key, Some(attempt)).await?;
    let missing = || port::PortError::NoAttempt {
        job: key.to_string(),
        attempt,
    };
    Ok(HttpReply::json(&wire(&value).ok_or_else(missing)?)?.aged(&age))
}

fn wire(job: &JobDetail) -> Option<JobAttempt> {
    job.attempt
        .as_ref()
        .map(|attempt| JobAttempt::of(job, attempt))
}

/// `GET /jobs/:job/job-attempts/healthz`: whether the list of attempts works, of any job, seen or not
pub(crate) async fn job_attempts_health(_: Call) -> HandlerResult {
    Ok(HttpReply::text("ok"))
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use http::StatusCode;

    use super::{JobAttempt, SingleTask};
    use crate::openapi::{RouteDoc, TEXT, any};
    use crate::port::PortError;

    pub(crate) fn attempts() -> RouteDoc {
        RouteDoc::new("Shows a task, with all its attempts.")
            .of_task()
            .json::<SingleTask>()
    }

    pub(crate) fn job_attempts() -> RouteDoc {
        RouteDoc::new("Lists the attempts of a job, the latest first.")
            .of_job()
            .json::<Vec<JobAttempt>>()
    }

    pub(crate) fn job_attempt() -> RouteDoc {
        RouteDoc::new("Shows one attempt of a job.")
            .of_job()
            .fails([PortError::NoAttempt {
                job: any(),
                attempt: 0,
            }])
            .json::<JobAttempt>()
    }

    pub(crate) fn job_attempts_health() -> RouteDoc {
        RouteDoc::new("Says that attempts can be listed.").answer::<String>(StatusCode::OK, TEXT)
    }
}
