//! `muster node inventory` as users type it: no agent runs.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use muster_tests::home::muster;
use serde_json::Value;

const CAPTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../exec/tests/captures");

fn inventory(root: &Path, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(muster()?);
    command.args(["node", "inventory", "--root"]).arg(root);
    Ok(command.args(arguments).output()?)
}

/// A captured machine, below a directory of its own.
fn unpack(archive: &str) -> Result<tempfile::TempDir> {
    let dir = tempfile::tempdir()?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(Path::new(CAPTURES).join(archive));
    let status = tar.arg("-C").arg(dir.path()).status()?;
    ensure!(status.success(), "{archive} cannot be unpacked");
    Ok(dir)
}

#[test]
fn the_inventory_of_a_tree_is_printed_for_programs_and_for_people() -> Result<()> {
    let dgx = unpack("nvidia-dgx2-16xV100/sysfs-derived.tar.xz")?;
    let json = inventory(dgx.path(), &["-o", "json"])?;
    ensure!(json.status.success(), "{json:?}");
    let found: Value = serde_json::from_slice(&json.stdout)?;
    let devices = found["devices"].as_array().context("devices")?;
    ensure!(devices.len() == 16, "{found:#}");
    let first = &devices[0];
    ensure!(
        first["kind"] == "gpu" && first["vendor"] == "nvidia",
        "{first:#}"
    );
    ensure!(
        first["pci"] == "0000:34:00.0" && first["numa"] == 0,
        "{first:#}"
    );
    let people = inventory(dgx.path(), &[])?;
    let text = String::from_utf8(people.stdout)?;
    ensure!(
        text.contains("\n  pcie    {0-3} {4-7} {8-11} {12-15}\n"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_directory_without_a_machine_is_a_mistake_of_its_user() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let empty = inventory(dir.path(), &[])?;
    let error = String::from_utf8(empty.stderr)?;
    ensure!(empty.status.code() == Some(2), "{error}");
    ensure!(error.contains("has neither proc nor sys"), "{error}");
    let missing = inventory(&dir.path().join("no"), &["-o", "json"])?;
    ensure!(missing.status.code() == Some(2), "{missing:?}");
    ensure!(missing.stdout.is_empty(), "{missing:?}");
    Ok(())
}
