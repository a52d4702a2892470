//! `muster`: the agent of a machine and the command line of the cluster, in one program.

use std::process::ExitCode;

use muster_agent::service;
use muster_cli::Command;

/// Set in `.cargo/config.toml`.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = muster_cli::parse();
    match &cli.command {
        Command::Agent(arguments) => service::main(arguments),
        _ => muster_cli::main(cli),
    }
}
