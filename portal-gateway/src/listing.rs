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

/// A parsed listing query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Listing {
    pub(crate) filter: JobFilter,
    /// Whether the query names only states or priorities that no job has.
    takes_none: bool,
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
        let (filter, takes_none) = filter(query)?;
        Ok(Self {
            filter,
            takes_none,
            order: order(query)?,
            offset: number(query, "offset")?.unwrap_or(0),
            limit,
            with_count: with_count(query)?,
        })
    }

    /// Asks for the jobs that are to be listed, and for those before them.
    pub(crate) async fn ask(
        &self,
        sight: &JobSight,
        jobs: &dyn Jobs,
    ) -> Result<FoundJobs, ApiError> {
        let last = self.offset.saturating_add(self.limit);
        // Where no job can be taken, it is asked all the same whether jobs are hidden.
        let count = if self.takes_none { 0 } else { last };
        let query = JobQuery {
            filter: self.filter.clone(),
            first: Some(First {
                order: self.order,
                count: usize::try_from(count).unwrap_or(usize::MAX),
            }),
            // OpenPAI's rows have no place for them.
            reasons: false,
        };
        let found = jobs.list(sight, &query).await?;
        Ok(match self.takes_none {
            true => FoundJobs { total: 0, ..found },
            false => found,
        })
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

/// The filter of a query, and whether it takes no job at all.
fn filter(query: &Query) -> Result<(JobFilter, bool), ApiError> {
    let states = known("state", &query.list("state"), &STATES)?;
    let priorities = known("jobPriority", &query.list("jobPriority"), &PRIORITIES)?;
    let takes_none = states.is_none() || priorities.is_none();
    let (states, priorities) = (states.unwrap_or_default(), priorities.unwrap_or_default());
    let filter = JobFilter {
        users: query.list("username"),
        vcs: query.list("vc"),
        states,
        priorities,
        keyword: query.text("keyword").map(str::to_owned),
        tags_any: query.list("tagsContain"),
        tags_none: query.list("tagsNotContain"),
    };
    Ok((filter, takes_none))
}

/// States by name. No job is ever in upstream's last one.
const STATES: [(&str, Option<JobState>); 7] = [
    ("WAITING", Some(JobState::Waiting)),
    ("RUNNING", Some(JobState::Running)),
    ("STOPPING", Some(JobState::Stopping)),
    ("SUCCEEDED", Some(JobState::Succeeded)),
    ("STOPPED", Some(JobState::Stopped)),
    ("FAILED", Some(JobState::Failed)),
    ("UNKNOWN", None),
];

/// Priority classes by name; upstream's word for none is `default`.
const PRIORITIES: [(&str, Option<Option<PriorityClass>>); 5] = [
    ("oppo", Some(Some(PriorityClass::Oppo))),
    ("test", Some(Some(PriorityClass::Test))),
    ("prod", Some(Some(PriorityClass::Prod))),
    ("crit", Some(Some(PriorityClass::Crit))),
    ("default", Some(None)),
];

/// The values that names stand for. `None` if names are given and no job has any of them: then nothing
/// can match, while an empty list would match everything.
fn known<T: Copy>(
    field: &str,
    names: &[String],
    all: &[(&str, Option<T>)],
) -> Result<Option<Vec<T>>, ApiError> {
    let mut values = Vec::new();
    for name in names {
        let found = all.iter().find(|(one, _)| one == name);
        let (_, value) = found.ok_or_else(|| {
            let allowed: Vec<_> = all.iter().map(|(one, _)| *one).collect();
            let allowed = allowed.join(", ");
            ApiError::Parameters(format!(
                "{field} must be of [{allowed}], joined by commas, not {name:?}"
            ))
        })?;
        values.extend(*value);
    }
    Ok((names.is_empty() || !values.is_empty()).then_some(values))
}

/// OpenPAI's portal names no field where it has forgotten what it sorts by.
const NO_FIELD: &str = "undefined,";

fn order(query: &Query) -> Result<JobOrder, ApiError> {
    let Some(text) = query.text("order").filter(|it| !it.starts_with(NO_FIELD)) else {
        return Ok(JobOrder::default());
    };
    JobOrder::parse(text).ok_or_else(|| {
        let fields = JobOrder::fields().join(", ");
        ApiError::Parameters(format!(
            "order must be FIELD,ASC or FIELD,DESC, not {text:?}; the fields are {fields}"
        ))
    })
}

fn with_count(query: &Query) -> Result<bool, ApiError> {
    match query.text("withTotalCount") {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(ApiError::Parameters(format!(
            "withTotalCount must be true or false, not {other:?}"
        ))),
    }
}
