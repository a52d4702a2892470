//! Which cells the virtual cluster places on what it was promised, in a cluster that is described.

mod binder;
mod known;

pub(super) use binder::{Binder, Readiness};
pub use known::Bindings;
