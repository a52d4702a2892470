//! Which jobs `GET /jobs` lists, and in which order: upstream's query, with its quirks.

use std::cmp::Ordering;

use muster_model::state::{PriorityClass, State};
use muster_model::view::JobSummary;

use crate::call::Call;
use crate::cluster::{JobFilter, Listed};
use crate::error::Error;
use crate::query::Query;

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
    order: Order,
    offset: u64,
    limit: u64,
    /// Whether to answer with the count besides the rows.
    pub(crate) with_count: bool,
}

impl Listing {
    pub(crate) fn parse(query: &Query) -> Result<Self, Error> {
        let limit = number(query, "limit")?.unwrap_or(LIMIT_DEFAULT);
        if limit > LIMIT_MAX {
            let message = format!("Limit exceeds max number {LIMIT_MAX}.");
            return Err(Error::Parameters(message));
        }
        Ok(Self {
            filter: filter(query),
            order: Order::parse(query.text("order").unwrap_or_default()),
            offset: number(query, "offset")?.unwrap_or(0),
            limit,
            with_count: query.is_true("withTotalCount"),
        })
    }

    /// Asks for the jobs that are to be listed.
    pub(crate) async fn ask(&self, call: &Call) -> Result<Listed, Error> {
        match &self.filter {
            Some(filter) => Ok(call.cluster.jobs(filter).await?),
            None => Ok(Listed::default()),
        }
    }

    /// The page of `jobs` that was asked for.
    pub(crate) fn page<'j>(&self, jobs: &'j [JobSummary]) -> Vec<&'j JobSummary> {
        let mut sorted: Vec<&JobSummary> = jobs.iter().collect();
        sorted.sort_unstable_by(|a, b| self.order.compare(a, b));
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let count = usize::try_from(self.limit).unwrap_or(usize::MAX);
        sorted.into_iter().skip(start).take(count).collect()
    }
}

fn number(query: &Query, name: &str) -> Result<Option<u64>, Error> {
    query.number(name).map_err(|text| {
        Error::Parameters(format!(
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

fn state(name: &str) -> Option<State> {
    use State::*;
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

#[derive(Clone, Copy)]
enum Field {
    Name,
    Submitted,
    User,
    Vc,
    Retries,
    Tasks,
    Gpus,
    State,
    Completed,
    Priority,
}

struct Order {
    field: Field,
    descending: bool,
}

impl Order {
    /// What cannot be an order is ignored, as upstream does: newest first.
    fn parse(text: &str) -> Self {
        Self::known(text).unwrap_or(Self {
            field: Field::Submitted,
            descending: true,
        })
    }

    fn known(text: &str) -> Option<Self> {
        let (field, direction) = text.split_once(',')?;
        let field = match field {
            "jobName" => Field::Name,
            "submissionTime" => Field::Submitted,
            "username" => Field::User,
            "vc" => Field::Vc,
            "retries" => Field::Retries,
            "totalTaskNumber" => Field::Tasks,
            "totalGpuNumber" => Field::Gpus,
            "state" => Field::State,
            "completionTime" => Field::Completed,
            "jobPriority" => Field::Priority,
            _ => return None,
        };
        let descending = match direction {
            "ASC" => false,
            "DESC" => true,
            _ => return None,
        };
        Some(Self { field, descending })
    }

    /// Equal jobs go by submission and name, so that pages never overlap.
    fn compare(&self, a: &JobSummary, b: &JobSummary) -> Ordering {
        let order = self.field.compare(a, b);
        let order = if self.descending {
            order.reverse()
        } else {
            order
        };
        order
            .then_with(|| b.submitted.cmp(&a.submitted))
            .then_with(|| a.key.cmp(&b.key))
    }
}

impl Field {
    fn compare(self, a: &JobSummary, b: &JobSummary) -> Ordering {
        match self {
            Self::Name => a.key.name.cmp(&b.key.name),
            Self::Submitted => a.submitted.cmp(&b.submitted),
            Self::User => a.key.user.cmp(&b.key.user),
            Self::Vc => a.vc.cmp(&b.vc),
            Self::Retries => a.retries.total.cmp(&b.retries.total),
            Self::Tasks => a.tasks.cmp(&b.tasks),
            Self::Gpus => a.gpus.cmp(&b.gpus),
            Self::State => a.state().to_string().cmp(&b.state().to_string()),
            Self::Completed => nulls_last(a.completed, b.completed),
            Self::Priority => {
                let name = |job: &JobSummary| job.priority.map(PriorityClass::as_str);
                nulls_last(name(a), name(b))
            }
        }
    }
}

/// Ascending; what is missing comes last, and so first when the order is turned around.
fn nulls_last<T: Ord>(a: Option<T>, b: Option<T>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}
