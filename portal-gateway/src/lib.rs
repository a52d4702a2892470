//! The REST side of an agent: OpenPAI's API over the [`cluster::Cluster`] port.
//!
//! It keeps no state, so any node answers the same. It knows warp and HTTP; the agent behind
//! the port knows neither.

pub mod cluster;
