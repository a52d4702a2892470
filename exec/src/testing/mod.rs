//! Support for tests that need a real engine: a containerd of their own, an image, a logger.
//!
//! Everything is below a directory that goes away with the value that owns it.

mod containerd;
mod image;
mod logger;

pub use containerd::{PrivateContainerd, Unavailable};
pub use image::TestImage;
pub use logger::script as logger_script;
