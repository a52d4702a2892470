//! `pack` and `unpack`: copies of files between a task's container and a person's machine.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Writes a file or a directory to stdout.
pub fn pack(path: &OsString) -> ExitCode {
    told(muster_tree::pack(Path::new(path), io::stdout().lock()))
}

/// Reads such a stream from stdin.
pub fn unpack(path: &OsString) -> ExitCode {
    told(muster_tree::unpack(io::stdin().lock(), Path::new(path)))
}

fn told(result: Result<(), muster_tree::TreeError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
