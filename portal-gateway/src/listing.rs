//! Which jobs `GET /jobs` lists: upstream's query, with its quirks.

use muster_model::state::{JobState, PriorityClass};
use muster_model::view::JobSummary;

use crate::error::ApiError;
use crate::port::{FoundJobs, Jobs};
use crate::query::Query;
use muster_model::job_order::JobOrder;
use muster_model::job_query::{First, JobFilter, JobQuery};
use muster_model::sight::JobSight;

/// Rows when no limit is named.
const LIMIT_DEFAULT: u64 = 5000;
/// Rows at most.
const LIMIT_MAX: u64 = 50_000;
/// How a listing names "no priority class".
const NO_PRIORITY: &str = "default";

/// A parsed listing query.
pub(crate) struct Listing {
    /// `None` if the query names only states or priorities that no job has.
    pub(crate) filter: Option<JobFilter>,
    order: JobOrder,
    offset: u64,
    limit: u64,
    /// Whether to answer with the count besides the rows.
    pub(crate) with_count: bool,
}

impl Listing {
    pub(crate) fn parse(query: &Query) -> Result<Self, ApiError> {
        let limit = number(query, "limit")?.unwrap_or(LIMIT_DEFAULT);
        if limit > LIMIT_MAX {
            let message = format!("Limit exceeds max number {LIMIT_MAX}.");
            return Err(ApiError::Parameters(message));
        }
        Ok(Self {
            filter: filter(query),
            order: JobOrder::parse(query.text("order").unwrap_or_default()),
            offset: number(query, "offset")?.unwrap_or(0),
            limit,
            with_count: query.is_true("withTotalCount"),
        })
    }

    /// Asks for the jobs that are to be listed, and for those before them.
    pub(crate) async fn ask(
        &self,
        sight: &JobSight,
        jobs: &dyn Jobs,
    ) -> Result<FoundJobs, ApiError> {
        let Some(filter) = &self.filter else {
            return Ok(FoundJobs::default());
        };
        let last = self.offset.saturating_add(self.limit);
        let query = JobQuery {
            filter: filter.clone(),
            first: Some(First {
                order: self.order,
                count: usize::try_from(last).unwrap_or(usize::MAX),
            }),
        };
        Ok(jobs.list(sight, &query).await?)
    }

    /// The page of `jobs` that was asked for.
    pub(crate) fn page<'j>(&self, jobs: &'j [JobSummary]) -> Vec<&'j JobSummary> {
        let mut sorted: Vec<&JobSummary> = jobs.iter().collect();
        sorted.sort_unstable_by(|a, b| self.order.compare(*a, *b));
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let count = usize::try_from(self.limit).unwrap_or(usize::MAX);
        sorted.into_iter().skip(start).take(count).collect()
    }
}

fn number(query: &Query, name: &str) -> Result<Option<u64>, ApiError> {
    query.number(name).map_err(|text| {
        ApiError::Parameters(format!(
            "{name} must be a whole number from 0, not {text:?}"
        ))
    })
}

fn filter(query: &Query) -> Option<JobFilter> {
    Some(JobFilter {
        users: query.list("username"),
        vcs: query.list("vc"),
        states: known(&query.list("state"), state)?,
        priorities: known(&query.list("jobPriority"), priority)?,
        keyword: query.text("keyword").map(str::to_owned),
        tags_any: query.list("tagsContain"),
        tags_none: query.list("tagsNotContain"),
    })
}

/// The values that names stand for. `None` if names are given but none is known: then nothing
/// can match, while an empty list would match everything.
fn known<T>(names: &[String], parse: fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let values: Vec<T> = names.iter().filter_map(|name| parse(name)).collect();
    (names.is_empty() || !values.is_empty()).then_some(values)
}

fn state(name: &str) -> Option<JobState> {
    use JobState::*;
    [Waiting, Running, Stopping, Succeeded, Stopped, Failed]
        .into_iter()
        .find(|state| state.to_string() == name)
}

fn priority(name: &str) -> Option<Option<PriorityClass>> {
    use PriorityClass::*;
    if name == NO_PRIORITY {
        return Some(None);
    }
    [Oppo, Test, Prod, Crit]
        .into_iter()
        .find(|class| class.as_str() == name)
        .map(Some)
}
