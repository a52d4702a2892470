//! Routes of OpenPAI that there is nothing behind. They answer so, rather than 404, for a
//! client would take that for an older server.

use crate::call::Call;
use crate::error::ApiError;
use crate::reply::HandlerResult;

pub(crate) async fn update_vc(_: Call) -> HandlerResult {
    Err(ApiError::NotImplementedUpstream("updateVc"))
}

pub(crate) async fn remove_vc(_: Call) -> HandlerResult {
    Err(ApiError::NotImplementedUpstream("removeVc"))
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use super::ApiError;
    use crate::openapi::RouteDoc;

    pub(crate) fn update_vc() -> RouteDoc {
        RouteDoc::new("Would change a virtual cluster: OpenPAI has nothing behind this.")
            .fails([ApiError::NotImplementedUpstream("")])
    }

    pub(crate) fn remove_vc() -> RouteDoc {
        RouteDoc::new("Would remove a virtual cluster: OpenPAI has nothing behind this.")
            .fails([ApiError::NotImplementedUpstream("")])
    }
}
