//! What the tests and benchmarks over the whole product share: real agents as child processes,
//! networks of their own to run them in, and a client that speaks OpenPAI's REST API to them.

pub mod agent;
pub mod beat;
pub mod client;
pub mod disk;
pub mod explore;
#[cfg(feature = "bench")]
pub mod fake_containerd;
pub mod home;
pub mod job;
pub mod nemesis;
pub mod net;
pub mod played_driver;
pub mod played_fabric;
pub mod promises;
pub mod sim;
pub mod site;
pub mod submissions;
pub mod wall_clock;
