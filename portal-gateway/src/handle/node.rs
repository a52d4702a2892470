//! This node: as JSON for the command line, as a page for people.

use crate::call::Call;
use crate::error::Error;
use crate::page;
use crate::reply::Reply;
use crate::status::Status;

/// `GET /api/muster/v1/node`
pub(crate) async fn view(call: Call) -> Result<Reply, Error> {
    Reply::json(&call.cluster.node().await?)
}

/// `GET /status`
pub(crate) async fn status(call: Call) -> Result<Reply, Error> {
    let status = Status::gather(&*call.cluster).await;
    Ok(Reply::page(page::status(&status)))
}

/// `GET /status.txt`
pub(crate) async fn status_text(call: Call) -> Result<Reply, Error> {
    let status = Status::gather(&*call.cluster).await;
    Ok(Reply::open_text(page::status_text(&status)))
}

/// `GET /status.json`
pub(crate) async fn status_json(call: Call) -> Result<Reply, Error> {
    Reply::open_json(&Status::gather(&*call.cluster).await)
}

/// `GET /`
pub(crate) async fn root(_: Call) -> Result<Reply, Error> {
    Ok(Reply::page(page::root()))
}
