//! Pulling an image from its registry into containerd.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::oneshot;

use super::connection::ImageConnection;
use super::content::{self, Expected, Ingest};
use super::document::{
    CONFIG_BYTES_MAX, DOCKER_MANIFEST, Descriptor, ImageDocument, Manifest, OCI_MANIFEST, choose,
};
use super::locks::Locks;
use super::progress::Reporter;
use super::record::{self, Complete};
use super::registry::RegistrySession;
use super::unpack::LayerUnpacker;
use super::{ContentLease, Digest, ImageError, ImageRecord, Reference, origin};

/// Layers fetched at once: more rarely is faster, and each costs a buffer.
const LAYERS_AT_ONCE: usize = 3;
/// Tries in one pull; each goes on where the one before ended.
const TRIES: u32 = 4;
/// Pause after the first failed try, doubled after each.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Index in index; honest registries have one.
const DEPTH_MAX: u32 = 3;

/// Says that a layer's blob has come.
type Here = oneshot::Sender<()>;

/// A pull under way.
#[derive(Debug)]
pub(super) struct ImagePull {
    pub(super) line: ImageConnection,
    pub(super) lease: ContentLease,
    pub(super) locks: Locks,
    pub(super) reporter: Reporter,
    pub(super) session: RegistrySession,
    pub(super) image: Reference,
}

/// What the name points to, down to this machine's platform.
struct ResolvedImage {
    target: Descriptor,
    manifest: Manifest,
    source: Option<Digest>,
}

impl ImagePull {
    pub(super) async fn run(self) -> Result<Vec<ImageRecord>, ImageError> {
        let ResolvedImage {
            target,
            manifest,
            source,
        } = self.find().await?;
        let config = &manifest.config;
        if config.size > CONFIG_BYTES_MAX {
            let (what, bytes) = (format!("configuration of {}", self.image), config.size);
            return Err(ImageError::TooLarge {
                what,
                bytes,
                max: CONFIG_BYTES_MAX,
            });
        }
        self.reporter.expect_bytes(manifest.content_bytes());
        self.reporter
            .expect_layers(u32::try_from(manifest.layers.len()).unwrap_or(u32::MAX));
        self.fetch(config).await?;
        let chain = self.layers(&manifest).await?;
        let access = self.session.access(&self.image.version).await;
        origin::note_pull(&self.line, &target.digest, access).await?;
        let complete = Complete {
            name: self.image.to_string(),
            target: &target,
            manifest: &manifest,
            chain: chain.as_ref(),
            source: source.as_ref(),
        };
        Ok(vec![complete.record(&self.line).await?])
    }

    async fn find(&self) -> Result<ResolvedImage, ImageError> {
        let name = self.image.to_string();
        let mut version = self.image.version.as_str().to_owned();
        let mut source = None;
        for _ in 0..DEPTH_MAX {
            let (bytes, digest) = retry(|| self.session.manifest(&version)).await?;
            match ImageDocument::parse(&name, &bytes)? {
                ImageDocument::Index(index) => {
                    source.get_or_insert(digest);
                    version = choose(&name, &index.manifests)?.digest.to_string();
                }
                ImageDocument::Manifest(manifest) => {
                    content::write(&self.line, &self.lease, &bytes).await?;
                    let kind = manifest_type(&manifest);
                    let target = Descriptor::new(kind, digest, bytes.len() as u64);
                    return Ok(ResolvedImage {
                        target,
                        manifest,
                        source,
                    });
                }
            }
        }
        let reason = format!("its indexes are nested more than {DEPTH_MAX} deep");
        Err(ImageError::BadImage {
            image: name,
            reason,
        })
    }

    /// Fetches layers side by side and unpacks each as soon as it and all below it are here.
    async fn layers(&self, manifest: &Manifest) -> Result<Option<Digest>, ImageError> {
        let name = self.image.to_string();
        let config = record::read_config(&self.line, &name, manifest).await?;
        let (senders, here): (Vec<Here>, Vec<_>) =
            manifest.layers.iter().map(|_| oneshot::channel()).unzip();
        let each = manifest.layers.iter().zip(senders);
        let each: Vec<_> = each
            .map(|(layer, here)| self.fetch_layer(layer, here))
            .collect();
        let fetched = stream::iter(each)
            .buffer_unordered(LAYERS_AT_ONCE)
            .try_collect::<()>();
        let Self {
            line, lease, locks, ..
        } = self;
        let unpacked = async {
            let mut unpacker = LayerUnpacker {
                line,
                lease,
                locks,
                chain: None,
            };
            let layers = manifest.layers.iter().zip(config.diff_ids());
            for ((layer, diff_id), here) in layers.zip(here) {
                here.await.map_err(|_| ImageError::Cancelled)?;
                unpacker.add(layer, diff_id).await?;
                self.reporter.unpacked();
            }
            Ok(unpacker.chain)
        };
        let ((), chain) = tokio::try_join!(fetched, unpacked)?;
        Ok(chain)
    }

    async fn fetch_layer(&self, layer: &Descriptor, here: Here) -> Result<(), ImageError> {
        self.fetch(layer).await?;
        let _ = here.send(());
        Ok(())
    }

    /// Brings a blob here unless it is.
    async fn fetch(&self, blob: &Descriptor) -> Result<(), ImageError> {
        let _turn = self.locks.lock(blob.digest.as_str()).await;
        retry(|| self.try_fetch(blob)).await
    }

    async fn try_fetch(&self, blob: &Descriptor) -> Result<(), ImageError> {
        let expected = Expected::Known(&blob.digest, blob.size);
        let Some(mut ingest) = Ingest::open(&self.line, &self.lease, expected).await? else {
            self.reporter.moved(blob.size);
            return Ok(());
        };
        match self.transfer(blob, &mut ingest).await {
            Ok(()) => {
                let committed = ingest.commit().await;
                if matches!(committed, Err(ImageError::Digest { .. })) {
                    self.session.distrust_mirrors();
                }
                committed.map(drop)
            }
            Err(error) => {
                // Keeps what came for the next try; the lease decides how long.
                let _ = ingest.flush().await;
                Err(error)
            }
        }
    }

    async fn transfer(&self, blob: &Descriptor, ingest: &mut Ingest<'_>) -> Result<(), ImageError> {
        if ingest.offset() >= blob.size {
            return Ok(());
        }
        let mut body = self.session.blob(blob, ingest.offset()).await?;
        if body.offset != ingest.offset() {
            ingest.restart().await?;
        }
        while let Some(bytes) = body.next().await? {
            ingest.write(&bytes).await?;
            self.reporter.moved(bytes.len() as u64);
        }
        Ok(())
    }
}

fn manifest_type(manifest: &Manifest) -> &str {
    match manifest.media_type.as_str() {
        "" => OCI_MANIFEST,
        DOCKER_MANIFEST => DOCKER_MANIFEST,
        other => other,
    }
}

/// Tries again what may heal. A damaged blob is among it here: the line may have been at fault.
async fn retry<T, F: Future<Output = Result<T, ImageError>>>(
    mut attempt: impl FnMut() -> F,
) -> Result<T, ImageError> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES {
        match attempt().await {
            Err(error) if error.is_transient() || matches!(error, ImageError::Digest { .. }) => {
                tracing::info!(%error, "image pull goes on after a failure");
            }
            end => return end,
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    attempt().await
}
