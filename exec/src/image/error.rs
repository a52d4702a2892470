//! What can go wrong with an image, sorted by what the caller can do about it.

use std::io;

/// Why an image operation failed. Whatever failed, nothing half-done is left, except parts of a
/// pull that [`ImageError::is_transient`] says may be tried again: the next pull of that name goes on
/// from them, and they are dropped after a day.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Not a name of an image. No try will help.
    #[error("`{name}` is not an image name: {reason}")]
    BadName {
        /// What was given.
        name: String,
        /// What is wrong and how to write it.
        reason: &'static str,
    },
    /// A setting of the store cannot be used.
    #[error("image setting {field} = `{value}`: {reason}")]
    BadSetting {
        /// The setting.
        field: &'static str,
        /// What it says.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The image is not on this node.
    #[error("image {0} is not on this node; import it or pull it")]
    NotHere(String),
    /// A container uses the image, so it was not removed.
    #[error("image {name} is used by container {container}; stop that first")]
    InUse {
        /// The image.
        name: String,
        /// One container that uses it.
        container: String,
    },
    /// The registry does not have it. No try will help until somebody pushes it.
    #[error("image {reference}: {registry} does not have it; check the name and the tag")]
    NotFound {
        /// The image.
        reference: String,
        /// Who was asked.
        registry: String,
    },
    /// The registry refuses this login. No try will help. Some registries, Docker Hub among
    /// them, answer so for a repository that does not exist too.
    #[error("image {reference}: {registry} refuses access: {reason}; check the name and the login")]
    Unauthorized {
        /// The image.
        reference: String,
        /// Who refused.
        registry: String,
        /// Its words.
        reason: String,
    },
    /// The image is here, pulled with a login, and the registry does not give it to this job's. No try
    /// will help.
    #[error(
        "image {name} was pulled with a login, so a job needs one that the registry takes for it"
    )]
    LoginNeeded {
        /// The image.
        name: String,
        /// What the registry says to this job's login, or to none.
        source: Box<Self>,
    },
    /// The registry or the way to it failed. Worth another try.
    #[error("registry {registry}: {reason}")]
    Registry {
        /// Who was asked.
        registry: String,
        /// What happened.
        reason: String,
    },
    /// The host name of the registry, or of its token server, cannot be resolved: it is wrong, or the name
    /// service is away. Worth another try, but not many.
    #[error("registry {registry}: its host name cannot be resolved ({reason})")]
    UnknownHost {
        /// The name that was asked for.
        registry: String,
        /// The resolver's words.
        reason: String,
    },
    /// The image has nothing for this machine's processor.
    #[error("image {image} is not made for {wanted}, only for {found}")]
    NoPlatform {
        /// The image.
        image: String,
        /// `linux/amd64`
        wanted: String,
        /// What it is made for.
        found: String,
    },
    /// Content is not what its digest says.
    #[error("{what} is damaged: {reason}")]
    Digest {
        /// Which blob.
        what: String,
        /// Expected and found.
        reason: String,
    },
    /// The image's own description is broken or of a kind that containers are not made from.
    #[error("image {image} cannot be used: {reason}")]
    BadImage {
        /// The image, or the digest if it has no name yet.
        image: String,
        /// What is wrong.
        reason: String,
    },
    /// The archive is broken or not an image archive.
    #[error("image archive: {reason}")]
    BadArchive {
        /// What is wrong, naming the entry.
        reason: String,
    },
    /// The archive could not be read to its end.
    #[error("reading the image archive")]
    Read(#[source] io::Error),
    /// The archive does not say what its image is called, and the caller did not either.
    #[error("the archive does not name its image{hint}; give a name, like `name/of/image:tag`")]
    Unnamed {
        /// What it says instead, may be empty.
        hint: String,
    },
    /// One name was given for an archive of several images.
    #[error("the archive holds several images ({found}); import it without giving a name")]
    ManyImages {
        /// Their names.
        found: String,
    },
    /// A document is larger than any honest one.
    #[error("{what} has {bytes} bytes, more than the limit of {max}")]
    TooLarge {
        /// The document.
        what: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The disk to keep free could not be measured.
    #[error("measuring the disk at {path}")]
    Disk {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The container engine does not answer. Worth another try.
    #[error("the container engine does not answer at {socket}: {reason}")]
    Unavailable {
        /// Where it should be.
        socket: String,
        /// What happened.
        reason: String,
    },
    /// The container engine refused.
    #[error("the container engine refused to {call}: {reason}")]
    Refused {
        /// What was asked.
        call: &'static str,
        /// Its own words.
        reason: String,
    },
    /// The caller lost interest before the end.
    #[error("cancelled")]
    Cancelled,
}

impl ImageError {
    /// Whether the same call may succeed later without anybody changing anything.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Registry { .. }
                | Self::UnknownHost { .. }
                | Self::Unavailable { .. }
                | Self::Refused { .. }
        )
    }
}
