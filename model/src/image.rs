//! Images on a node, and how far a long operation on them is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An image on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageView {
    /// What a job's `uri` may say.
    pub name: String,
    /// `sha256:...` of its manifest.
    pub digest: String,
    /// Bytes of its content, compressed as stored.
    pub size_bytes: u64,
}

/// A step of a long image operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ImageProgress {
    /// Bytes moved so far.
    Bytes {
        /// Moved.
        done: u64,
        /// In all, if known.
        total: Option<u64>,
    },
    /// Layers unpacked so far.
    Layers {
        /// Unpacked.
        done: u32,
        /// In all.
        total: u32,
    },
    /// An image is ready to use.
    Ready(ImageView),
    /// It failed; nothing half-done is left.
    Failed {
        /// Why, and what to do.
        message: String,
    },
}
