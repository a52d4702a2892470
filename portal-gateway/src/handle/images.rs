//! Images of this node, for the command line.

use bytes::Bytes;
use futures::StreamExt as _;
use muster_model::image::ImageProgress;

use crate::call::Call;
use crate::error::ApiError;
use crate::port::{Images, ProgressStream};
use crate::reply::{HandlerResult, HttpReply};

/// `GET images`
pub(crate) async fn list(_: Call, images: &dyn Images) -> HandlerResult {
    HttpReply::json(&images.list().await?)
}

/// `POST images/import?name=`, the body being the archive
pub(crate) async fn import(mut call: Call, images: &dyn Images) -> HandlerResult {
    let archive = call.body_stream()?;
    let name = call.query.text("name");
    let progress = images.import(name, archive).await?;
    Ok(lines(progress))
}

/// `POST images/pull`
pub(crate) async fn pull(mut call: Call, images: &dyn Images) -> HandlerResult {
    let mut fields = call.fields().await?;
    let name = fields.text("name");
    fields.finish()?;
    Ok(lines(images.pull(&name).await?))
}

/// `DELETE images?name=`
pub(crate) async fn remove(call: Call, images: &dyn Images) -> HandlerResult {
    let name = call.query.text("name").unwrap_or_default();
    if name.is_empty() {
        return Err(ApiError::Parameters("name an image with ?name=".to_owned()));
    }
    images.remove(name).await?;
    HttpReply::json(&serde_json::json!({"message": format!("image {name} is removed")}))
}

/// One line a step, each sent when it happens.
fn lines(progress: ProgressStream) -> HttpReply {
    HttpReply::ndjson_stream(Box::pin(progress.map(line)))
}

fn line(step: ImageProgress) -> std::io::Result<Bytes> {
    let mut line = serde_json::to_vec(&step)?;
    line.push(b'\n');
    Ok(line.into())
}
