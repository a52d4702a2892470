//! What is seen of devices, ports and processes at one look.

mod gpu;
mod port;
mod process;
mod ras;
#[cfg(test)]
mod tests;

pub use gpu::GpuReading;
pub use port::{PortReading, ports};
pub use process::{ProcessReading, processes};
pub use ras::{AmdReading, amd};
