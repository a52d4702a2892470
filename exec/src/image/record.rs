//! Image records of containerd: what a name points to, and what we note about it.

use std::collections::HashMap;

use containerd_client::services::v1::{
    CreateImageRequest, DeleteImageRequest, GetImageRequest, Image as Stored, ListImagesRequest,
    UpdateImageRequest,
};
use muster_model::time::Time;
use prost_types::FieldMask;

use super::connection::{FaultKind, ImageConnection, optional};
use super::document::{
    Descriptor, ImageConfig, ImageDocument, MANIFEST_BYTES_MAX, Manifest, choose,
};
use super::{Digest, ImageError, content};

/// When a task last used the image: milliseconds since the epoch.
const LAST_USED: &str = "muster.io/last-used";
/// Bytes of all content of the image.
const SIZE: &str = "muster.io/size";
/// The digest that the registry or archive gave, if that was an index.
const SOURCE: &str = "muster.io/source-digest";

/// An image on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRecord {
    /// Its full name; a job's `uri` may say this or any short form of it.
    pub name: String,
    /// Of its manifest.
    pub digest: Digest,
    /// Of its content, compressed as stored.
    pub size_bytes: u64,
    /// When a task last used it, or else when it came.
    pub last_used: Time,
    /// Of the index that it was chosen from, if it was.
    pub source_digest: Option<Digest>,
}

/// What is needed to record an image whose layers are unpacked.
#[derive(Debug)]
pub(super) struct Complete<'a> {
    pub(super) name: String,
    pub(super) target: &'a Descriptor,
    pub(super) manifest: &'a Manifest,
    /// The stack of its layers; none for an image without any.
    pub(super) chain: Option<&'a Digest>,
    /// The index it was chosen from.
    pub(super) source: Option<&'a Digest>,
}

impl Complete<'_> {
    /// Ties content and layers to each other, then to the name; from then on the image keeps
    /// itself from the garbage collector.
    pub(super) async fn record(&self, line: &ImageConnection) -> Result<ImageRecord, ImageError> {
        let config = &self.manifest.config.digest;
        let layers = self.manifest.layers.iter().enumerate();
        let mut refs: HashMap<String, String> = layers
            .map(|(i, layer)| {
                (
                    format!("containerd.io/gc.ref.content.l.{i}"),
                    layer.digest.to_string(),
                )
            })
            .collect();
        refs.insert(
            "containerd.io/gc.ref.content.config".to_owned(),
            config.to_string(),
        );
        if let Some(chain) = self.chain {
            let key = format!("containerd.io/gc.ref.snapshot.{}", line.snapshotter());
            content::label(line, config, HashMap::from([(key, chain.to_string())])).await?;
        }
        content::label(line, &self.target.digest, refs).await?;
        self.store(line).await
    }

    async fn store(&self, line: &ImageConnection) -> Result<ImageRecord, ImageError> {
        let stored = self.stored();
        let body = CreateImageRequest {
            image: Some(stored.clone()),
            source_date_epoch: None,
        };
        let mut client = line.client().images();
        let answer = line
            .call("record an image", client.create(line.request(body)))
            .await;
        let stored = match answer {
            Ok(answer) => answer.image,
            Err(fault) if fault.kind == FaultKind::Exists => {
                let paths = ["target".to_owned(), label(SIZE), label(SOURCE)];
                update(line, change(stored, paths.to_vec())).await?
            }
            Err(fault) => return Err(fault.error),
        };
        read(line, stored.unwrap_or_default()).await
    }

    fn stored(&self) -> Stored {
        let size = self
            .target
            .size
            .saturating_add(self.manifest.content_bytes());
        let mut labels = HashMap::from([(SIZE.to_owned(), size.to_string())]);
        labels.insert(
            SOURCE.to_owned(),
            self.source.map(ToString::to_string).unwrap_or_default(),
        );
        Stored {
            name: self.name.clone(),
            labels,
            target: Some(self.target.to_containerd()),
            ..Stored::default()
        }
    }
}

fn label(key: &str) -> String {
    format!("labels.{key}")
}

/// A request that changes only `paths` of an image. The image is whole all the same: from version 1.7 on
/// containerd reads fields of it that the mask does not name.
fn change(image: Stored, paths: Vec<String>) -> UpdateImageRequest {
    UpdateImageRequest {
        image: Some(image),
        update_mask: Some(FieldMask { paths }),
        source_date_epoch: None,
    }
}

async fn update(
    line: &ImageConnection,
    body: UpdateImageRequest,
) -> Result<Option<Stored>, ImageError> {
    let mut client = line.client().images();
    Ok(line
        .call("change an image", client.update(line.request(body)))
        .await?
        .image)
}

/// The image stored under exactly this name.
pub(super) async fn get(
    line: &ImageConnection,
    name: &str,
) -> Result<Option<ImageRecord>, ImageError> {
    match fetch(line, name).await? {
        Some(stored) => read(line, stored).await.map(Some),
        None => Ok(None),
    }
}

async fn fetch(line: &ImageConnection, name: &str) -> Result<Option<Stored>, ImageError> {
    let request = line.request(GetImageRequest {
        name: name.to_owned(),
    });
    let mut client = line.client().images();
    let answer = optional(line.call("look for an image", client.get(request)).await)?;
    Ok(answer.and_then(|answer| answer.image))
}

/// Every image, by name.
pub(super) async fn list(line: &ImageConnection) -> Result<Vec<ImageRecord>, ImageError> {
    let request = line.request(ListImagesRequest {
        filters: Vec::new(),
    });
    let mut client = line.client().images();
    let answer = line.call("list images", client.list(request)).await?;
    let mut images = Vec::with_capacity(answer.images.len());
    for stored in answer.images {
        images.push(read(line, stored).await?);
    }
    images.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(images)
}

/// Removes the name, and with it all content that no other image uses.
pub(super) async fn delete(line: &ImageConnection, name: &str) -> Result<(), ImageError> {
    let body = DeleteImageRequest {
        name: name.to_owned(),
        sync: true,
        target: None,
    };
    let mut client = line.client().images();
    let request = line.request(body);
    let gone = async {
        client
            .delete(request)
            .await
            .map(|answer| answer.into_inner())
    };
    optional(line.long_call("remove an image", gone).await).map(drop)
}

/// Notes a use.
pub(super) async fn mark_used(
    line: &ImageConnection,
    name: &str,
    now: Time,
) -> Result<(), ImageError> {
    let stored = fetch(line, name).await?;
    let stored = stored.ok_or_else(|| ImageError::NotHere(name.to_owned()))?;
    update(line, used(stored, now)).await.map(drop)
}

/// The request that notes a use of an image, as containerd has it.
fn used(mut stored: Stored, now: Time) -> UpdateImageRequest {
    stored.labels = HashMap::from([(LAST_USED.to_owned(), now.as_millis().to_string())]);
    change(stored, vec![label(LAST_USED)])
}

async fn read(line: &ImageConnection, stored: Stored) -> Result<ImageRecord, ImageError> {
    let name = stored.name;
    let target = stored.target.unwrap_or_default();
    let digest = Digest::parse(&target.digest).ok_or_else(|| ImageError::BadImage {
        image: name.clone(),
        reason: format!("its digest is `{}`", target.digest),
    })?;
    let number = |key: &str| stored.labels.get(key)?.parse::<u64>().ok();
    let size_bytes = match number(SIZE) {
        Some(size) => size,
        None => measured(line, &name, &digest).await?,
    };
    let came = stored
        .updated_at
        .and_then(|t| u64::try_from(t.seconds).ok())
        .unwrap_or(0);
    let came_ms = came.saturating_mul(1000);
    let last_used = Time::from_millis(number(LAST_USED).unwrap_or(came_ms));
    let source_digest = stored
        .labels
        .get(SOURCE)
        .and_then(|text| Digest::parse(text));
    Ok(ImageRecord {
        name,
        digest,
        size_bytes,
        last_used,
        source_digest,
    })
}

/// The size of an image that another program recorded; as far as its documents can be read.
async fn measured(line: &ImageConnection, name: &str, target: &Digest) -> Result<u64, ImageError> {
    let Some(bytes) = content::read(line, target, MANIFEST_BYTES_MAX).await? else {
        return Ok(0);
    };
    let own = bytes.len() as u64;
    let manifest = match ImageDocument::parse(name, &bytes) {
        Ok(ImageDocument::Manifest(manifest)) => Some(manifest),
        Ok(ImageDocument::Index(index)) => match choose(name, &index.manifests) {
            Ok(chosen) => read_manifest(line, name, &chosen.digest).await?,
            Err(_) => None,
        },
        Err(_) => None,
    };
    Ok(own + manifest.map_or(0, |m| m.content_bytes()))
}

async fn read_manifest(
    line: &ImageConnection,
    name: &str,
    digest: &Digest,
) -> Result<Option<Manifest>, ImageError> {
    let bytes = content::read(line, digest, MANIFEST_BYTES_MAX).await?;
    Ok(
        bytes.and_then(|bytes| match ImageDocument::parse(name, &bytes) {
            Ok(ImageDocument::Manifest(manifest)) => Some(manifest),
            Ok(ImageDocument::Index(_)) | Err(_) => None,
        }),
    )
}

/// The configuration of a manifest whose blobs are here.
pub(super) async fn read_config(
    line: &ImageConnection,
    name: &str,
    manifest: &Manifest,
) -> Result<ImageConfig, ImageError> {
    let digest = &manifest.config.digest;
    let max = super::document::CONFIG_BYTES_MAX;
    let bytes = content::read(line, digest, max)
        .await?
        .ok_or_else(|| ImageError::BadImage {
            image: name.to_owned(),
            reason: format!("its configuration {digest} is missing"),
        })?;
    ImageConfig::parse(name, manifest, &bytes)
}

#[cfg(test)]
mod tests {
    use containerd_client::types;

    use super::*;

    /// tests::removal sends the same request to the engines of all releases.
    #[test]
    fn a_change_of_an_image_carries_all_that_containerd_reads() {
        let target = types::Descriptor {
            digest: "sha256:0".to_owned(),
            ..types::Descriptor::default()
        };
        let stored = Stored {
            name: "docker.io/library/a:1".to_owned(),
            target: Some(target.clone()),
            ..Stored::default()
        };
        let request = used(stored, Time::from_millis(7));
        let image = request.image.expect("an image");
        assert_eq!(image.target, Some(target));
        assert_eq!(image.labels[LAST_USED], "7");
        let mask = request.update_mask.expect("a mask");
        assert_eq!(mask.paths, ["labels.muster.io/last-used"]);
    }
}
