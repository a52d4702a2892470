//! The driver: cores on real sockets. Nothing here decides; who is a member and who is alive is
//! the cores' business.
//!
//! - [`quic`]: one UDP port for all frames between members. A connection is made when somebody
//!   has something to say, and proves both keys.
//! - [`join`]: one TCP port for questions: of strangers that want to join, and of members to the
//!   node that orders the entries of the cluster group.
//! - [`driver`]: the task that owns a [`Mesh`](crate::Mesh) and feeds it.
//!
//! What comes in is counted when it is thrown away ([`NetCounters`]); every queue and table here
//! has a bound with a name.

mod clock;
mod counters;
pub mod driver;
pub mod join;
pub mod keys;
pub mod quic;

pub use clock::MonotonicClock;
pub use counters::NetCounters;
