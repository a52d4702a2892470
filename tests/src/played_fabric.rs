//! A port of InfiniBand that files play, for agents of tests.

use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};

/// Where tasks find the device files of the fabric.
const FILES: &str = "/dev/infiniband";
/// The major number of the kernel's files of InfiniBand.
const MAJOR: u64 = 231;
/// A minor number that no machine of ours has.
const MINOR: u64 = 200;

/// The device file that tasks with the fabric are given. It stays for as long as a port needs it.
#[derive(Debug)]
pub struct FabricFile {
    path: PathBuf,
}

impl FabricFile {
    /// Makes it. Nothing answers who opens it.
    ///
    /// # Errors
    /// When it is there already, or cannot be made.
    pub fn new() -> Result<Arc<Self>> {
        std::fs::create_dir_all(FILES)?;
        let path = Path::new(FILES).join(format!("uverbs{MINOR}"));
        let mode = Mode::from_bits_truncate(0o666);
        mknod(&path, SFlag::S_IFCHR, mode, makedev(MAJOR, MINOR))
            .with_context(|| path.display().to_string())?;
        Ok(Arc::new(Self { path }))
    }
}

impl Drop for FabricFile {
    fn drop(&mut self) {
        // A test that was killed leaves it; the next one tells its name. The directory stays if
        // the machine has files of its own there.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_dir(FILES);
    }
}

/// The port `mlx5_0/1` of one agent's machine, which is up at first. The agent has a mount
/// namespace of its own, in which the classes of the kernel's devices have one more.
#[derive(Debug)]
pub struct PlayedFabric {
    port: PathBuf,
    program: PathBuf,
    _file: Arc<FabricFile>,
}

impl PlayedFabric {
    /// Makes the port in a directory, for the agents of `muster` that [`PlayedFabric::program`]
    /// starts.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn new(directory: &Path, muster: &Path, file: Arc<FabricFile>) -> Result<Self> {
        let classes = directory.join("sys-class");
        copy_links(&classes)?;
        let port = classes.join("infiniband/mlx5_0/ports/1");
        std::fs::create_dir_all(&port)?;
        let program = directory.join("muster-with-fabric");
        let script = format!(
            "#!/bin/sh\nexec unshare --mount sh -c 'mount --bind {} /sys/class && exec \"$@\"' \
             sh {} \"$@\"\n",
            classes.display(),
            muster.display()
        );
        std::fs::write(&program, script)?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        let fabric = Self {
            port,
            program,
            _file: file,
        };
        std::fs::write(fabric.port.join("link_layer"), "InfiniBand\n")?;
        std::fs::write(fabric.port.join("rate"), "400 Gb/sec (4X NDR)\n")?;
        fabric.set("4: ACTIVE", "5: LinkUp")?;
        Ok(fabric)
    }

    /// What to start in place of `muster`.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The cable is pulled.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn pull(&self) -> Result<()> {
        Ok(self.set("1: DOWN", "3: Disabled")?)
    }

    fn set(&self, state: &str, physical: &str) -> io::Result<()> {
        for (name, text) in [("phys_state", physical), ("state", state)] {
            // In one step: a reader finds the old word or the new one.
            let new = self.port.join("new");
            std::fs::write(&new, format!("{text}\n"))?;
            std::fs::rename(&new, self.port.join(name))?;
        }
        Ok(())
    }
}

/// Makes the links of all classes of the kernel's devices anew: they are relative, and the copy is
/// mounted in their place. Files are left out: to read some of them makes a device.
fn copy_links(to: &Path) -> io::Result<()> {
    for class in std::fs::read_dir("/sys/class")? {
        let class = class?;
        let own = to.join(class.file_name());
        std::fs::create_dir_all(&own)?;
        for entry in std::fs::read_dir(class.path())? {
            let entry = entry?;
            if entry.file_type()?.is_symlink() {
                symlink(
                    std::fs::read_link(entry.path())?,
                    own.join(entry.file_name()),
                )?;
            }
        }
    }
    Ok(())
}
