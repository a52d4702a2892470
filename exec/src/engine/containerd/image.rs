//! What an image says of its containers: found by name, read from containerd's content store
//! once, kept by digest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use containerd_client::services::v1::{GetImageRequest, ReadContentRequest};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tonic::Code;

use super::{Containerd, layers};
use crate::engine::EngineError;
use crate::oci::ImageDefaults;
use crate::oci::user::{self, ContainerUser};

/// So many images are remembered; then all are forgotten and read again when needed.
const REMEMBERED_MAX: usize = 256;
/// Larger manifests and configurations are refused.
const DOCUMENT_BYTES_MAX: usize = 8 << 20;

/// The kernel starts no program with a longer argument or variable, its end counted.
const ARGUMENT_BYTES_MAX: usize = 128 << 10;
/// ... nor with more of all together, at the usual limit of 8 MiB for stacks.
const ARGUMENTS_BYTES_MAX: usize = 2 << 20;
/// As much of a variable's name as a message has room for.
const NAME_CHARS_MAX: usize = 80;

/// What is needed of an image to make a container of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EngineImage {
    /// Names the snapshot of all its layers; empty for an image without layers.
    pub chain_id: String,
    pub defaults: ImageDefaults,
}

/// Images by the digest that their name points at.
#[derive(Debug, Default)]
pub(super) struct ImageCache {
    read: Mutex<HashMap<String, Arc<EngineImage>>>,
}

impl ImageCache {
    fn get(&self, digest: &str) -> Option<Arc<EngineImage>> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.get(digest).cloned()
    }

    fn keep(&self, digest: String, image: &Arc<EngineImage>) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.len() >= REMEMBERED_MAX {
            read.clear();
        }
        read.insert(digest, Arc::clone(image));
    }
}

/// An index or a manifest, told apart by which field is there: Docker and OCI name their
/// media types differently, and some builders name none.
#[derive(Debug, Deserialize)]
struct StoredManifest {
    #[serde(default)]
    manifests: Vec<StoredDescriptor>,
    config: Option<StoredDescriptor>,
}

#[derive(Debug, Deserialize)]
struct StoredDescriptor {
    digest: String,
    platform: Option<StoredPlatform>,
}

#[derive(Debug, Deserialize)]
struct StoredPlatform {
    os: String,
    architecture: String,
}

#[derive(Debug, Deserialize)]
struct StoredImageConfig {
    #[serde(default)]
    config: Option<StoredDefaults>,
    rootfs: StoredRootFs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct StoredDefaults {
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    user: Option<String>,
}

#[derive(Debug, Deserialize)]
struct StoredRootFs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

impl Containerd {
    /// The image that `name` points at now.
    pub(super) async fn image(&self, name: &str) -> Result<Arc<EngineImage>, EngineError> {
        let digest = self.image_digest(name).await?;
        if let Some(image) = self.images.get(&digest) {
            return Ok(image);
        }
        let config = self.image_config(name, &digest).await?;
        let chain_id = chain_id(&config.rootfs.diff_ids);
        let defaults = config.config.unwrap_or_default();
        let user = self
            .image_user(name, &chain_id, defaults.user.as_deref())
            .await?;
        let environment = defaults.env.unwrap_or_default();
        check_environment(&environment).map_err(|reason| bad(name, &reason))?;
        let image = Arc::new(EngineImage {
            chain_id,
            defaults: ImageDefaults {
                user,
                environment,
                working_dir: defaults.working_dir.unwrap_or_default(),
            },
        });
        self.images.keep(digest, &image);
        Ok(image)
    }

    async fn image_digest(&self, name: &str) -> Result<String, EngineError> {
        let connection = &self.connection;
        let request = connection.request(GetImageRequest {
            name: name.to_owned(),
        });
        let answer = match connection
            .call(connection.client().images().get(request))
            .await
        {
            Ok(answer) => answer,
            Err(fault) if fault.is(Code::NotFound) => {
                return Err(EngineError::NoImage(name.to_owned()));
            }
            Err(fault) => return Err(connection.error("find the image", fault)),
        };
        let target = answer.image.and_then(|image| image.target);
        let target = target.ok_or_else(|| bad(name, "it points at nothing"))?;
        Ok(target.digest)
    }

    async fn image_config(
        &self,
        name: &str,
        digest: &str,
    ) -> Result<StoredImageConfig, EngineError> {
        let mut manifest: StoredManifest = self.document(name, digest).await?;
        if !manifest.manifests.is_empty() {
            let mine = choose(&manifest.manifests)
                .ok_or_else(|| bad(name, "it is not made for this machine's architecture"))?;
            manifest = self.document(name, &mine.digest).await?;
        }
        let config = manifest
            .config
            .ok_or_else(|| bad(name, "it has no configuration"))?;
        self.document(name, &config.digest).await
    }

    /// A JSON document of the content store.
    async fn document<T: DeserializeOwned>(
        &self,
        name: &str,
        digest: &str,
    ) -> Result<T, EngineError> {
        let connection = &self.connection;
        let request = connection.request(ReadContentRequest {
            digest: digest.to_owned(),
            ..ReadContentRequest::default()
        });
        let read = async {
            let mut stream = connection
                .client()
                .content()
                .read(request)
                .await?
                .into_inner();
            let mut bytes = Vec::new();
            while let Some(part) = stream.message().await? {
                if bytes.len() + part.data.len() > DOCUMENT_BYTES_MAX {
                    return Err(tonic::Status::out_of_range("it is too large"));
                }
                bytes.extend(part.data);
            }
            Ok(tonic::Response::new(bytes))
        };
        let bytes = match connection.call(read).await {
            Ok(bytes) => bytes,
            // It was all here when it was pulled: something has removed it from this machine.
            Err(fault) if fault.is(Code::NotFound) => {
                return Err(EngineError::Unfit {
                    call: "read the image",
                    reason: format!("{digest} of {name} is missing"),
                });
            }
            Err(fault) if fault.is(Code::OutOfRange) => {
                return Err(bad(name, &format!("{digest} is too large")));
            }
            Err(fault) => return Err(connection.error("read the image", fault)),
        };
        serde_json::from_slice(&bytes).map_err(|error| bad(name, &format!("{digest}: {error}")))
    }

    async fn image_user(
        &self,
        name: &str,
        chain_id: &str,
        user: Option<&str>,
    ) -> Result<ContainerUser, EngineError> {
        let text = user.unwrap_or_default();
        if user::is_root(text) {
            return Ok(ContainerUser::default());
        }
        let dirs = self.layer_dirs(name, chain_id).await?;
        let file = |path| layers::read(&dirs, path).map_err(|reason| bad(name, &reason));
        user::resolve(text, &file("etc/passwd")?, &file("etc/group")?)
            .map_err(|reason| bad(name, &reason))
    }
}

/// Whether a program can be started with an image's variables at all. Of the whole, a quarter is left
/// for those of the task.
fn check_environment(lines: &[String]) -> Result<(), String> {
    const ALL_BYTES_MAX: usize = ARGUMENTS_BYTES_MAX / 4 * 3;
    // The kernel counts the end of the text and a pointer to it.
    let bytes = |line: &String| line.len() + 1 + size_of::<usize>();
    let all: usize = lines.iter().map(bytes).sum();
    let longest = lines.iter().max_by_key(|line| line.len());
    if let Some(line) = longest.filter(|line| line.len() >= ARGUMENT_BYTES_MAX) {
        let name = line.split('=').next().unwrap_or_default();
        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
        return Err(format!(
            "its variable {name} has {} bytes, and no program starts with one of {ARGUMENT_BYTES_MAX} or more; \
             shorten it in the image",
            line.len()
        ));
    }
    if all > ALL_BYTES_MAX {
        return Err(format!(
            "its variables have {all} bytes in all, and no program starts with more than {ALL_BYTES_MAX}; \
             remove some from the image"
        ));
    }
    Ok(())
}

pub(super) fn bad(image: &str, reason: &str) -> EngineError {
    EngineError::BadImage {
        image: image.to_owned(),
        reason: reason.to_owned(),
    }
}

/// The manifest made for this machine; the only one there is, if it names no platform.
fn choose(manifests: &[StoredDescriptor]) -> Option<&StoredDescriptor> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let mine =
        |platform: &StoredPlatform| platform.os == "linux" && platform.architecture == architecture;
    match manifests {
        [only] if only.platform.is_none() => Some(only),
        _ => manifests
            .iter()
            .find(|entry| entry.platform.as_ref().is_some_and(mine)),
    }
}

/// The name that containerd gives the snapshot of a stack of layers: a hash over the names of
/// the layers, each folded into the name of those below it.
fn chain_id(diff_ids: &[String]) -> String {
    let fold = |below: String, layer: &String| {
        let hash = Sha256::digest(format!("{below} {layer}"));
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex}")
    };
    let mut layers = diff_ids.iter();
    match layers.next() {
        Some(lowest) => layers.fold(lowest.clone(), fold),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_chosen_from_by_platform() {
        let index = r#"{"manifests": [
            {"digest": "w", "platform": {"os": "windows", "architecture": "amd64"}},
            {"digest": "a", "platform": {"os": "linux", "architecture": "amd64"}},
            {"digest": "b", "platform": {"os": "linux", "architecture": "arm64"}},
            {"digest": "?", "platform": {"os": "unknown", "architecture": "unknown"}}]}"#;
        let index: StoredManifest = serde_json::from_str(index).unwrap();
        let expect = if cfg!(target_arch = "x86_64") {
            "a"
        } else {
            "b"
        };
        assert_eq!(choose(&index.manifests).unwrap().digest, expect);
        assert!(choose(&index.manifests[..1]).is_none());
    }

    #[test]
    fn an_environment_that_no_program_starts_with_is_the_images_fault() {
        let line = |bytes: usize| format!("LONG={}", "=".repeat(bytes - 5));
        let many = |count: usize| vec![line(100_000); count];
        assert_eq!(check_environment(&[]), Ok(()));
        assert_eq!(check_environment(&[line(131_071)]), Ok(()));
        assert_eq!(check_environment(&many(15)), Ok(()));
        for (lines, told) in [
            (vec![line(131_072)], "its variable LONG has 131072 bytes"),
            (many(16), "its variables have 1600144 bytes in all"),
        ] {
            let refusal = check_environment(&lines).unwrap_err();
            assert!(refusal.starts_with(told), "{refusal}");
        }
    }

    #[test]
    fn chain_ids_are_containerds() {
        let layer = |digit: &str| format!("sha256:{}", digit.repeat(64));
        assert_eq!(chain_id(&[]), "");
        assert_eq!(chain_id(&[layer("a")]), layer("a"));
        assert_eq!(chain_id(&[layer("a"), layer("b")]), CHAIN_OF_TWO);
    }

    /// printf 'sha256:aa..a sha256:bb..b' | sha256sum
    const CHAIN_OF_TWO: &str =
        "sha256:ccd722928bd92476ba1745586fed6e45a102504185ad88cd89e01ff116fd146c";
}
