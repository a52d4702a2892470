//! Which images an archive holds, from the documents in it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::tar::bad;
use crate::image::document::{Descriptor, ImageIndex};
use crate::image::{ImageError, Reference};

const CONTAINERD_NAME: &str = "io.containerd.image.name";
const OCI_REF_NAME: &str = "org.opencontainers.image.ref.name";
/// Put by build tools on what describes another entry, like its provenance.
const ATTESTATION: &str = "vnd.docker.reference.type";

/// One image of an archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ArchivedImage {
    /// The names it goes by.
    pub(super) names: Vec<Reference>,
    /// A word in place of a name.
    pub(super) hint: Option<String>,
    pub(super) source: ImageSource,
}

/// Where the image's parts are said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ImageSource {
    /// In OCI's `index.json`: one entry for each platform.
    Oci(Vec<Descriptor>),
    /// In Docker's `manifest.json`.
    Docker(Saved),
}

/// An entry of `manifest.json`. All paths are of the archive.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Saved {
    pub(super) config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    #[serde(default)]
    pub(super) layers: Option<Vec<String>>,
}

/// Lists the images. An archive with both documents is taken by `index.json`, unless only
/// `manifest.json` has the names.
pub(super) fn list(
    documents: &BTreeMap<String, Vec<u8>>,
) -> Result<Vec<ArchivedImage>, ImageError> {
    let oci = documents
        .get("index.json")
        .map(|bytes| from_index(bytes))
        .transpose()?;
    let docker = documents
        .get("manifest.json")
        .map(|bytes| from_saved(bytes))
        .transpose()?;
    let named = |listed: &Vec<ArchivedImage>| listed.iter().any(|l| !l.names.is_empty());
    let listed = match (oci, docker) {
        (Some(oci), Some(docker)) if !named(&oci) && named(&docker) => docker,
        (Some(oci), _) if !oci.is_empty() => oci,
        (_, Some(docker)) => docker,
        _ => {
            return Err(bad(
                "it has no image: no index.json and no manifest.json".to_owned()
            ));
        }
    };
    if listed.is_empty() {
        return Err(bad("it has no image".to_owned()));
    }
    Ok(listed)
}

fn from_index(bytes: &[u8]) -> Result<Vec<ArchivedImage>, ImageError> {
    let index: ImageIndex =
        serde_json::from_slice(bytes).map_err(|e| bad(format!("index.json is broken: {e}")))?;
    let mut groups: BTreeMap<Option<String>, Vec<Descriptor>> = BTreeMap::new();
    for entry in index.manifests {
        if !entry.annotations.contains_key(ATTESTATION) {
            groups.entry(said_name(&entry)).or_default().push(entry);
        }
    }
    groups
        .into_iter()
        .map(|(said, entries)| from_group(said, entries))
        .collect()
}

fn said_name(entry: &Descriptor) -> Option<String> {
    let annotations = &entry.annotations;
    annotations
        .get(CONTAINERD_NAME)
        .or_else(|| annotations.get(OCI_REF_NAME))
        .cloned()
}

/// A bare word may be a tag or a repository: some tools write the one, some the other.
fn from_group(said: Option<String>, entries: Vec<Descriptor>) -> Result<ArchivedImage, ImageError> {
    let source = ImageSource::Oci(entries);
    match said {
        Some(name) if name.contains(['/', ':']) => Ok(ArchivedImage {
            names: vec![Reference::parse(&name)?],
            hint: None,
            source,
        }),
        hint => Ok(ArchivedImage {
            names: Vec::new(),
            hint,
            source,
        }),
    }
}

fn from_saved(bytes: &[u8]) -> Result<Vec<ArchivedImage>, ImageError> {
    let saved: Vec<Saved> =
        serde_json::from_slice(bytes).map_err(|e| bad(format!("manifest.json is broken: {e}")))?;
    let list = |saved: Saved| {
        let tags = saved.repo_tags.iter().flatten();
        let names = tags
            .map(|tag| Reference::parse(tag))
            .collect::<Result<_, _>>()?;
        Ok(ArchivedImage {
            names,
            hint: None,
            source: ImageSource::Docker(saved),
        })
    };
    saved.into_iter().map(list).collect()
}

/// Gives every image its names: the archive's own, or the one the caller chose.
pub(super) fn name(
    mut listed: Vec<ArchivedImage>,
    chosen: Option<&str>,
) -> Result<Vec<ArchivedImage>, ImageError> {
    if let Some(chosen) = chosen {
        let chosen = Reference::parse(chosen)?;
        if let [only] = listed.as_mut_slice() {
            only.names = vec![chosen];
            return Ok(listed);
        }
        let names = listed
            .iter()
            .flat_map(|l| &l.names)
            .map(ToString::to_string);
        return Err(ImageError::ManyImages {
            found: names.collect::<Vec<_>>().join(", "),
        });
    }
    match listed.iter().find(|l| l.names.is_empty()) {
        Some(nameless) => {
            let hint = nameless.hint.as_ref();
            let hint = hint
                .map(|h| format!(" (`{h}` may be just a tag)"))
                .unwrap_or_default();
            Err(ImageError::Unnamed { hint })
        }
        None => Ok(listed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Digest;

    fn index(entries: &[(&str, &str)]) -> Vec<u8> {
        let digest = Digest::of(b"");
        let entries: Vec<String> = entries
            .iter()
            .map(|(key, name)| {
                format!(r#"{{"digest":"{digest}","size":1,"annotations":{{"{key}":"{name}"}}}}"#)
            })
            .collect();
        format!(r#"{{"manifests":[{}]}}"#, entries.join(",")).into_bytes()
    }

    fn names(oci: Option<Vec<u8>>, docker: Option<&str>, chosen: Option<&str>) -> String {
        let mut documents = BTreeMap::new();
        documents.extend(oci.map(|bytes| ("index.json".to_owned(), bytes)));
        documents.extend(docker.map(|text| ("manifest.json".to_owned(), text.into())));
        match list(&documents).and_then(|listed| name(listed, chosen)) {
            Ok(listed) => {
                let all = listed
                    .iter()
                    .flat_map(|l| &l.names)
                    .map(ToString::to_string);
                all.collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn names_come_from_where_each_tool_writes_them() {
        let saved = r#"[{"Config":"c.json","RepoTags":["a:1","b/c:2"],"Layers":["l/layer.tar"]}]"#;
        let untagged = r#"[{"Config":"c.json","RepoTags":null,"Layers":null}]"#;
        let buildx = index(&[
            (CONTAINERD_NAME, "docker.io/library/x:7"),
            (ATTESTATION, "sbom"),
        ]);
        let skopeo = index(&[(OCI_REF_NAME, "busybox:1.36")]);
        let tag = index(&[(OCI_REF_NAME, "latest")]);
        let two = index(&[(OCI_REF_NAME, "a:1"), (OCI_REF_NAME, "b:1")]);
        let table = [
            (
                None,
                Some(saved),
                None,
                "docker.io/library/a:1 docker.io/b/c:2",
            ),
            (None, Some(saved), Some("h.io/z"), "h.io/z:latest"),
            (Some(buildx), None, None, "docker.io/library/x:7"),
            (
                Some(skopeo.clone()),
                Some(saved),
                None,
                "docker.io/library/busybox:1.36",
            ),
            (
                Some(tag.clone()),
                Some(saved),
                None,
                "docker.io/library/a:1 docker.io/b/c:2",
            ),
            (
                Some(tag.clone()),
                None,
                Some("n"),
                "docker.io/library/n:latest",
            ),
            (Some(tag), None, None, "`latest` may be just a tag"),
            (
                Some(two.clone()),
                None,
                None,
                "docker.io/library/a:1 docker.io/library/b:1",
            ),
            (
                Some(two),
                None,
                Some("n"),
                "several images (docker.io/library/a:1, ",
            ),
            (None, Some(untagged), None, "does not name its image;"),
            (Some(skopeo), None, Some("N"), "lower case"),
            (None, Some("{}"), None, "manifest.json is broken"),
            (Some(index(&[])), None, None, "no image"),
            (None, None, None, "no index.json"),
        ];
        for (oci, docker, chosen, expected) in table {
            let found = names(oci, docker, chosen);
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }
}
