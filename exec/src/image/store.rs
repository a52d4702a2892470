//! The images of this node.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use containerd_client::services::v1::ListContainersRequest;
use muster_model::launch::RegistryAuth;
use muster_model::time::Time;
use tokio::fs::File;
use tokio::io::AsyncRead;
use tokio::sync::OnceCell;

use super::archive::{ArchiveStream, Import};
use super::connection::{ImageConnection, Settings};
use super::locks::Locks;
use super::name::ImageVersion;
use super::origin::Origin;
use super::progress::{ImageOperation, Reporter};
use super::pull::ImagePull;
use super::record::{self, ImageRecord};
use super::registry::{RegistrySession, RegistrySettings};
use super::{ContentLease, ImageError, Reference};

/// The images of this node, in containerd. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct ImageStore {
    pub(super) line: ImageConnection,
    registries: RegistrySettings,
    /// Made on first use: most of it is the machine's list of authorities.
    http: Arc<OnceCell<reqwest::Client>>,
    locks: Locks,
}

impl ImageStore {
    /// Opens the store. Must be called in a tokio runtime; connects on first use.
    pub fn new(containerd: Settings, registries: RegistrySettings) -> Result<Self, ImageError> {
        registries.check()?;
        let line = ImageConnection::new(containerd)?;
        Ok(Self {
            line,
            registries,
            http: Arc::default(),
            locks: Locks::default(),
        })
    }

    /// Every image, by name.
    pub async fn list(&self) -> Result<Vec<ImageRecord>, ImageError> {
        record::list(&self.line).await
    }

    /// The image that a job's `uri` means. A digest is also found under a tag that has it.
    pub async fn resolve(&self, name: &str) -> Result<ImageRecord, ImageError> {
        let parsed = Reference::parse(name);
        if let Ok(reference) = &parsed {
            if let Some(image) = record::get(&self.line, &reference.to_string()).await? {
                return Ok(image);
            }
            if let Some(image) = self.find_digest(reference).await? {
                return Ok(image);
            }
        }
        // Other programs may have stored it under a short name.
        if let Some(image) = record::get(&self.line, name).await? {
            return Ok(image);
        }
        Err(parsed
            .err()
            .unwrap_or_else(|| ImageError::NotHere(name.to_owned())))
    }

    async fn find_digest(&self, wanted: &Reference) -> Result<Option<ImageRecord>, ImageError> {
        let ImageVersion::Digest(digest) = &wanted.version else {
            return Ok(None);
        };
        let is_wanted = |image: &ImageRecord| {
            let same = Reference::parse(&image.name).is_ok_and(|r| r.at(digest) == *wanted);
            same && (&image.digest == digest || image.source_digest.as_ref() == Some(digest))
        };
        Ok(self.list().await?.into_iter().find(is_wanted))
    }

    /// Imports every image of an archive: an OCI layout or what `docker save` writes, plain or
    /// packed with gzip or zstd. `name` replaces the archive's own name.
    pub fn import(
        &self,
        archive: impl AsyncRead + Send + Unpin + 'static,
        name: Option<&str>,
    ) -> ImageOperation {
        let (reporter, operation) = ImageOperation::new();
        self.start_import(Box::new(archive), name, reporter);
        operation
    }

    /// Imports an archive that is a file of this machine.
    pub async fn import_file(
        &self,
        path: &Path,
        name: Option<&str>,
    ) -> Result<ImageOperation, ImageError> {
        let file = File::open(path).await.map_err(ImageError::Read)?;
        let bytes = file.metadata().await.map_err(ImageError::Read)?.len();
        let (reporter, operation) = ImageOperation::new();
        reporter.expect_bytes(bytes);
        self.start_import(Box::new(file), name, reporter);
        Ok(operation)
    }

    fn start_import(&self, input: ArchiveStream, name: Option<&str>, reporter: Reporter) {
        let Self { line, locks, .. } = self.clone();
        let name = name.map(str::to_owned);
        tokio::spawn(async move {
            let purpose = format!("import {}", uuid::Uuid::new_v4());
            let lease = match ContentLease::open(&line, &purpose).await {
                Ok(lease) => lease,
                Err(error) => return reporter.end(Err(error)).await,
            };
            let import = Import {
                line: line.clone(),
                lease: lease.clone(),
                locks,
                reporter: reporter.clone(),
                name,
            };
            let result = until_abandoned(&reporter, import.run(input)).await;
            let result = close(&line, &lease, result).await;
            reporter.end(result).await;
        });
    }

    /// Pulls an image from its registry or a mirror. What is here already is not fetched
    /// again; pulls of the same name wait for each other.
    pub fn pull(&self, name: &str, auth: Option<RegistryAuth>) -> ImageOperation {
        let (reporter, operation) = ImageOperation::new();
        let (store, name) = (self.clone(), name.to_owned());
        tokio::spawn(async move {
            let result = store.run_pull(&name, auth, &reporter).await;
            reporter.end(result).await;
        });
        operation
    }

    async fn run_pull(
        &self,
        name: &str,
        auth: Option<RegistryAuth>,
        reporter: &Reporter,
    ) -> Result<Vec<ImageRecord>, ImageError> {
        let image = Reference::parse(name)?;
        let purpose = format!("pull {image}");
        let turn = until_abandoned(reporter, async { Ok(self.locks.lock(&purpose).await) });
        let _turn = turn.await?;
        let http = self.http().await?;
        let session = RegistrySession::new(http.clone(), &self.registries, image.clone(), auth)?;
        let lease = ContentLease::open(&self.line, &purpose).await?;
        let pull = ImagePull {
            line: self.line.clone(),
            lease: lease.clone(),
            locks: self.locks.clone(),
            reporter: reporter.clone(),
            session,
            image,
        };
        let result = until_abandoned(reporter, pull.run()).await;
        if result.as_ref().is_err_and(ImageError::is_transient) {
            // The next pull of this name takes the lease over.
            return result;
        }
        close(&self.line, &lease, result).await
    }

    /// Whether a job that names the image `name` and has this login, or none, may use `image`, which is
    /// here. Where a login was needed to pull it, the registry is asked again.
    ///
    /// # Errors
    /// [`ImageError::LoginNeeded`] if the registry does not give it to this login; what went wrong on the way
    /// to the registry otherwise.
    pub async fn may_use(
        &self,
        image: &ImageRecord,
        name: &str,
        auth: Option<RegistryAuth>,
    ) -> Result<(), ImageError> {
        if !Origin::of(&self.line, &image.digest).await?.wants_login() {
            return Ok(());
        }
        let reference = Reference::parse(name)?;
        let http = self.http().await?.clone();
        let session = RegistrySession::new(http, &self.registries, reference.clone(), auth)?;
        match session.manifest(reference.version.as_str()).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_transient() => Err(error),
            Err(error) => Err(ImageError::LoginNeeded {
                name: image.name.clone(),
                source: Box::new(error),
            }),
        }
    }

    async fn http(&self) -> Result<&reqwest::Client, ImageError> {
        self.http
            .get_or_try_init(async || self.registries.client())
            .await
    }

    /// Removes an image, and all content that no other image uses.
    pub async fn remove(&self, name: &str) -> Result<(), ImageError> {
        let image = self.resolve(name).await?;
        let used = self
            .in_use()
            .await?
            .into_iter()
            .find(|(_, used)| *used == image.name);
        match used {
            Some((container, name)) => Err(ImageError::InUse { name, container }),
            None => record::delete(&self.line, &image.name).await,
        }
    }

    /// Notes that a task uses the image now, for [`ImageStore::collect_garbage`].
    pub async fn mark_used(&self, name: &str, now: Time) -> Result<(), ImageError> {
        let image = self.resolve(name).await?;
        record::mark_used(&self.line, &image.name, now).await
    }

    /// By container, the image it was made from.
    pub(super) async fn in_use(&self) -> Result<BTreeMap<String, String>, ImageError> {
        let request = self.line.request(ListContainersRequest {
            filters: Vec::new(),
        });
        let mut client = self.line.client().containers();
        let answer = self
            .line
            .call("list containers", client.list(request))
            .await?;
        let named = answer
            .containers
            .into_iter()
            .map(|c| (c.id, super::name::full(&c.image)));
        Ok(named.collect())
    }
}

/// Works until done or until nobody waits for it any more.
async fn until_abandoned<T>(
    reporter: &Reporter,
    work: impl Future<Output = Result<T, ImageError>>,
) -> Result<T, ImageError> {
    tokio::select! {
        result = work => result,
        () = reporter.abandoned() => Err(ImageError::Cancelled),
    }
}

/// Gives up what no image refers to. Failing at that does not undo a success: the lease ends
/// by itself.
async fn close<T>(
    line: &ImageConnection,
    lease: &ContentLease,
    result: Result<T, ImageError>,
) -> Result<T, ImageError> {
    if let Err(error) = lease.close(line).await {
        tracing::warn!(%error, "a lease on images stays until it expires");
    }
    result
}
