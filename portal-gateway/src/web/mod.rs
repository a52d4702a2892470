//! The portal: pages for people, written by the server and complete without a script.
//!
//! A page is a function of what the ports answer. It reads and changes nothing that the REST API does not. The
//! session of a browser is its token in a cookie (`session`); forms carry a key of that session (`form`).

pub(crate) mod account;
pub(crate) mod asset;
mod chip;
pub(crate) mod cluster_page;
mod difference;
pub(crate) mod document_page;
mod explained;
pub(crate) mod failure;
mod forecast;
pub(crate) mod form;
mod frame;
mod image_names;
pub(crate) mod job_change;
pub(crate) mod job_export;
mod job_form;
pub(crate) mod job_list;
pub(crate) mod job_page;
mod links;
pub(crate) mod log_stream;
pub(crate) mod login;
mod moment;
mod node_health;
pub(crate) mod node_list;
pub(crate) mod node_page;
mod notice;
mod origin;
pub(crate) mod overview;
pub(crate) mod people;
mod placement;
mod plot;
pub(crate) mod plugin;
pub(crate) mod proxy;
mod rollout;
pub(crate) mod rule_try;
pub(crate) mod session;
pub(crate) mod stacks_page;
pub(crate) mod submit;
pub(crate) mod task_log;
mod template;
mod terminal;
pub(crate) mod terminal_page;
mod time_line;
pub(crate) mod use_page;
mod vc_cells;
pub(crate) mod vc_page;
