//! Small images, and the archives and registries' blobs they are written as.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use crate::image::Digest;
use crate::image::document::{Platform, layer_type};

/// How a layer is packed.
#[derive(Clone, Copy)]
pub(super) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    pub(super) fn pack(self, data: &[u8]) -> Vec<u8> {
        match self {
            Self::Plain => data.to_vec(),
            Self::Gzip => {
                let level = flate2::Compression::fast();
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
            Self::Zstd => zstd::encode_all(data, 1).unwrap(),
        }
    }
}

pub(super) struct Layer {
    tar: Vec<u8>,
    packed: Vec<u8>,
}

/// A layer with one file.
pub(super) fn layer(path: &str, data: &[u8], packing: Packing) -> Layer {
    let tar = tar(&[(path, data)]);
    let packed = packing.pack(&tar);
    Layer { tar, packed }
}

/// A layer that can run commands.
pub(super) fn busybox() -> Layer {
    layer(
        "bin/busybox",
        &std::fs::read("/usr/bin/busybox").unwrap(),
        Packing::Gzip,
    )
}

/// An image with all its documents.
#[derive(Clone)]
pub(super) struct Built {
    pub(super) manifest: Vec<u8>,
    config: Vec<u8>,
    packed: Vec<Vec<u8>>,
    architecture: String,
}

pub(super) fn image(layers: &[Layer]) -> Built {
    image_for(&Platform::here().architecture, layers)
}

pub(super) fn image_for(architecture: &str, layers: &[Layer]) -> Built {
    let diff_ids: Vec<Digest> = layers.iter().map(|l| Digest::of(&l.tar)).collect();
    let config = json!({
        "os": "linux",
        "architecture": architecture,
        "config": { "Cmd": ["/bin/busybox"] },
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
    });
    let config = config.to_string().into_bytes();
    let packed: Vec<Vec<u8>> = layers.iter().map(|l| l.packed.clone()).collect();
    let described: Vec<Value> = packed.iter().map(|l| describe(&layer_type(l), l)).collect();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": describe("application/vnd.oci.image.config.v1+json", &config),
        "layers": described,
    });
    let manifest = manifest.to_string().into_bytes();
    Built {
        manifest,
        config,
        packed,
        architecture: architecture.to_owned(),
    }
}

impl Built {
    /// Every blob but the manifest.
    pub(super) fn blobs(&self) -> BTreeMap<Digest, Vec<u8>> {
        let all = self.packed.iter().chain([&self.config]);
        all.map(|blob| (Digest::of(blob), blob.clone())).collect()
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }

    /// Bytes of all its content.
    pub(super) fn bytes(&self) -> u64 {
        let blobs: usize = self.packed.iter().map(Vec::len).sum();
        (blobs + self.config.len() + self.manifest.len()) as u64
    }

    /// Its entry in an index.
    pub(super) fn entry(&self, name: Option<&str>) -> Value {
        let mut entry = describe("application/vnd.oci.image.manifest.v1+json", &self.manifest);
        entry["platform"] = json!({ "os": "linux", "architecture": self.architecture });
        if let Some(name) = name {
            entry["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
        }
        entry
    }
}

fn describe(media_type: &str, blob: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": Digest::of(blob), "size": blob.len() })
}

pub(super) fn index(entries: &[Value]) -> Vec<u8> {
    let media_type = "application/vnd.oci.image.index.v1+json";
    let index = json!({ "schemaVersion": 2, "mediaType": media_type, "manifests": entries });
    index.to_string().into_bytes()
}

/// An OCI layout of these images; `entries` make its index.json, which comes last, as `tar`
/// of a folder may have it.
pub(super) fn oci_archive(images: &[&Built], entries: &[Value], extra: &[Vec<u8>]) -> Vec<u8> {
    let mut blobs = BTreeMap::new();
    for image in images {
        blobs.extend(image.blobs());
        blobs.insert(image.digest(), image.manifest.clone());
    }
    blobs.extend(extra.iter().map(|blob| (Digest::of(blob), blob.clone())));
    let path = |digest: &Digest| format!("./blobs/{}", digest.as_str().replace(':', "/"));
    let mut files: Vec<(String, Vec<u8>)> = blobs
        .iter()
        .map(|(digest, blob)| (path(digest), blob.clone()))
        .collect();
    files.push((
        "./oci-layout".to_owned(),
        br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec(),
    ));
    files.push(("./index.json".to_owned(), index(entries)));
    let files: Vec<(&str, &[u8])> = files.iter().map(|(p, d)| (p.as_str(), &d[..])).collect();
    tar(&files)
}

/// What `docker save` writes before Docker 25: every layer in a folder, repeated ones as links.
pub(super) fn docker_archive(image: &Built, tags: &[&str]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    let mut paths: Vec<String> = Vec::new();
    for (i, blob) in image.packed.iter().enumerate() {
        let path = format!("layer{i}/layer.tar");
        match image.packed[..i].iter().position(|earlier| earlier == blob) {
            Some(earlier) => {
                let mut header = header(0);
                header.set_entry_type(EntryType::Symlink);
                let target = format!("../{}", paths[earlier]);
                builder.append_link(&mut header, &path, target).unwrap();
            }
            None => append(&mut builder, &path, blob),
        }
        append(&mut builder, &format!("layer{i}/VERSION"), b"1.0");
        paths.push(path);
    }
    let config = Digest::of(&image.config);
    let config = format!("{}.json", config.as_str().trim_start_matches("sha256:"));
    append(&mut builder, &config, &image.config);
    let list = json!([{ "Config": config, "RepoTags": tags, "Layers": paths }]);
    append(&mut builder, "manifest.json", list.to_string().as_bytes());
    builder.into_inner().unwrap()
}

pub(super) fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, data) in files {
        append(&mut builder, path, data);
    }
    builder.into_inner().unwrap()
}

fn append(builder: &mut Builder<Vec<u8>>, path: &str, data: &[u8]) {
    builder
        .append_data(&mut header(data.len() as u64), path, data)
        .unwrap();
}

fn header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(0o755);
    header.set_size(size);
    header
}
