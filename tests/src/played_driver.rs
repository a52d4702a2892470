//! A GPU driver that a text file plays, for agents of tests.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use crate::agent::Agent;
use crate::home::{self, AgentHome};

/// The major number of NVIDIA's driver.
const MAJOR: u64 = 195;

/// The driver of this machine for the agents that a test starts. The keys of its text are in
/// `exec/src/testing/nvml/mod.rs`.
#[derive(Debug)]
pub struct PlayedDriver {
    directory: PathBuf,
    /// Device files that were made for it.
    files: Vec<PathBuf>,
}

impl PlayedDriver {
    /// Builds the driver's library in a directory.
    ///
    /// # Errors
    /// When there is no C compiler.
    pub fn new(directory: &Path) -> Result<Self> {
        let source = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../exec/src/testing/nvml/fake_nvml.c"
        );
        let library = directory.join("libnvidia-ml.so.1");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", source, "-o"])
            .arg(&library);
        ensure!(compiler.status().context("cc")?.success());
        Ok(Self {
            directory: directory.to_owned(),
            files: Vec::new(),
        })
    }

    /// Changes all answers in one step.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn answer(&self, text: &str) -> Result<()> {
        let new = self.directory.join("new");
        std::fs::write(&new, text)?;
        std::fs::rename(&new, self.directory.join("libnvidia-ml.so.1.txt"))?;
        Ok(())
    }

    /// Makes the device files of GPUs with these minor numbers, for the driver's life. No driver
    /// answers an open of one. A test that was killed leaves its files; they are taken over.
    ///
    /// # Errors
    /// When another file has the name, or the device file cannot be made.
    pub fn make_files(&mut self, minors: impl IntoIterator<Item = u64>) -> Result<()> {
        for minor in minors {
            let path = PathBuf::from(format!("/dev/nvidia{minor}"));
            let mode = Mode::from_bits_truncate(0o666);
            let device = makedev(MAJOR, minor);
            let is_there = path.metadata().is_ok_and(|file| file.rdev() == device);
            if !is_there {
                mknod(&path, SFlag::S_IFCHR, mode, device)
                    .with_context(|| path.display().to_string())?;
            }
            self.files.push(path);
        }
        Ok(())
    }

    /// An agent for which the loader finds this driver.
    ///
    /// # Errors
    /// When it does not start.
    pub fn agent(&self, home: &AgentHome) -> Result<Agent> {
        let environment = [("LD_LIBRARY_PATH", self.directory.clone())];
        Agent::start_with(&home::muster()?, home.path(), home.url(), &environment)
    }
}

impl Drop for PlayedDriver {
    fn drop(&mut self) {
        for path in &self.files {
            if path.symlink_metadata().is_ok_and(|file| file.rdev() != 0) {
                // One that stays is taken over by the next driver.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}
