//! Job listings in OpenPAI's shape.

use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Call;
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
    let FoundJobs {
        jobs,
        total,
        away,
        aged,
        hidden,
    } = listing.ask(&call.sight(port)?, port).await?;
    let page: Vec<ListingRow> = listing
        .page(&jobs)
        .into_iter()
        .map(ListingRow::of)
        .collect();
    let listed = match listing.with_count {
        true => ListedJobs::Counted {
            total_count: total,
            data: page,
        },
        false => ListedJobs::Rows(page),
    };
    let reply = HttpReply::json(&listed)?;
    Ok(reply.without(&away).aged(&aged).hiding(&hidden).tagged())
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
