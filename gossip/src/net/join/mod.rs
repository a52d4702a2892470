//! Questions over TCP (libp2p: Noise, yamux, request-response): what a stranger with a token asks
//! any member, and the echo by which members try the way to each other.
//!
//! What the bytes mean is none of this module's business: see [`crate::join`]. A stranger can
//! only ever speak [`QuestionProtocol::Join`], in few connections, few at a time from one address, and in
//! few bytes; to it the other protocol does not exist.

mod config;
mod connection_limits;
mod endpoint;
mod found;
mod gated;
mod letter;
mod protocol;
mod questions;
#[cfg(test)]
mod tests;

pub use config::JoinNetConfig;
pub use protocol::QuestionProtocol;
pub use questions::{AskError, Inbound, ListenError, QuestionResponder, Questions, To, bind};
