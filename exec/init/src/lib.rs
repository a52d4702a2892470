//! muster-init: the first process of every container, and the logger process beside it.
//!
//! The binary has two modes, [`container::run`] (PID 1) and [`logger::run`] (started by the
//! container engine on the host). The library is what the agent shares with them: the
//! [`message`]s of the two sockets, the [`exit_report`] and the layout of a [`task_dir`].
//!
//! It needs nothing from the image: no files, no libraries, no name resolution. All messages
//! live as long as a task does, so a later agent must understand every released form of them;
//! a changed message is a new kind.
//!
//! Start with [`message`].

pub mod connection;
pub mod container;
pub mod exit_report;
pub mod frame;
pub mod logger;
pub mod message;
pub mod task_dir;
mod wall_clock;
