//! Images of this node, for people.

use async_trait::async_trait;
use futures::StreamExt as _;
use muster_exec::image::{self, Image, Operation, Progress};
use muster_model::image::{ImageProgress, ImageView};
use muster_portal_gateway::port::{self, ByteStream, Error, ProgressStream};
use tokio_util::io::StreamReader;

use crate::causes::causes;
use crate::images::Images;

#[async_trait]
impl port::Images for Images {
    async fn list(&self) -> Result<Vec<ImageView>, Error> {
        let images = self.store().list().await.map_err(for_people)?;
        Ok(images.into_iter().map(view).collect())
    }

    async fn import(
        &self,
        name: Option<&str>,
        archive: ByteStream,
    ) -> Result<ProgressStream, Error> {
        Ok(progress(
            self.store().import(StreamReader::new(archive), name),
        ))
    }

    async fn pull(&self, name: &str) -> Result<ProgressStream, Error> {
        Ok(progress(self.store().pull(name, None)))
    }

    async fn remove(&self, name: &str) -> Result<(), Error> {
        self.store().remove(name).await.map_err(for_people)
    }
}

fn progress(operation: Operation) -> ProgressStream {
    Box::pin(operation.map(|step| match step {
        Progress::Bytes { done, total } => ImageProgress::Bytes { done, total },
        Progress::Layers { done, total } => ImageProgress::Layers { done, total },
        Progress::Ready(image) => ImageProgress::Ready(view(image)),
        Progress::Failed(error) => ImageProgress::Failed {
            message: causes(&error),
        },
    }))
}

fn view(image: Image) -> ImageView {
    ImageView {
        name: image.name,
        digest: image.digest.to_string(),
        size_bytes: image.size_bytes,
    }
}

fn for_people(error: image::Error) -> Error {
    match error {
        image::Error::NotHere(name) => Error::NoImage(name),
        image::Error::BadName { .. } | image::Error::InUse { .. } => Error::Invalid(causes(&error)),
        other => Error::Unavailable(causes(&other)),
    }
}
