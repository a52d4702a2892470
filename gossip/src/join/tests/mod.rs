//! Joining, refused and done, without network.

mod joining;
mod limits;
mod refused;
mod token;
mod tricks;
mod wire;
mod world;
