//! The static binary; see the library for what it does.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use muster_init::task_dir::CONTAINER_CTL;
use muster_init::{container, enter, logger, storage, tree};

const USAGE: &str = "usage: muster-init [run CTL_DIR]   as PID 1 of a container
       muster-init log-dir LOG_DIR  as its logger, with its output on fd 3 and 4
       muster-init enter [COMMAND [ARGUMENT...]]  as a command beside the task's own
       muster-init pack PATH | unpack PATH  writes a tree of files to stdout, or reads one from stdin
       muster-init storage          as the helper that mounts storages, with a request on stdin
       muster-init storage-files    as the helper that reads and writes their files, with frames on stdin";

/// What `main` returns when it was called wrongly.
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    match args.as_slice() {
        [] => container::run(Path::new(CONTAINER_CTL)),
        [mode, ctl] if mode == "run" => container::run(Path::new(ctl)),
        [mode, dir] if mode == "log-dir" => logger::run(Path::new(dir)),
        [mode, command @ ..] if mode == "enter" => enter::run(command),
        [mode] if mode == container::KEEP => container::keep(),
        [mode, path] if mode == "pack" => tree::pack(path),
        [mode, path] if mode == "unpack" => tree::unpack(path),
        [mode] if mode == "storage" => storage::run(),
        [mode] if mode == "storage-files" => storage::files::run(),
        [mode] if mode == "--version" => {
            println!("muster-init {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}
