//! Images on this node.

use std::pin::Pin;

use async_trait::async_trait;
use futures::Stream;
use muster_model::image::{ImageProgress, ImageView};

use super::{ByteStream, PortError};

/// A stream of progress that ends after `Ready`s or a `Failed`.
pub type ProgressStream = Pin<Box<dyn Stream<Item = ImageProgress> + Send>>;

/// Images on this node.
#[async_trait]
pub trait Images: std::fmt::Debug + Send + Sync {
    /// Every image.
    async fn list(&self) -> Result<Vec<ImageView>, PortError>;
    /// Imports every image of an OCI or docker archive. `name` overrides the archive's own.
    async fn import(
        &self,
        name: Option<&str>,
        archive: ByteStream,
    ) -> Result<ProgressStream, PortError>;
    /// Pulls an image from its registry.
    async fn pull(&self, name: &str) -> Result<ProgressStream, PortError>;
    /// Removes an image.
    async fn remove(&self, name: &str) -> Result<(), PortError>;
}
