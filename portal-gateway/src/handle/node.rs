//! This node: as JSON for the command line, as a page for people.

use crate::call::Call;
use crate::error::Error;
use crate::page;
use crate::reply::Reply;

/// `GET /api/muster/v1/node`
pub(crate) async fn view(call: Call) -> Result<Reply, Error> {
    Reply::json(&call.cluster.node().await?)
}

/// `GET /status`
pub(crate) async fn status(call: Call) -> Result<Reply, Error> {
    let node = call.cluster.node().await?;
    Ok(Reply::page(page::status(&node)))
}

/// `GET /`
pub(crate) async fn root(_: Call) -> Result<Reply, Error> {
    Ok(Reply::page(page::root()))
}
