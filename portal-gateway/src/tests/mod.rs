//! The gateway over a fake cluster: every request goes through the real filter, and those of
//! `serving`, `crowd` and `secure` through real listeners.

mod conformance;
mod crowd;
mod files;
mod jobs;
mod listing;
mod mesh;
mod own;
mod rules;
mod samples;
mod secure;
mod serving;
mod setup;
