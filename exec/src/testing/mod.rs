//! Support for tests that need a real engine: a containerd of their own, an image, a logger; files
//! of real machines, and a driver that plays any.
//!
//! Everything is below a directory that goes away with the value that owns it.

mod captures;
mod containerd;
mod image;
mod logger;
mod nvml;

pub use captures::{capture_dir, unpack_capture, unpack_text};
pub use containerd::{PrivateContainerd, Unavailable};
pub use image::TestImage;
pub use logger::script as logger_script;
pub use nvml::FakeNvml;
