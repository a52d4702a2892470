//! The vocabulary of Muster: ids, resources, the job protocol, states, exits and views.
//!
//! This crate does no IO and holds no logic beyond parsing and validating. Every other crate
//! speaks in these types, so two crates that never import each other still mean the same thing.
//!
//! Start with [`id`], then [`protocol`] (what a user submits), [`launch`] (what a node is told
//! to run) and [`view`] (what a user is shown).

pub mod aftermath;
pub mod alarm;
pub mod cluster_spec;
pub mod diagnosis;
mod document_text;
pub mod exit;
pub mod explanation;
pub mod finding;
pub mod forecast;
pub mod health;
pub mod id;
pub mod image;
pub mod image_name;
pub mod inventory;
pub mod job;
pub mod job_order;
pub mod job_query;
pub mod known_node;
pub mod launch;
pub mod login;
pub mod mesh;
pub mod metric;
pub mod node;
pub mod people;
pub mod policy;
pub mod protocol;
pub mod pull;
pub mod remark;
pub mod row;
pub mod rule_test;
pub mod secret;
pub mod session;
pub mod sight;
pub mod ssh;
pub mod stacks;
pub mod state;
pub mod storage;
pub mod storage_file;
pub mod task_use;
pub mod time;
pub mod topology;
pub mod usage;
pub mod user_token;
pub mod vc;
pub mod vc_cells;
pub mod view;
