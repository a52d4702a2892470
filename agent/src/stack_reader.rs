//! `muster __read-stacks`: the program that reads the stacks of processes for the agent, so that what it meets in their
//! memory cannot harm the agent.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use muster_cli::ReadStacksArgs;
use muster_exec::stacks::{StackReader, StackReading, read_all};

/// The command that starts it.
const COMMAND: &str = "__read-stacks";
/// This very program, also where another release has taken its place on the disk.
const SELF: &str = "/proc/self/exe";

/// Has a process of this program read.
pub(crate) fn reader() -> StackReader {
    StackReader::new(PathBuf::from(SELF), &[COMMAND])
}

/// Reads and prints; says how to exit.
pub fn main(arguments: &ReadStacksArgs) -> ExitCode {
    let reading = StackReading {
        pids: arguments.pids.clone(),
        all_threads: arguments.all_threads,
        limit: Duration::from_millis(arguments.limit_ms),
    };
    match read_all(&reading, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
