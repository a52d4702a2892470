//! The gateway over a fake cluster: every request goes through the real filter, and those of
//! `serving` and `crowd` through real listeners.

mod crowd;
mod files;
mod jobs;
mod listing;
mod mesh;
mod own;
mod rules;
mod samples;
mod serving;
mod setup;
