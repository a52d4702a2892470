//! Sessions in a task: what is typed here goes there, and what it writes comes back.

mod command;
mod connection;
mod raw_terminal;
mod task_argument;

pub(crate) use command::{CommandStreams, attend};
pub(crate) use connection::pass_on;
pub(crate) use raw_terminal::{RawTerminal, size};
pub(crate) use task_argument::{TaskArgument, TaskRef, TaskTarget};
