//! Images of the node: import from archives, pull from registries, removal, all in containerd.
//!
//! It speaks containerd's content, images, snapshots, diff and leases services, which 1.6 and
//! 2.x have alike. An image is here as a whole or not at all: content arrives under a lease,
//! layers are unpacked and checked against the image's configuration, and only then the name
//! is recorded. It does not know what a container is made of; that is [`crate::engine`]'s part.
//!
//! Images are stored under their full name (see [`Reference`]), and the record points to the
//! manifest for this machine's platform even where the registry has an index of several, so
//! that nobody has to choose again. Start reading at [`ImageStore`].

mod archive;
mod connection;
mod content;
mod digest;
mod document;
mod error;
mod garbage;
mod lease;
mod locks;
mod name;
mod origin;
mod progress;
mod pull;
mod record;
mod registry;
mod store;
#[cfg(test)]
mod tests;
mod unpack;

pub use self::connection::Settings;
pub use self::digest::Digest;
pub use self::error::ImageError;
pub use self::garbage::Retention;
use self::lease::ContentLease;
pub use self::name::{ImageVersion, Reference};
pub use self::progress::{ImageOperation, OperationStep};
pub use self::record::ImageRecord;
pub use self::registry::{ProxySettings, RegistrySettings};
pub use self::store::ImageStore;
