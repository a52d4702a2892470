//! Which boot of the machine this is, and when it was.

use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
const STAT: &str = "proc/stat";

/// A boot of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// The kernel's random name of it.
    pub id: String,
    /// When it was, milliseconds since the epoch. The kernel tells whole seconds.
    pub at_ms: u64,
}

/// Why the boot is not known.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// A file cannot be read.
    #[error("the boot is not known: {file} cannot be read; mount proc")]
    Unreadable {
        /// The file, below the root.
        file: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel's figures have no time of the boot.
    #[error("the boot is not known: {STAT} has no number after `btime`")]
    NoTime,
}

impl Boot {
    /// The present boot of the machine whose file tree is at `root`.
    ///
    /// # Errors
    /// When the kernel's files cannot be read.
    pub fn read(root: &Path) -> Result<Self, BootError> {
        let text = |file: &'static str| {
            fs::read_to_string(root.join(file))
                .map_err(|source| BootError::Unreadable { file, source })
        };
        let id = text(BOOT_ID)?.trim().to_owned();
        let stat = text(STAT)?;
        let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "));
        let seconds: Option<u64> = seconds.and_then(|text| text.trim().parse().ok());
        let at_ms = seconds.ok_or(BootError::NoTime)?.saturating_mul(1000);
        Ok(Self { id, at_ms })
    }
}
