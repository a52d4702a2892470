//! The JSON documents that make up an image, OCI's and Docker's, as far as running it needs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Digest, ImageError};

/// Largest manifest or index that is read; registries allow 4 MiB.
pub(super) const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// Largest image configuration that is read.
pub(super) const CONFIG_BYTES_MAX: u64 = 8 << 20;
/// overlayfs cannot mount more.
const LAYERS_MAX: usize = 500;

pub(super) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub(super) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(super) const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const LAYER_TYPES: [&str; 3] = [
    OCI_LAYER,
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar",
];
const FOREIGN_LAYER: &str = "application/vnd.docker.image.rootfs.foreign.diff.tar";

/// Points to a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: Digest,
    pub(super) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<String, String>,
}

impl Descriptor {
    pub(super) fn new(media_type: &str, digest: Digest, size: u64) -> Self {
        let media_type = media_type.to_owned();
        Self {
            media_type,
            digest,
            size,
            platform: None,
            annotations: BTreeMap::new(),
        }
    }

    pub(super) fn to_containerd(&self) -> containerd_client::types::Descriptor {
        containerd_client::types::Descriptor {
            media_type: self.media_type.clone(),
            digest: self.digest.to_string(),
            size: i64::try_from(self.size).unwrap_or(i64::MAX),
            annotations: std::collections::HashMap::new(),
        }
    }
}

/// What a machine must be to run it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Platform {
    #[serde(default)]
    pub(super) os: String,
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) variant: Option<String>,
}

impl Platform {
    /// This machine, in Go's words.
    pub(super) fn here() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
            variant: None,
        }
    }

    fn runs(&self, image: &Self) -> bool {
        self.os == image.os && self.architecture == image.architecture
    }

    /// The plainest variant runs on every machine of the architecture.
    fn rank(&self) -> u8 {
        match self.variant.as_deref() {
            None | Some("" | "v8" | "v1") => 0,
            Some(_) => 1,
        }
    }

    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.os, self.architecture)
    }
}

/// An image: its configuration and its layers, bottom first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) schema_version: u32,
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) config: Descriptor,
    pub(super) layers: Vec<Descriptor>,
}

impl Manifest {
    /// Bytes of all it points to.
    pub(super) fn content_bytes(&self) -> u64 {
        self.layers
            .iter()
            .map(|l| l.size)
            .fold(self.config.size, u64::saturating_add)
    }

    fn check(&self, image: &str) -> Result<(), ImageError> {
        let bad = |reason: String| ImageError::BadImage {
            image: image.to_owned(),
            reason,
        };
        if self.layers.len() > LAYERS_MAX {
            let count = self.layers.len();
            return Err(bad(format!(
                "it has {count} layers, more than {LAYERS_MAX}"
            )));
        }
        match self.layers.iter().find(|l| !is_layer(&l.media_type)) {
            Some(odd) => Err(bad(format!(
                "`{}` is not a layer of a container",
                odd.media_type
            ))),
            None => Ok(()),
        }
    }
}

fn is_layer(media_type: &str) -> bool {
    LAYER_TYPES.iter().chain([&FOREIGN_LAYER]).any(|known| {
        let packing = media_type.strip_prefix(known);
        packing.is_some_and(|p| matches!(p, "" | "+gzip" | "+zstd" | ".gzip" | ".zstd"))
    })
}

/// The media type of a layer by its first bytes.
pub(super) fn layer_type(start: &[u8]) -> String {
    let packing = match start {
        [0x1f, 0x8b, ..] => "+gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "+zstd",
        _ => "",
    };
    format!("{OCI_LAYER}{packing}")
}

/// Images for several platforms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImageIndex {
    pub(super) manifests: Vec<Descriptor>,
}

/// Chooses what runs here. Entries without a platform fit if nothing else does, as archives
/// of a single image often have none.
pub(super) fn choose<'a>(
    image: &str,
    candidates: &'a [Descriptor],
) -> Result<&'a Descriptor, ImageError> {
    let here = Platform::here();
    let named = candidates
        .iter()
        .filter_map(|d| Some((d, d.platform.as_ref()?)));
    let fitting = named.clone().filter(|(_, p)| here.runs(p));
    if let Some((best, _)) = fitting.min_by_key(|(_, p)| p.rank()) {
        return Ok(best);
    }
    candidates
        .iter()
        .find(|d| d.platform.is_none())
        .ok_or_else(|| {
            let found: Vec<String> = named.map(|(_, p)| p.name()).collect();
            let found = if found.is_empty() {
                "nothing".to_owned()
            } else {
                found.join(", ")
            };
            ImageError::NoPlatform {
                image: image.to_owned(),
                wanted: here.name(),
                found,
            }
        })
}

/// A document that a name may point to.
#[derive(Clone, Debug)]
pub(super) enum ImageDocument {
    Manifest(Manifest),
    Index(ImageIndex),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentHead {
    schema_version: Option<u32>,
    #[serde(default)]
    media_type: String,
    manifests: Option<serde::de::IgnoredAny>,
    config: Option<serde::de::IgnoredAny>,
}

impl ImageDocument {
    /// Whether it is one at all, be it broken: no web page, no message of a proxy.
    pub(super) fn is_one(bytes: &[u8]) -> bool {
        serde_json::from_slice(bytes).is_ok_and(|kind: DocumentHead| {
            kind.schema_version.is_some() || kind.manifests.is_some() || kind.config.is_some()
        })
    }

    /// Reads one, telling the kinds apart by what is in it, since a media type may be absent.
    pub(super) fn parse(image: &str, bytes: &[u8]) -> Result<Self, ImageError> {
        let bad = |reason: String| ImageError::BadImage {
            image: image.to_owned(),
            reason,
        };
        let broken = |e: serde_json::Error| bad(format!("its manifest is broken: {e}"));
        let kind: DocumentHead = serde_json::from_slice(bytes).map_err(broken)?;
        if kind.schema_version == Some(1) {
            let reason = "its manifest is of Docker's old schema 1; build and push it again";
            return Err(bad(reason.to_owned()));
        }
        let is_index = kind.manifests.is_some()
            || [OCI_INDEX, DOCKER_INDEX].contains(&kind.media_type.as_str());
        if is_index {
            return Ok(Self::Index(serde_json::from_slice(bytes).map_err(broken)?));
        }
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(broken)?;
        manifest.check(image)?;
        Ok(Self::Manifest(manifest))
    }
}

/// What of an image's configuration unpacking needs.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ImageConfig {
    #[serde(flatten)]
    pub(super) platform: Platform,
    rootfs: RootFs,
}

#[derive(Clone, Debug, Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<Digest>,
}

impl ImageConfig {
    /// Reads the configuration that belongs to the manifest.
    pub(super) fn parse(
        image: &str,
        manifest: &Manifest,
        bytes: &[u8],
    ) -> Result<Self, ImageError> {
        let bad = |reason: String| ImageError::BadImage {
            image: image.to_owned(),
            reason,
        };
        let config: Self = serde_json::from_slice(bytes)
            .map_err(|e| bad(format!("its configuration is broken: {e}")))?;
        let (layers, ids) = (manifest.layers.len(), config.rootfs.diff_ids.len());
        if layers != ids {
            return Err(bad(format!(
                "it has {layers} layers, but its configuration lists {ids}"
            )));
        }
        let here = Platform::here();
        if !config.platform.architecture.is_empty() && !here.runs(&config.platform) {
            let (wanted, found) = (here.name(), config.platform.name());
            return Err(ImageError::NoPlatform {
                image: image.to_owned(),
                wanted,
                found,
            });
        }
        Ok(config)
    }

    /// Digests of the layers unpacked, bottom first.
    pub(super) fn diff_ids(&self) -> &[Digest] {
        &self.rootfs.diff_ids
    }
}

/// The name of a stack of layers: its lower part's name and the top layer's digest, hashed.
pub(super) fn chain_id(lower: Option<&Digest>, top: &Digest) -> Digest {
    match lower {
        None => top.clone(),
        Some(lower) => Digest::finish(Sha256::new_with_prefix(format!("{lower} {top}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(os: &str, architecture: &str, variant: Option<&str>) -> Descriptor {
        let size = 1;
        let text = format!("{os}{architecture}{variant:?}");
        let mut entry = Descriptor::new(OCI_MANIFEST, Digest::of(text.as_bytes()), size);
        entry.platform = Some(Platform {
            os: os.to_owned(),
            architecture: architecture.to_owned(),
            variant: variant.map(str::to_owned),
        });
        entry
    }

    #[test]
    fn an_index_gives_the_plainest_image_for_this_machine() {
        let here = Platform::here().architecture;
        let plain = entry("linux", &here, None);
        let newest = entry("linux", &here, Some("v3"));
        let attestation = entry("unknown", "unknown", None);
        let other = entry("linux", "s390x", None);
        let all = [
            attestation.clone(),
            newest.clone(),
            other.clone(),
            plain.clone(),
        ];
        assert_eq!(choose("x", &all).unwrap(), &plain);
        assert_eq!(choose("x", &all[..2]).unwrap(), &newest);
        let error = choose("x", &[attestation, other]).unwrap_err().to_string();
        assert!(error.contains("linux/s390x"), "{error}");
        let unlabelled = [Descriptor {
            platform: None,
            ..plain
        }];
        assert_eq!(choose("x", &unlabelled).unwrap(), &unlabelled[0]);
    }

    #[test]
    fn documents_that_are_no_image_are_refused() {
        let digest = Digest::of(b"");
        let manifest = |layer: &str| {
            let blob = |t: &str| format!(r#"{{"mediaType":"{t}","digest":"{digest}","size":0}}"#);
            let (config, layer) = (blob(OCI_CONFIG), blob(layer));
            format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{layer}]}}"#)
        };
        for good in [
            "application/vnd.docker.image.rootfs.diff.tar.gzip",
            "application/vnd.oci.image.layer.v1.tar",
            "application/vnd.oci.image.layer.v1.tar+zstd",
        ] {
            ImageDocument::parse("x", manifest(good).as_bytes()).unwrap();
        }
        let table = [
            (r#"{"schemaVersion":1}"#.to_owned(), "schema 1"),
            ("[]".to_owned(), "broken"),
            (r#"{"schemaVersion":2}"#.to_owned(), "broken"),
            (
                manifest("application/vnd.cncf.helm.chart.content.v1.tar+gzip"),
                "helm",
            ),
        ];
        for (text, told) in table {
            let error = ImageDocument::parse("x", text.as_bytes())
                .unwrap_err()
                .to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
