//! The cluster's state machine, entry by entry.

mod activation;
mod binding;
mod creations;
mod documents;
mod joining;
mod members;
mod people;
mod records;
mod recovery;
mod replacement;
mod scheduling;
mod tokens;
mod user_tokens;
mod users;
mod world;
