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
    HttpReply::message(&format!("image {name} is removed"))
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

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use http::StatusCode;
    use muster_model::image::ImageView;
    use schemars::JsonSchema;

    use super::ImageProgress;
    use crate::openapi::{NDJSON, RouteDoc, any, body_fields};
    use crate::port::PortError;
    use crate::reply::DoneMessage;

    body_fields! {
        ImageField {
            /// The image's name.
            name: String,
        }
    }

    pub(crate) fn list() -> RouteDoc {
        RouteDoc::new("Lists the images of this node.").json::<Vec<ImageView>>()
    }

    pub(crate) fn import() -> RouteDoc {
        RouteDoc::new("Imports the images of an OCI or docker archive, and tells of each step.")
            .query::<String>("name", "A name in place of the one in the archive.")
            .body::<String>("application/octet-stream")
            .fails([PortError::Invalid(any())])
            .answer::<ImageProgress>(StatusCode::OK, NDJSON)
    }

    pub(crate) fn pull() -> RouteDoc {
        RouteDoc::new("Pulls an image, and tells of each step.")
            .fields::<ImageField>()
            .answer::<ImageProgress>(StatusCode::OK, NDJSON)
    }

    pub(crate) fn remove() -> RouteDoc {
        RouteDoc::new("Removes an image.")
            .needed_query::<String>("name", "The image's name.")
            .fails([PortError::NoImage(any())])
            .json::<DoneMessage>()
    }
}
