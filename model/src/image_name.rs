//! Names of images, as users write them, taken apart.
//!
//! What is left out of a name is filled in as Docker does: registry `docker.io`, on it the user
//! `library`.

use std::net::Ipv6Addr;

const DEFAULT_REGISTRY: &str = "docker.io";
const OFFICIAL_USER: &str = "library/";
const NAME_CHARS_MAX: usize = 255;
const TAG_CHARS_MAX: usize = 128;
const DIGEST_PREFIX: &str = "sha256:";
const DIGEST_HEX_CHARS: usize = 64;

/// A name of an image: `[registry/]repository[:tag][@digest]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName<'n> {
    /// Host and maybe port of the registry.
    pub registry: String,
    /// Path of the repository on it.
    pub repository: String,
    /// The tag, if it is written.
    pub tag: Option<&'n str>,
    /// The digest with its `sha256:`, if it is written.
    pub digest: Option<&'n str>,
}

impl<'n> ImageName<'n> {
    /// Reads a name.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn parse(name: &'n str) -> Result<Self, &'static str> {
        if name.is_empty() {
            return Err("it is empty; write [registry/]repository[:tag]");
        }
        if name.contains("://") {
            return Err("leave out the part up to `://`");
        }
        let (rest, digest) = match name.split_once('@') {
            Some((rest, digest)) if is_digest(digest) => (rest, Some(digest)),
            Some(_) => return Err("after `@` must follow sha256: and 64 hex digits"),
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
        Ok(Self {
            registry,
            repository,
            tag,
            digest,
        })
    }
}

fn is_digest(text: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.strip_prefix(DIGEST_PREFIX)
        .is_some_and(|digits| digits.len() == DIGEST_HEX_CHARS && digits.bytes().all(hex))
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

    #[test]
    fn what_is_left_out_is_filled_in() {
        for (name, registry, repository, tag) in [
            ("busybox", "docker.io", "library/busybox", None),
            ("a/b:1", "docker.io", "a/b", Some("1")),
            ("localhost:5000/a:x", "localhost:5000", "a", Some("x")),
            ("[::1]:5000/a__b", "[::1]:5000", "a__b", None),
        ] {
            let parsed = ImageName::parse(name).unwrap();
            let found = (&*parsed.registry, &*parsed.repository, parsed.tag);
            assert_eq!(found, (registry, repository, tag), "{name}");
        }
    }

    #[test]
    fn what_is_no_name_is_told_why() {
        for (name, why) in [
            ("UPPER/Case:!!", "lower case"),
            ("a:!!", "a tag has"),
            ("-host.io/a", "registry"),
            ("a@sha256:12", "after `@`"),
        ] {
            let error = ImageName::parse(name).unwrap_err();
            assert!(error.contains(why), "{name}: {error}");
        }
    }
}
