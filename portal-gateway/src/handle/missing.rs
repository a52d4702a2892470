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
