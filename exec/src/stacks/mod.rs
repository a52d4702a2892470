//! What processes of this machine do at one moment: their Python stacks, and where the kernel has them wait.
//!
//! The memory of another process may be anything, and its files may lie on a server that does not answer. So a
//! program of its own reads them, this one under another command ([`read_all`]), with limits on its memory and time;
//! the agent has it killed when its time is up, and keeps what it said until then ([`StackReader`]). Nothing is
//! stopped to be read: a debugger that dies at the wrong moment would leave a job stopped for ever. The price is that
//! the stack of a program that runs may be torn; it is read once more then.

mod child;
mod proc_file;
mod python;
mod reader;

#[cfg(test)]
mod tests;

use std::time::Duration;

use muster_model::stacks::ProcessStack;
use serde::{Deserialize, Serialize};

pub use child::read_all;
pub use reader::{ReadStacks, StackReader};

/// What is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackReading {
    /// Of which processes, by their numbers on this machine.
    pub pids: Vec<u32>,
    /// All threads are to be told; else the main one and those of Python.
    pub all_threads: bool,
    /// How long it may take.
    pub limit: Duration,
}

/// A line of what the program says that reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ReadLine {
    /// Whether that is all; else what took no time, and more may follow.
    is_done: bool,
    process: ProcessStack,
}

/// A text, cut.
fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(muster_model::stacks::TEXT_BYTES_MAX);
    text[..end].to_owned()
}
