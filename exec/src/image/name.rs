//! Names of images, as users write them and as they are stored.
//!
//! The canonical form is the full one: `registry/repository:tag` or
//! `registry/repository@sha256:...`. What is left out is filled in as Docker does: registry
//! `docker.io`, on it the user `library`, tag `latest`. So `busybox` and
//! `docker.io/library/busybox:latest` are one image. With a digest, a tag adds nothing and is
//! dropped.

use std::fmt;
use std::net::Ipv6Addr;

use super::{Digest, Error};

const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_TAG: &str = "latest";
const OFFICIAL_USER: &str = "library/";
const NAME_CHARS_MAX: usize = 255;
const TAG_CHARS_MAX: usize = 128;

/// A full image name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Host and maybe port of the registry.
    pub registry: String,
    /// Path of the repository on it.
    pub repository: String,
    /// What of the repository.
    pub version: Version,
}

/// Which image of a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// The one a tag points to now.
    Tag(String),
    /// The one with this digest, for ever.
    Digest(Digest),
}

impl Version {
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
            Version::Tag(_) => ':',
            Version::Digest(_) => '@',
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
    pub fn parse(name: &str) -> Result<Self, Error> {
        Self::read(name).map_err(|reason| Error::BadName {
            name: name.to_owned(),
            reason,
        })
    }

    fn read(name: &str) -> Result<Self, &'static str> {
        if name.is_empty() {
            return Err("it is empty; write [registry/]repository[:tag]");
        }
        if name.contains("://") {
            return Err("leave out the part up to `://`");
        }
        let (rest, digest) = match name.split_once('@') {
            Some((rest, text)) => {
                let digest = Digest::parse(text);
                (
                    rest,
                    Some(digest.ok_or("after `@` must follow sha256: and 64 hex digits")?),
                )
            }
            None => (name, None),
        };
        let (rest, tag) = split_tag(rest);
        let (registry, repository) = split_registry(rest);
        check_registry(&registry)?;
        check_repository(&repository)?;
        if registry.len() + repository.len() > NAME_CHARS_MAX {
            return Err("it is longer than 255 characters");
        }
        if let Some(tag) = tag {
            check_tag(tag)?;
        }
        let version = match digest {
            Some(digest) => Version::Digest(digest),
            None => Version::Tag(tag.unwrap_or(DEFAULT_TAG).to_owned()),
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
            version: Version::Digest(digest.clone()),
            ..self.clone()
        }
    }
}

/// The full form of a name; what is no name stays as it is.
pub(super) fn full(name: &str) -> String {
    Reference::parse(name).map_or_else(|_| name.to_owned(), |parsed| parsed.to_string())
}

fn split_tag(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(':') {
        Some((rest, tag)) if !tag.contains('/') => (rest, Some(tag)),
        _ => (name, None),
    }
}

/// The first part is a registry if it cannot be a user's name.
fn split_registry(name: &str) -> (String, String) {
    let is_host = |part: &str| {
        part == "localhost"
            || part.contains(['.', ':'])
            || part.bytes().any(|b| b.is_ascii_uppercase())
    };
    let (registry, repository) = match name.split_once('/') {
        Some((first, rest)) if is_host(first) => (first, rest),
        _ => (DEFAULT_REGISTRY, name),
    };
    let registry = if registry == "index.docker.io" {
        DEFAULT_REGISTRY
    } else {
        registry
    };
    if registry == DEFAULT_REGISTRY && !repository.contains('/') {
        return (registry.to_owned(), format!("{OFFICIAL_USER}{repository}"));
    }
    (registry.to_owned(), repository.to_owned())
}

fn check_registry(registry: &str) -> Result<(), &'static str> {
    let (host, port) = match registry.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("the registry lacks its `]`")?;
            (host, port.strip_prefix(':'))
        }
        None => match registry.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (registry, None),
        },
    };
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err("the port of the registry is not a number up to 65535");
    }
    let fits = if registry.starts_with('[') {
        host.parse::<Ipv6Addr>().is_ok()
    } else {
        host.split('.').all(is_host_part)
    };
    if fits {
        Ok(())
    } else {
        Err("the registry is not a host name or address")
    }
}

fn is_host_part(part: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
}

fn check_repository(repository: &str) -> Result<(), &'static str> {
    if repository.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err("a repository is written in lower case");
    }
    if repository.split('/').all(is_path_part) {
        Ok(())
    } else {
        Err("between slashes it takes letters, digits, and single `.`, `_` or `-` inside")
    }
}

/// Runs of letters and digits, joined by one of `.`, `_`, `__`, or any number of `-`.
fn is_path_part(part: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends_fit = part.bytes().next().is_some_and(alphanumeric)
        && part.bytes().last().is_some_and(alphanumeric);
    let mut joints = part
        .split(|c: char| c.is_ascii_alphanumeric())
        .filter(|j| !j.is_empty());
    ends_fit && joints.all(|j| matches!(j, "." | "_" | "__") || j.bytes().all(|b| b == b'-'))
}

fn check_tag(tag: &str) -> Result<(), &'static str> {
    let of_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let fits = tag.len() <= TAG_CHARS_MAX
        && tag.bytes().next().is_some_and(of_word)
        && tag.bytes().all(|b| of_word(b) || b == b'.' || b == b'-');
    if fits {
        Ok(())
    } else {
        Err("a tag has 1 to 128 letters, digits, `_`, `.` or `-`, the first no `.` or `-`")
    }
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
