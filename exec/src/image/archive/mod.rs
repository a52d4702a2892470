//! Import of image archives: OCI layouts and what `docker save` writes, plain or packed.
//!
//! The archive is read once, from front to back, in bounded memory. Every blob streams
//! straight into the content store under a lease, where containerd checks its digest; only the
//! small documents that list the images stay in memory. What no image turns out to refer to
//! goes with the lease.

mod catalog;
mod input;
mod tar;

use std::collections::BTreeMap;

use self::catalog::{ArchivedImage, ImageSource, Saved};
pub(super) use self::input::ArchiveStream;
use self::tar::{Tar, TarEntry, bad};
use super::connection::ImageConnection;
use super::content::{self, CHUNK_BYTES, Expected, Ingest};
use super::document::{
    CONFIG_BYTES_MAX, Descriptor, ImageDocument, MANIFEST_BYTES_MAX, Manifest, OCI_CONFIG,
    OCI_MANIFEST, choose, layer_type,
};
use super::locks::Locks;
use super::progress::Reporter;
use super::record::{self, Complete};
use super::unpack::LayerUnpacker;
use super::{ContentLease, Digest, ImageError, ImageRecord, origin};

/// Documents that list images, kept in memory.
const DOCUMENTS: [&str; 2] = ["index.json", "manifest.json"];
/// Files of the archive formats that nothing refers to.
const IGNORED: [&str; 4] = ["oci-layout", "repositories", "VERSION", "json"];
const BLOBS: &str = "blobs/sha256/";
/// Index in index in index; honest archives have two.
const DEPTH_MAX: u32 = 3;
/// Links that lead to links.
const LINKS_MAX: u32 = 8;

/// An import under way.
#[derive(Clone, Debug)]
pub(super) struct Import {
    pub(super) line: ImageConnection,
    pub(super) lease: ContentLease,
    pub(super) locks: Locks,
    pub(super) reporter: Reporter,
    /// The name that the caller chose.
    pub(super) name: Option<String>,
}

/// A file of the archive, in the content store by now.
#[derive(Clone, Debug)]
struct Blob {
    digest: Digest,
    bytes: u64,
    /// First bytes, which tell how it is packed.
    start: [u8; 4],
}

/// What the archive held.
#[derive(Debug, Default)]
struct ArchiveContents {
    blobs: BTreeMap<String, Blob>,
    links: BTreeMap<String, String>,
    documents: BTreeMap<String, Vec<u8>>,
}

impl ArchiveContents {
    /// The file of that path, through links.
    fn find(&self, said: &str) -> Result<&Blob, ImageError> {
        let mut path = tar::resolve("", said)?;
        for _ in 0..LINKS_MAX {
            if let Some(blob) = self.blobs.get(&path) {
                return Ok(blob);
            }
            match self.links.get(&path) {
                Some(target) => path.clone_from(target),
                None => break,
            }
        }
        Err(bad(format!(
            "manifest.json names `{said}`, which is not in it"
        )))
    }
}

impl Import {
    pub(super) async fn run(self, input: ArchiveStream) -> Result<Vec<ImageRecord>, ImageError> {
        let contents = self.take_in(input).await?;
        let listed = catalog::name(catalog::list(&contents.documents)?, self.name.as_deref())?;
        let mut images = Vec::new();
        for image in &listed {
            self.install(image, &contents, &mut images).await?;
        }
        Ok(images)
    }

    async fn take_in(&self, input: ArchiveStream) -> Result<ArchiveContents, ImageError> {
        let mut tar = Tar::new(input::plain(input, self.reporter.clone()).await?);
        let mut contents = ArchiveContents::default();
        while let Some(entry) = tar.next().await? {
            match entry {
                TarEntry::Link { path, target } => drop(contents.links.insert(path, target)),
                TarEntry::File { path, .. } if DOCUMENTS.contains(&path.as_str()) => {
                    let text = tar.read_whole(&path, MANIFEST_BYTES_MAX).await?;
                    contents.documents.insert(path, text);
                }
                TarEntry::File { path, .. } if is_ignored(&path) => {}
                TarEntry::File { path, bytes } => {
                    let blob = self.take_blob(&mut tar, &path, bytes).await?;
                    contents.blobs.insert(path, blob);
                }
            }
        }
        Ok(contents)
    }

    async fn take_blob(
        &self,
        tar: &mut Tar<ArchiveStream>,
        path: &str,
        bytes: u64,
    ) -> Result<Blob, ImageError> {
        let known = match path.strip_prefix(BLOBS) {
            Some(hex) => Some(
                Digest::from_hex(hex)
                    .ok_or_else(|| bad(format!("`{path}` is not named by a sha256 digest")))?,
            ),
            None => None,
        };
        let _turn = match &known {
            Some(digest) => Some(self.locks.lock(digest.as_str()).await),
            None => None,
        };
        let expected = known
            .as_ref()
            .map_or(Expected::Size(bytes), |d| Expected::Known(d, bytes));
        let mut ingest = Ingest::open(&self.line, &self.lease, expected).await?;
        if let Some(ingest) = &mut ingest {
            ingest.restart().await?;
        }
        let mut start = Vec::with_capacity(4);
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let count = tar.read(&mut buffer).await?;
            if count == 0 {
                break;
            }
            start.extend(buffer[..count].iter().take(4 - start.len()));
            if let Some(ingest) = &mut ingest {
                ingest.write(&buffer[..count]).await?;
            }
        }
        start.resize(4, 0);
        let digest = match (ingest, known) {
            (Some(ingest), _) => ingest.commit().await?,
            (None, Some(known)) => known,
            (None, None) => return Err(bad(format!("`{path}` could not be written"))),
        };
        Ok(Blob {
            digest,
            bytes,
            start: [start[0], start[1], start[2], start[3]],
        })
    }

    async fn install(
        &self,
        listed: &ArchivedImage,
        contents: &ArchiveContents,
        images: &mut Vec<ImageRecord>,
    ) -> Result<(), ImageError> {
        let name = listed
            .names
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        let (target, manifest, source) = match &listed.source {
            ImageSource::Oci(entries) => self.find_manifest(&name, entries).await?,
            ImageSource::Docker(saved) => self.make_manifest(saved, contents).await?,
        };
        for blob in manifest.layers.iter().chain([&manifest.config]) {
            self.check_blob(blob).await?;
        }
        let config = record::read_config(&self.line, &name, &manifest).await?;
        self.reporter
            .expect_layers(u32::try_from(manifest.layers.len()).unwrap_or(u32::MAX));
        let Self {
            line, lease, locks, ..
        } = self;
        let mut unpacker = LayerUnpacker {
            line,
            lease,
            locks,
            chain: None,
        };
        for (layer, diff_id) in manifest.layers.iter().zip(config.diff_ids()) {
            unpacker.add(layer, diff_id).await?;
            self.reporter.unpacked();
        }
        origin::note_import(line, &target.digest).await?;
        for name in &listed.names {
            let complete = Complete {
                name: name.to_string(),
                target: &target,
                manifest: &manifest,
                chain: unpacker.chain.as_ref(),
                source: source.as_ref(),
            };
            images.push(complete.record(line).await?);
        }
        Ok(())
    }

    /// Goes from the entries of an index down to the manifest for this machine.
    async fn find_manifest(
        &self,
        name: &str,
        entries: &[Descriptor],
    ) -> Result<(Descriptor, Manifest, Option<Digest>), ImageError> {
        let mut entry = choose(name, entries)?.clone();
        let mut source = None;
        for _ in 0..DEPTH_MAX {
            let missing = || bad(format!("manifest {} is not in it", entry.digest));
            let bytes = content::read(&self.line, &entry.digest, MANIFEST_BYTES_MAX).await?;
            let bytes = bytes.ok_or_else(missing)?;
            match ImageDocument::parse(name, &bytes)? {
                ImageDocument::Manifest(manifest) => {
                    let kind = if manifest.media_type.is_empty() {
                        OCI_MANIFEST
                    } else {
                        &manifest.media_type
                    };
                    let target = Descriptor::new(kind, entry.digest, bytes.len() as u64);
                    return Ok((target, manifest, source));
                }
                ImageDocument::Index(index) => {
                    source.get_or_insert(entry.digest);
                    entry = choose(name, &index.manifests)?.clone();
                }
            }
        }
        Err(bad(format!(
            "its indexes are nested more than {DEPTH_MAX} deep"
        )))
    }

    /// Writes the manifest that Docker's format leaves out.
    async fn make_manifest(
        &self,
        saved: &Saved,
        contents: &ArchiveContents,
    ) -> Result<(Descriptor, Manifest, Option<Digest>), ImageError> {
        let config = contents.find(&saved.config)?;
        check_config_name(&saved.config, config)?;
        let mut layers = Vec::new();
        for path in saved.layers.iter().flatten() {
            let blob = contents.find(path)?;
            let kind = layer_type(&blob.start);
            layers.push(Descriptor::new(&kind, blob.digest.clone(), blob.bytes));
        }
        let manifest = Manifest {
            schema_version: 2,
            media_type: OCI_MANIFEST.to_owned(),
            config: Descriptor::new(OCI_CONFIG, config.digest.clone(), config.bytes),
            layers,
        };
        let bytes = serde_json::to_vec(&manifest).map_err(|e| bad(e.to_string()))?;
        let digest = content::write(&self.line, &self.lease, &bytes).await?;
        let target = Descriptor::new(OCI_MANIFEST, digest, bytes.len() as u64);
        Ok((target, manifest, None))
    }

    /// Whether the blob is here, from this archive or from before, and as long as is said.
    async fn check_blob(&self, blob: &Descriptor) -> Result<(), ImageError> {
        let digest = &blob.digest;
        match content::size(&self.line, digest).await? {
            None => Err(bad(format!("blob {digest} is not in it"))),
            Some(bytes) if bytes != blob.size => {
                let reason = format!("it has {bytes} bytes instead of {}", blob.size);
                Err(ImageError::Digest {
                    what: digest.to_string(),
                    reason,
                })
            }
            Some(_) => self.lease.hold_content(&self.line, digest).await,
        }
    }
}

fn is_ignored(path: &str) -> bool {
    IGNORED.contains(&path.rsplit('/').next().unwrap_or(path))
}

/// Docker names the configuration by its digest.
fn check_config_name(path: &str, blob: &Blob) -> Result<(), ImageError> {
    if blob.bytes > CONFIG_BYTES_MAX {
        let (what, bytes) = (path.to_owned(), blob.bytes);
        return Err(ImageError::TooLarge {
            what,
            bytes,
            max: CONFIG_BYTES_MAX,
        });
    }
    let told = path.strip_suffix(".json").and_then(Digest::from_hex);
    if told.is_some_and(|told| told != blob.digest) {
        let reason = format!("its digest is {}", blob.digest);
        return Err(ImageError::Digest {
            what: path.to_owned(),
            reason,
        });
    }
    Ok(())
}
