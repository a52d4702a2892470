//! `muster node diagnose`: tests this machine, which the agent says is free.

use std::path::PathBuf;
use std::process::ExitCode;

use muster_cli::Cli;
use muster_exec::diagnose::{DiagnoseConfig, diagnose};
use muster_exec::inventory::{self, InventoryConfig};

use crate::inventory::nccl_topology;

/// Tests and prints; says how to exit.
pub fn main(cli: Cli) -> ExitCode {
    muster_cli::diagnose(cli, |limit, begins| {
        let config = InventoryConfig {
            nccl_topology: nccl_topology(),
            ..InventoryConfig::default()
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let how = DiagnoseConfig {
            root: PathBuf::from("/"),
            path: std::env::split_paths(&path).collect(),
            limit,
        };
        diagnose(&how, &inventory::read(&config), begins)
    })
}
