//! Names of images, as users write them and as they are stored.
//!
//! The canonical form is the full one: `registry/repository:tag` or
//! `registry/repository@sha256:...`. What is left out is filled in as Docker does: registry
//! `docker.io`, on it the user `library`, tag `latest`. So `busybox` and
//! `docker.io/library/busybox:latest` are one image. With a digest, a tag adds nothing and is
//! dropped.

use std::fmt;

use muster_model::image_name::ImageName;

use super::{Digest, ImageError};

const DEFAULT_TAG: &str = "latest";

/// A full image name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Host and maybe port of the registry.
    pub registry: String,
    /// Path of the repository on it.
    pub repository: String,
    /// What of the repository.
    pub version: ImageVersion,
}

/// Which image of a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageVersion {
    /// The one a tag points to now.
    Tag(String),
    /// The one with this digest, for ever.
    Digest(Digest),
}

impl ImageVersion {
    /// As the registry's URLs have it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tag(tag) => tag,
            Self::Digest(digest) => digest.as_str(),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = match self.version {
            ImageVersion::Tag(_) => ':',
            ImageVersion::Digest(_) => '@',
        };
        let Self {
            registry,
            repository,
            version,
        } = self;
        write!(f, "{registry}/{repository}{separator}{}", version.as_str())
    }
}

impl Reference {
    /// Reads a name as users write it.
    pub fn parse(name: &str) -> Result<Self, ImageError> {
        Self::read(name).map_err(|reason| ImageError::BadName {
            name: name.to_owned(),
            reason,
        })
    }

    fn read(name: &str) -> Result<Self, &'static str> {
        let ImageName {
            registry,
            repository,
            tag,
            digest,
        } = ImageName::parse(name)?;
        let version = match digest.and_then(Digest::parse) {
            Some(digest) => ImageVersion::Digest(digest),
            None => ImageVersion::Tag(tag.unwrap_or(DEFAULT_TAG).to_owned()),
        };
        Ok(Self {
            registry,
            repository,
            version,
        })
    }

    /// The same repository at another version.
    pub(super) fn at(&self, digest: &Digest) -> Self {
        Self {
            version: ImageVersion::Digest(digest.clone()),
            ..self.clone()
        }
    }
}

/// The full form of a name; what is no name stays as it is.
pub(super) fn full(name: &str) -> String {
    Reference::parse(name).map_or_else(|_| name.to_owned(), |parsed| parsed.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn every_way_to_write_a_name_leads_to_one() {
        let table = [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1.36", "docker.io/library/busybox:1.36"),
            ("docker.io/busybox", "docker.io/library/busybox:latest"),
            (
                "index.docker.io/library/busybox",
                "docker.io/library/busybox:latest",
            ),
            (
                "openpai/standard:python_3.6-gpu",
                "docker.io/openpai/standard:python_3.6-gpu",
            ),
            ("localhost/a", "localhost/a:latest"),
            ("localhost:5000/a/b:tag", "localhost:5000/a/b:tag"),
            ("[::1]:5000/a__b", "[::1]:5000/a__b:latest"),
            ("ghcr.io/o/r--x:v1", "ghcr.io/o/r--x:v1"),
            ("MyHost/a", "MyHost/a:latest"),
        ];
        for (given, full) in table {
            let parsed = Reference::parse(given).unwrap();
            assert_eq!(parsed.to_string(), full, "{given}");
            assert_eq!(
                Reference::parse(full).unwrap(),
                parsed,
                "{full} is its own name"
            );
        }
        let pinned = format!("docker.io/library/busybox@{D}");
        for given in [format!("busybox@{D}"), format!("busybox:1.36@{D}")] {
            assert_eq!(Reference::parse(&given).unwrap().to_string(), pinned);
        }
    }

    #[test]
    fn what_is_not_a_name_is_told_why() {
        let table = [
            ("", "empty"),
            ("https://ghcr.io/a", "://"),
            ("Busybox", "lower case"),
            ("a:", "a tag has"),
            ("a:-x", "a tag has"),
            ("a@sha256:12", "after `@`"),
            ("a@md5:12", "after `@`"),
            ("a..b", "between slashes"),
            ("a___b", "between slashes"),
            ("a//b", "between slashes"),
            ("../etc/passwd", "registry"),
            ("/a", "between slashes"),
            ("a b", "between slashes"),
            ("host:99999/a", "port"),
            ("a:b:c", "between slashes"),
        ];
        for (given, told) in table {
            let error = Reference::parse(given).unwrap_err().to_string();
            assert!(
                error.contains(told) && error.contains(given),
                "{given}: {error}"
            );
        }
    }
}
