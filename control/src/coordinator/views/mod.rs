//! What people are told: why jobs wait, what virtual clusters and nodes have, what another description would do. Nothing here
//! changes anything.

mod cells;
mod explain;
mod forecast;
mod outlook;
mod problems;
mod quotas;
mod roster;

pub(super) use cells::CellLister;
pub(super) use explain::Explainer;
pub use outlook::Outlook;
pub(super) use outlook::{Viewpoint, found};
pub(super) use quotas::Quotas;
pub(super) use roster::NodeRoster;
