//! `muster`: the agent of a machine and the command line of the cluster, in one program.

use std::process::ExitCode;

use muster_agent::{diagnose, inventory, service, stack_reader};
use muster_cli::{Command, NodeCommand};

/// Set in `.cargo/config.toml`.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = muster_cli::parse();
    match &cli.command {
        Command::Agent(arguments) => service::main(arguments),
        Command::ReadStacks(arguments) => stack_reader::main(arguments),
        // The command line may not read the machine; see the star of imports.
        Command::Node(NodeCommand::Inventory(arguments)) => inventory::main(arguments),
        Command::Node(NodeCommand::Topology(arguments)) => inventory::topology(arguments),
        Command::Node(NodeCommand::Diagnose(_)) => diagnose::main(cli),
        _ => muster_cli::main(cli),
    }
}
