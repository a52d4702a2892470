//! The gateway over a fake cluster: every request goes through the real filter, and those of
//! `serving` through real listeners.

mod files;
mod jobs;
mod listing;
mod mesh;
mod own;
mod rules;
mod samples;
mod serving;
mod setup;
