//! `muster node inventory` and `topology`: reads this machine, or a file tree of another one, without an agent.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use muster_cli::{InventoryArgs, TopologyArgs};
use muster_exec::inventory::{self, InventoryConfig};
use muster_model::inventory::Inventory;

/// Where NCCL is told its topology file, as images of virtual machines do.
const NCCL_TOPOLOGY: &str = "NCCL_TOPO_FILE";

/// Reads and prints; says how to exit.
pub fn main(arguments: &InventoryArgs) -> ExitCode {
    arguments.finish(read(arguments))
}

/// Where NCCL's topology file is, if the environment tells.
pub(crate) fn nccl_topology() -> Option<PathBuf> {
    std::env::var_os(NCCL_TOPOLOGY).map(PathBuf::from)
}

/// Reads and prints how devices are connected; says how to exit.
pub fn topology(arguments: &TopologyArgs) -> ExitCode {
    let read = || {
        let config = InventoryConfig {
            nccl_topology: nccl_topology(),
            ..config_of(arguments.root.as_deref())?
        };
        let found = inventory::read(&config);
        let topology = inventory::topology(&config.root, &found);
        Ok((found, topology))
    };
    arguments.finish(read())
}

/// How to look at a machine, by its root.
fn config_of(root: Option<&Path>) -> Result<InventoryConfig, String> {
    let mut config = InventoryConfig::default();
    if let Some(root) = root {
        root.clone_into(&mut config.root);
    }
    inventory::check_root(&config.root).map_err(|error| format!("--root {error}"))?;
    Ok(config)
}

fn read(arguments: &InventoryArgs) -> Result<Inventory, String> {
    let config = InventoryConfig {
        rules: arguments.rules.clone(),
        nccl_topology: nccl_topology(),
        ..config_of(arguments.root.as_deref())?
    };
    if let Some(rules) = config.rules.as_ref().filter(|rules| !rules.is_dir()) {
        let text = "is no directory; name one with files like gpu.toml";
        return Err(format!("--rules {} {text}", rules.display()));
    }
    Ok(inventory::read(&config))
}
