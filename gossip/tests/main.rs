//! What the crate promises those who only see its bytes.
#![allow(clippy::unwrap_used)]

mod codec;
mod documents;
mod fuzz;
mod samples;
