//! `muster`: the agent of a machine and the command line of the cluster, in one program.

use std::process::ExitCode;

use muster_agent::cli::{self, Command};
use muster_agent::service;

/// Set in `.cargo/config.toml`.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = cli::parse();
    match &cli.command {
        Command::Agent(arguments) => service::main(arguments),
        _ => cli::main(cli),
    }
}
