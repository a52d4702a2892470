//! OpenPAI job protocol v2: from the YAML a user submits to a [`JobSpec`](crate::job::JobSpec).
//!
//! [`parse`] judges what upstream's rest-server judges, and tells everything that is wrong at
//! once: the YAML text (`yaml`), its shape (`schema`, `rules`), then the references inside it
//! (`references`). A [`CheckedJob`] that came out of it renders its commands (`template`), turns
//! into a [`JobSpec`](crate::job::JobSpec) (`spec`, `plugins`, `storages`) and gives up its secrets
//! ([`Secrets`]).
//!
//! A form that shows a few of its fields reads them from the text, and changes them there ([`JobForm`]).
//!
//! What needs the cluster is not judged here: which SKUs and virtual clusters exist, quotas,
//! and who may submit where. What is accepted and not carried out is told by the warnings of the
//! [`JobSpec`](crate::job::JobSpec) (`warnings`).
//!
//! Where this differs from upstream on purpose:
//! - broken YAML and unclosed `<%` are problems of the job, not server errors;
//! - negative or absurd numbers are refused, and so are more than [`TASKS_MAX`] tasks;
//! - the priority class `crit` is accepted;
//! - a malformed `cmd` plugin is refused at once instead of failing on the node;
//! - `1:30` and `2024-01-31` stay text, integers beyond 2^53 stay exact;
//! - a reference to a parameter, secret or prerequisite that is not there is refused, where upstream
//!   hands the reference itself to the shell;
//! - numbers go into commands as they are written: `3.10` and `1e3`, where upstream makes 3.1 and 1000;
//! - secrets are put in as they are, without HTML escaping;
//! - `extras.muster` is read, and judged like the rest;
//! - a gang lies in one pinned cell at most.

mod advice;
mod document;
mod document_yaml;
mod form;
mod js_text;
mod muster;
mod nearest;
mod parse;
mod plugins;
mod problem;
mod references;
mod rules;
mod schema;
mod secrets;
mod spec;
mod ssh;
mod storages;
mod template;
mod tools;
mod undefined;
mod verdict;
mod warnings;
mod written;
mod yaml;
mod yaml_edit;

#[cfg(test)]
mod tests;

pub use document_yaml::document_yaml;
pub use form::{EditedJob, JobForm, RoleForm};
pub use muster::RUN_S_MAX;
pub use parse::{CheckedJob, parse, text_of};
pub use problem::{JobProblem, ProblemAdvice, remarks, upstream_message};
pub use rules::{CPU_MAX, GPU_MAX, MEMORY_MB_MAX, PLUGINS_MAX, PORTS_PER_LABEL_MAX, TASKS_MAX};
pub use secrets::{MASK, Secrets};
pub use spec::{CPU_LEAST, MEMORY_MB_LEAST};
pub use storages::{JOB_STORAGES_MAX, NamedStorage, beside};
pub use template::RENDERED_BYTES_MAX;
pub use verdict::{JobValidation, verdict};
pub use warnings::WARNINGS_MAX;
pub use yaml::TEXT_BYTES_MAX;
pub(crate) use yaml::read as read_yaml;
pub(crate) use yaml_edit::{ValueStep, written as write_yaml};
