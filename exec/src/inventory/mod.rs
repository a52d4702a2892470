//! What a machine has, read from its file tree and its drivers.
//!
//! Each vendor's reader gives a [`VendorInventory`]. The PCI bus is the second witness: what it
//! shows and no driver does is a problem with a remedy.

pub mod amd;
pub mod fabric;
pub mod nvidia;
mod vendor;

pub use vendor::VendorInventory;
