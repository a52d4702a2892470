//! Job listings in OpenPAI's shape.

use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Call;
use crate::clock;
use crate::error::ApiError;
use crate::list_cache::AskedList;
use crate::listing::Listing;
use crate::port::{FoundJobs, Jobs};
use crate::reply::{HandlerResult, HttpReply};
use crate::wire::job::ListingRow;

/// Jobs, with `withTotalCount` beside how many there are without `limit` and `offset`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum ListedJobs {
    Rows(Vec<ListingRow>),
    Counted {
        total_count: usize,
        data: Vec<ListingRow>,
    },
}

/// `GET /jobs`
pub(crate) async fn list(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let listing = Listing::parse(&call.query)?;
    answer(&call, listing, jobs).await
}

/// `GET /api/v1/user/:user/jobs`
pub(crate) async fn of_user(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let mut listing = Listing::parse(&call.query)?;
    let user = call.params.text("user").to_owned();
    listing.filter.users = vec![user];
    answer(&call, listing, jobs).await
}

async fn answer(call: &Call, listing: Listing, port: &dyn Jobs) -> HandlerResult {
    let sight = call.sight(port)?;
    let asked = AskedList { sight, listing };
    let revision = port.revision(&asked.listing.filter).await;
    if let Some(kept) = revision.as_ref().and_then(|it| call.lists.get(&asked, it)) {
        return Ok(kept);
    }
    let (reply, is_settled) = written(&asked, port).await?;
    if let Some(revision) = revision.filter(|_| is_settled) {
        call.lists.keep(asked, revision, &reply);
    }
    Ok(reply)
}

/// The answer, and whether it stays the same while the jobs do.
async fn written(
    AskedList { sight, listing }: &AskedList,
    port: &dyn Jobs,
) -> Result<(HttpReply, bool), ApiError> {
    let FoundJobs {
        jobs,
        total,
        away,
        aged,
        hidden,
    } = listing.ask(sight, port).await?;
    let page = listing.page(&jobs);
    // A pause that has not ended is told in seconds from now.
    let now_ms = clock::now_s().saturating_mul(1000);
    let has_paused = page
        .iter()
        .any(|job| job.retry_at.is_some_and(|at| at > now_ms));
    let is_settled = !has_paused && away.is_empty() && aged.is_empty();
    let page: Vec<ListingRow> = page.into_iter().map(ListingRow::of).collect();
    let listed = match listing.with_count {
        true => ListedJobs::Counted {
            total_count: total,
            data: page,
        },
        false => ListedJobs::Rows(page),
    };
    let reply = HttpReply::json(&listed)?;
    let reply = reply.without(&away).aged(&aged).hiding(&hidden).tagged();
    Ok((reply, is_settled))
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use super::ListedJobs;
    use crate::openapi::{RouteDoc, any};
    use crate::port::PortError;

    /// What a listing of jobs is asked with.
    pub(in crate::handle) fn asks(sentence: &'static str) -> RouteDoc {
        RouteDoc::new(sentence)
            .query::<String>("username", "Only jobs of these users, joined by commas.")
            .query::<String>(
                "vc",
                "Only jobs in these virtual clusters, joined by commas.",
            )
            .query::<String>(
                "state",
                "Only jobs in these states, joined by commas: `WAITING,RUNNING`.",
            )
            .query::<String>(
                "jobPriority",
                "Only jobs of these classes, joined by commas.",
            )
            .query::<String>(
                "keyword",
                "Only jobs with this in their name, user or virtual cluster.",
            )
            .query::<String>(
                "tagsContain",
                "Only jobs with one of these tags, joined by commas.",
            )
            .query::<String>(
                "tagsNotContain",
                "Only jobs with none of these tags, joined by commas.",
            )
            .query::<String>(
                "order",
                "What to sort by: a field, a comma, and `ASC` or `DESC`.",
            )
            .query::<u32>("limit", "Rows at most, up to 50000; 5000 unless told.")
            .query::<u32>("offset", "Rows to pass over.")
            .query::<bool>("withTotalCount", "Whether to count all that are found.")
            .checks_parameters()
            .fails([PortError::Forbidden(any())])
    }

    pub(crate) fn list() -> RouteDoc {
        asks("Lists jobs.").json::<ListedJobs>().tagged()
    }

    pub(crate) fn of_user() -> RouteDoc {
        asks("Lists the jobs of a user.")
            .json::<ListedJobs>()
            .tagged()
    }
}
