//! Questions over TCP (libp2p: Noise, yamux, request-response): what a stranger with a token asks
//! any member, and the echo by which members try the way to each other.
//!
//! What the bytes mean is none of this module's business: see [`crate::join`]. A stranger can
//! only ever speak [`Protocol::Join`], in few connections, few at a time from one address, and in
//! few bytes; to it the other protocol does not exist.

mod config;
mod doorman;
mod found;
mod gated;
mod letter;
mod office;
mod protocol;
mod questions;
#[cfg(test)]
mod tests;

pub use config::Config;
pub use protocol::Protocol;
pub use questions::{AskError, Error, Inbound, Questions, Responder, To, bind};
