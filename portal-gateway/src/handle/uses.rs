//! What tasks used over time: read on the node that they ran on.

use muster_model::id::JobKey;
use muster_model::task_use::TaskUse;
use muster_model::view::{JobSummary, TaskAttemptView};

use super::logs::{self, LogTarget};
use crate::call::Call;
use crate::error::ApiError;
use crate::log_link::LogLocation;
use crate::port::{Jobs, Uses};
use crate::reply::{HandlerResult, HttpReply};

/// `GET /api/muster/v1/jobs/…/tasks/:role/:index/:task/use`
pub(crate) async fn one(call: Call, jobs: &dyn Jobs, uses: &dyn Uses) -> HandlerResult {
    let target = LogTarget::of(&call, jobs).await?;
    HttpReply::json(&at(&call, uses, &target.place).await?)
}

/// `GET /log-manager/…/use`: nodes ask each other, with the link to the task's log
pub(crate) async fn linked(call: Call, jobs: &dyn Jobs, uses: &dyn Uses) -> HandlerResult {
    let place = logs::linked_place(&call, jobs)?;
    HttpReply::json(&uses.of(&place.uid).await.unwrap_or_default())
}

/// What an attempt of a task of this job used, which the caller sees.
pub(crate) async fn of_attempt(
    call: &Call,
    uses: &dyn Uses,
    (job, view): (&JobSummary, &TaskAttemptView),
) -> Result<TaskUse, ApiError> {
    let key: JobKey = job.key.clone();
    match logs::location(call, (key, job.vc.clone()), view)? {
        Some(place) => at(call, uses, &place).await,
        None => Ok(TaskUse::default()),
    }
}

async fn at(call: &Call, uses: &dyn Uses, place: &LogLocation) -> Result<TaskUse, ApiError> {
    if let Some(found) = uses.of(&place.uid).await {
        return Ok(found);
    }
    logs::used_elsewhere(call, place).await
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use super::TaskUse;
    use crate::error::ApiError;
    use crate::openapi::{RouteDoc, any};
    use crate::port::PortError;

    pub(crate) fn one() -> RouteDoc {
        RouteDoc::new(
            "Tells what a task attempt used over time: CPU, memory, and how busy its devices were.",
        )
        .of_task()
        .fails([PortError::NoLog, PortError::Forbidden(any())])
        .json::<TaskUse>()
    }

    pub(crate) fn linked() -> RouteDoc {
        RouteDoc::new("Tells nodes what a task attempt used over time.")
            .query::<String>("token", "What a link to its log was made with.")
            .fails([ApiError::LogLink])
            .fails([PortError::Forbidden(any()), PortError::InvalidToken])
            .json::<TaskUse>()
    }
}
