//! The mesh: who is a member, who can be reached, what every node says of itself, and signed
//! documents. Data here is safe when stale; what must not fork is consensus's business.
//!
//! [`Mesh`] is the core of one node: a state machine without IO, clock or randomness of its own.
//! `net` (feature `net`) drives it over libp2p and quinn; the simulator in `tests/` drives the
//! very same core in virtual time. [`Time`](muster_model::time::Time) is monotonic here: a jump
//! of the wall clock does not reach the cores. ALGORITHM.md says what each part guarantees.
//!
//! This crate does not know what a job is, and never panics on bytes from outside: what cannot
//! be decoded or verified is dropped and counted.

mod ack;
mod counters;
pub mod documents;
pub mod frame;
pub mod join;
pub mod key;
mod limit;
pub mod member;
pub mod member_set;
pub mod mesh;
#[cfg(feature = "net")]
#[allow(
    clippy::disallowed_methods,
    reason = "the driver of the cores has clocks and threads"
)]
pub mod net;
mod push;
mod reach;
pub mod record;
mod repair;
pub mod roster;
mod store;
mod watch;

pub use counters::Counters;
pub use key::{ClusterId, NodeKey, Sign, Signature, Verify};
pub use member::{Incarnation, MemberId};
pub use mesh::Mesh;
