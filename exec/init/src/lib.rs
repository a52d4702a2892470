//! muster-init: the first process of every container, the logger process beside it, what starts a person's commands
//! in it, and the helper that mounts storages.
//!
//! The binary has five modes: [`container::run`] (PID 1), [`logger::run`] (started by the
//! container engine on the host), [`enter::run`] (started by the engine in the container), [`storage::run`] and
//! [`storage::files::run`] (started by the agent). The library is what the agent shares
//! with them: the [`message`]s of the two sockets, the [`exit_report`], the layout of a [`task_dir`] and the
//! requests to the helper.
//!
//! It needs nothing from the image: no files, no libraries, no name resolution. All messages
//! live as long as a task does, so a later agent must understand every released form of them;
//! a changed message is a new kind.
//!
//! Start with [`message`].

pub mod connection;
pub mod container;
pub mod enter;
pub mod exit_report;
pub mod frame;
pub mod logger;
pub mod message;
pub mod storage;
pub mod task_dir;
pub mod tree;
mod wall_clock;
