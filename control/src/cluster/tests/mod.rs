//! The cluster's state machine, entry by entry.

mod activation;
mod binding;
mod births;
mod documents;
mod joining;
mod members;
mod records;
mod recovery;
mod scheduling;
mod succession;
mod tokens;
mod users;
mod world;
