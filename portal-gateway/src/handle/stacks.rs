//! What the tasks of a job do at this moment: for its owner, and for admins.

use muster_model::stacks::StacksFilter;

use crate::call::Call;
use crate::error::ApiError;
use crate::port::Jobs;
use crate::query::Query;
use crate::reply::{HandlerResult, HttpReply};

/// `POST jobs/:job/stacks?role=&task=&all_threads=`
pub(crate) async fn take(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let key = call.job_key()?;
    let filter = filter(&call.query)?;
    call.check_owner(&key, jobs).await?;
    HttpReply::json(&jobs.stacks(&call.sight(jobs)?, &key, &filter).await?)
}

/// What a query asks for.
///
/// # Errors
/// When a parameter is no role, or no number.
pub(crate) fn filter(query: &Query) -> Result<StacksFilter, ApiError> {
    let text = |name| query.text(name).filter(|text| !text.is_empty());
    let role = text("role").map(str::parse).transpose();
    let role = role.map_err(|error| ApiError::Parameters(format!("role: {error}")))?;
    let index = text("task").map(str::parse).transpose();
    let index = index.map_err(|_| {
        ApiError::Parameters("task must be the index of a task, such as 0".to_owned())
    })?;
    Ok(StacksFilter {
        role,
        index,
        all_threads: query.is_true("all_threads"),
    })
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use muster_model::stacks::JobStacks;

    use crate::openapi::{RouteDoc, any};
    use crate::port::PortError;

    pub(crate) fn take() -> RouteDoc {
        RouteDoc::new(
            "Looks what the tasks of a running job do at this moment, and groups them. Takes some seconds.",
        )
        .of_job()
        .of_owner()
        .query::<String>("role", "Only tasks of this role.")
        .query::<u32>("task", "Only tasks with this index.")
        .query::<bool>("all_threads", "All threads, not only the main one and those of Python.")
        .checks_parameters()
        .fails([PortError::Invalid(any()), PortError::NotNow(any())])
        .json::<JobStacks>()
    }
}
