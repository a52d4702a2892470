//! The cluster's state machine, entry by entry.

mod activation;
mod documents;
mod joining;
mod members;
mod records;
mod tokens;
mod users;
mod world;
