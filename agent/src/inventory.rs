//! `muster node inventory`: reads this machine, or a file tree of another one, without an agent.

use std::path::PathBuf;
use std::process::ExitCode;

use muster_cli::InventoryArgs;
use muster_exec::inventory::{self, InventoryConfig};
use muster_model::inventory::Inventory;

/// Where NCCL is told its topology file, as images of virtual machines do.
const NCCL_TOPOLOGY: &str = "NCCL_TOPO_FILE";

/// Reads and prints; says how to exit.
pub fn main(arguments: &InventoryArgs) -> ExitCode {
    arguments.finish(read(arguments))
}

fn read(arguments: &InventoryArgs) -> Result<Inventory, String> {
    let default = InventoryConfig::default();
    let config = InventoryConfig {
        root: arguments.root.clone().unwrap_or(default.root),
        rules: arguments.rules.clone(),
        nccl_topology: std::env::var_os(NCCL_TOPOLOGY).map(PathBuf::from),
        ..InventoryConfig::default()
    };
    inventory::check_root(&config.root).map_err(|error| format!("--root {error}"))?;
    if let Some(rules) = config.rules.as_ref().filter(|rules| !rules.is_dir()) {
        let text = "is no directory; name one with files like gpu.toml";
        return Err(format!("--rules {} {text}", rules.display()));
    }
    Ok(inventory::read(&config))
}
