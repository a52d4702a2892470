//! Links between members over QUIC: one UDP port, both sides proven by their node key.
//!
//! A link is made when somebody has something to say and lives as long as it is used; the cores'
//! probes are its only keep-alive. Who is not on the list of members is held until the mesh has
//! judged its hello (its own admission), for a few seconds and for few at a time.
//!
//! - `gate`: who may try at all, before any cryptography. Pure.
//! - `queue`: what waits to be sent to one peer. Pure.
//! - `backoff`: when to dial again. Pure.
//! - `hello`: the first words of a connection. Pure.
//! - `table`: members by number and key; `peer`: one of them; `link`: one connection.
//! - `ordered`: the stream of a link that keeps frames in order.
//! - `request`: requests and answers, a QUIC stream for each; `stream`: bytes both ways, as long as is wanted.
//! - `accept`, `dial`, `hold`: the three ways of a connection to become a link, or not.
//! - `socket`: the port, which counts what is no packet at all; `runtime`: what it and the links'
//!   timers run on.
//!
//! "Connected" is not "admitted": a dialer sees a connection before the other side has judged it.

mod accept;
mod backoff;
mod config;
mod congestion;
mod dial;
mod event;
mod gate;
mod handle;
mod hello;
mod hold;
mod link;
mod ordered;
mod peer;
mod queue;
mod request;
mod runtime;
mod shared;
mod socket;
mod stream;
mod table;
mod tls;

pub use config::{MESSAGE_BYTES_MAX, QuicConfig};
pub use event::{Admitted, ConnectionRefusal, Lane, LinkView, NetEvent, QueueSlot};
pub(crate) use gate::{Gate, subnet};
pub use handle::{NetHandle, QuicError, bind, open, socket};
pub use request::{Delivery, IncomingRequest, RequestError, Responder};
pub use stream::{IncomingStream, MeshStream, StreamError};

#[cfg(test)]
mod tests;
