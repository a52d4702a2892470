//! What the tests and benchmarks over the whole product share: real agents as child processes,
//! and a client that speaks OpenPAI's REST API to them.

pub mod agent;
pub mod client;
pub mod home;
