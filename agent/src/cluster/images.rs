//! Images of this node, for people.

use async_trait::async_trait;
use futures::StreamExt as _;
use muster_exec::image::{self, ImageOperation, ImageRecord, OperationStep};
use muster_model::image::{ImageProgress, ImageView};
use muster_portal_gateway::port::{self, ByteStream, PortError, ProgressStream};
use tokio_util::io::StreamReader;

use crate::causes::causes;
use crate::images::NodeImages;

#[async_trait]
impl port::Images for NodeImages {
    async fn list(&self) -> Result<Vec<ImageView>, PortError> {
        let images = self.store().list().await.map_err(for_people)?;
        Ok(images.into_iter().map(view).collect())
    }

    async fn import(
        &self,
        name: Option<&str>,
        archive: ByteStream,
    ) -> Result<ProgressStream, PortError> {
        Ok(progress(
            self.store().import(StreamReader::new(archive), name),
        ))
    }

    async fn pull(&self, name: &str) -> Result<ProgressStream, PortError> {
        Ok(progress(self.store().pull(name, None)))
    }

    async fn remove(&self, name: &str) -> Result<(), PortError> {
        self.store().remove(name).await.map_err(for_people)
    }
}

fn progress(operation: ImageOperation) -> ProgressStream {
    Box::pin(operation.map(|step| match step {
        OperationStep::Bytes { done, total } => ImageProgress::Bytes { done, total },
        OperationStep::Layers { done, total } => ImageProgress::Layers { done, total },
        OperationStep::Ready(image) => ImageProgress::Ready(view(image)),
        OperationStep::Failed(error) => ImageProgress::Failed {
            message: causes(&error),
        },
    }))
}

fn view(image: ImageRecord) -> ImageView {
    ImageView {
        name: image.name,
        digest: image.digest.to_string(),
        size_bytes: image.size_bytes,
    }
}

fn for_people(error: image::ImageError) -> PortError {
    match error {
        image::ImageError::NotHere(name) => PortError::NoImage(name),
        image::ImageError::BadName { .. } | image::ImageError::InUse { .. } => {
            PortError::Invalid(causes(&error))
        }
        other => PortError::Unavailable(causes(&other)),
    }
}
