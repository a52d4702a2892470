//! Images in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::{TryStreamExt as _, stream};
use muster_model::image::{ImageProgress, ImageView};

use super::FakeCluster;
use crate::port::{ByteStream, Images, PortError, ProgressStream};

pub(super) type FakeImages = BTreeMap<String, ImageView>;

impl FakeCluster {
    /// Puts an image on the node.
    pub fn add_image(&self, image: ImageView) {
        self.state().images.insert(image.name.clone(), image);
    }
}

#[async_trait]
impl Images for FakeCluster {
    async fn list(&self) -> Result<Vec<ImageView>, PortError> {
        Ok(self.state().images.values().cloned().collect())
    }

    async fn import(
        &self,
        name: Option<&str>,
        archive: ByteStream,
    ) -> Result<ProgressStream, PortError> {
        let parts: Result<Vec<_>, _> = archive.try_collect().await;
        let parts = parts.map_err(|e| PortError::Invalid(format!("the archive broke off: {e}")))?;
        let done = parts.iter().map(|part| part.len() as u64).sum();
        let image = ImageView {
            name: name.unwrap_or("archive:latest").to_owned(),
            digest: "sha256:0".to_owned(),
            size_bytes: done,
        };
        let images = &mut self.state().images;
        images.insert(image.name.clone(), image.clone());
        let bytes = ImageProgress::Bytes { done, total: None };
        let steps = [bytes, ImageProgress::Ready(image)];
        Ok(Box::pin(stream::iter(steps)))
    }

    async fn pull(&self, name: &str) -> Result<ProgressStream, PortError> {
        let message = format!("the fake has no registry for {name}");
        Ok(Box::pin(stream::iter([ImageProgress::Failed { message }])))
    }

    async fn remove(&self, name: &str) -> Result<(), PortError> {
        let removed = self.state().images.remove(name);
        let missing = || PortError::NoImage(name.to_owned());
        removed.map(drop).ok_or_else(missing)
    }
}
