//! Compiles the system call filter that muster-init puts on itself, once for all launches.
//!
//! A container runtime would compile it anew for every container: 10 to 30 ms each time.

mod profile;

use std::env;
use std::error::Error;
use std::fs::File;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build");
    let architecture = env::var("CARGO_CFG_TARGET_ARCH")?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    for (name, raw_sockets) in [("syscalls.bpf", false), ("syscalls-raw.bpf", true)] {
        let filter = profile::filter(&architecture, raw_sockets)?.ok_or_else(|| {
            format!("build/profile.rs has no system call profile for {architecture}; add one there")
        })?;
        filter.export_bpf(File::create(out.join(name))?)?;
    }
    Ok(())
}
