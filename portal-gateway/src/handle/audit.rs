//! The record of what was changed of users and groups.

use crate::call::Call;
use crate::error::ApiError;
use crate::port::Users;
use crate::reply::{HandlerResult, HttpReply};

/// Records of one answer unless told, and at most.
const RECORDS_DEFAULT: u64 = 100;
const RECORDS_MAX: usize = 10_000;

/// `GET audit?subject=NAME&limit=N`: the newest first
pub(crate) async fn list(call: Call, users: &dyn Users) -> HandlerResult {
    let limit = call.number("limit")?.unwrap_or(RECORDS_DEFAULT);
    let limit = usize::try_from(limit)
        .ok()
        .filter(|limit| (1..=RECORDS_MAX).contains(limit));
    let out_of_range = || ApiError::Parameters(format!("limit must be 1 to {RECORDS_MAX}"));
    let limit = limit.ok_or_else(out_of_range)?;
    HttpReply::json(&users.audit(call.query.text("subject"), limit).await?)
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use muster_model::people::AuditLog;

    use crate::openapi::RouteDoc;

    pub(crate) fn list() -> RouteDoc {
        RouteDoc::new("Lists changes of users, groups and tokens, the newest first.")
            .query::<String>("subject", "Only what concerns this user or group.")
            .query::<u32>("limit", "Records at most, 1 to 10000; 100 unless told.")
            .checks_parameters()
            .json::<AuditLog>()
    }
}
