//! The agent: configuration, wiring, and one tokio task per file in `loops`.
//!
//! Every other crate is told what to do; this one reads the configuration, asks the clock and
//! performs what the cores put out. Start with [`service`].

mod accounts;
mod admitted;
mod alarms;
mod causes;
mod certificate;
mod checked_tokens;
mod clock;
mod cluster;
mod cluster_service;
pub mod config;
mod database;
mod description;
mod doctor;
mod documents;
mod executor;
mod first_admin;
mod groups;
mod hardware;
mod health;
mod home_lock;
mod identity;
mod identity_provider;
mod images;
mod init_binary;
pub mod inventory;
mod key_file;
mod keyring;
mod known_faults;
mod ledger_store;
mod loops;
mod lost_log;
mod low_priority;
mod mesh;
mod mesh_file;
mod node_status;
mod password_hash;
mod passwords;
mod paths;
mod port;
mod pulls;
mod requests;
mod seal;
pub mod service;
mod sockets;
mod systemd;
mod task_uses;
mod thread;
mod token_uses;
mod vc;
pub mod visibility;
mod waits;
