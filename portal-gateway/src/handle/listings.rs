//! Job listings in OpenPAI's shape.

use serde_json::json;

use crate::call::Call;
use crate::listing::Listing;
use crate::port::{FoundJobs, Jobs};
use crate::reply::{HandlerResult, HttpReply};
use crate::wire::job::ListingRow;
use muster_model::job_query::JobFilter;

/// `GET /jobs`
pub(crate) async fn list(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let listing = Listing::parse(&call.query)?;
    answer(&call, listing, jobs).await
}

/// `GET /api/v1/user/:user/jobs`
pub(crate) async fn of_user(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let mut listing = Listing::parse(&call.query)?;
    let user = call.params.text("user").to_owned();
    listing.filter = listing.filter.map(|filter| JobFilter {
        users: vec![user],
        ..filter
    });
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
    let reply = if listing.with_count {
        HttpReply::json(&json!({"totalCount": total, "data": page}))
    } else {
        HttpReply::json(&page)
    };
    Ok(reply?.without(&away).aged(&aged).hiding(&hidden).tagged())
}
