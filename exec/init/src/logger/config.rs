//! What the agent tells a logger before it starts.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Settings of one task's logger, kept as JSON beside its log directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoggerConfig {
    /// Size of one log file in bytes. Two of each are kept: a task's logs take at most eight
    /// times this. At least 1.
    pub bytes_max: u64,
}

impl Default for LoggerConfig {
    fn default() -> Self {
        Self {
            bytes_max: 64 << 20,
        }
    }
}

impl LoggerConfig {
    /// Writes it for a logger that is started afterwards.
    pub fn store(&self, path: &Path) -> io::Result<()> {
        fs::write(path, serde_json::to_vec(self)?)
    }

    /// Reads it; a logger without readable settings logs all the same.
    pub(crate) fn load(path: &Path) -> Self {
        fs::read(path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }
}
