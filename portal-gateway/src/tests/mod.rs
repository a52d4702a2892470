//! The gateway over a fake cluster: every request goes through the real filter, and those of
//! `serving`, `crowd` and `secure` through real listeners.

mod asking;
mod attacks;
mod backchannel;
mod conditional;
mod conformance;
mod crowd;
mod described;
mod device;
mod files;
mod groups;
mod jobs;
mod listing;
mod mesh;
mod oidc;
mod openapi;
mod own;
mod pages;
mod pages_cluster;
mod pages_job;
mod pages_jobs;
mod pages_log;
mod pages_submit;
mod people_safety;
mod portal;
mod rules;
mod samples;
mod secure;
mod serving;
mod setup;
mod sight;
mod storages;
mod tokens;
mod usage;
mod users;
