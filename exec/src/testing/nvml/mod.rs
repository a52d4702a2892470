//! A driver of NVIDIA's that answers as a text file says, for machines without one.
//!
//! The file has lines `KEY = VALUE`; other lines are comments, and the last line of a key counts.
//! What is written to it holds from the next call on, so a test changes the machine by writing it.
//!
//! | key | value |
//! |---|---|
//! | `devices` | how many GPUs; without it no driver is loaded |
//! | `driver` | its version |
//! | `gpu.N.uuid`, `.name`, `.minor`, `.memory` (MiB), `.pci` | of the GPU with index N; a call whose line is missing is not supported |
//! | `gpu.N.mig` | 1 in MIG mode, 0 if the GPU has the mode; without it the GPU does not |
//! | `gpu.N.mig.S.uuid`, `.name`, `.memory`, `.gi`, `.ci` | of the instance in slot S, 0 to 6 |
//! | `gpu.N.utilization` | percent of the GPU and of its memory: `97 40` |
//! | `gpu.N.memory.used`, `.memory.reserved` | MiB; of instances too |
//! | `gpu.N.temperature`, `.temperature.slowdown`, `.temperature.shutdown` | degrees Celsius |
//! | `gpu.N.power`, `.power.limit`, `.energy` | mW, mW, mJ |
//! | `gpu.N.clock.sm`, `.clock.memory`, `.pstate`, `.throttle`, `.encoder`, `.decoder` | MHz, MHz, state, bits, percent, percent |
//! | `gpu.N.ecc.corrected`, `.ecc.uncorrected`, and the same with `.ever` | errors since the driver was loaded, and in the GPU's life |
//! | `gpu.N.remapped` | rows that were correctable and uncorrectable, 1 if pending, 1 if failed: `0 1 1 0` |
//! | `gpu.N.replay`, `.pcie.gen`, `.pcie.width`, and the two with `.max` | of the connection to the machine |
//! | `gpu.N.field.ID` | the value of a field by its number, as 82 for the temperature of the memory |
//! | `gpu.N.processes`, `.processes.graphics` | `PID:MIB PID:MIB`; `PID:-` for memory that is not known |
//! | `gpu.N.gpm` | 1 if the GPU has counters of activity |
//! | `gpu.N.gpm.ID` | such a metric by its number, in the driver's unit: `gpu.0.gpm.2 = 45.5` |
//! | `gpu.N.nvlink` | indices of the GPUs that NVLink links, with spaces between |
//! | `gpu.N.links` | how many links it has |
//! | `gpu.N.link.L` | what is at the other end of link L: address, and PCI numbers in hex as `1af110de`; without it the link is down |
//! | `error.CALL`, `error.CALL.N` | the number that a call returns, for all or for GPU N: `error.nvmlDeviceGetName.2 = 15` |
//! | `hang.CALL`, `hang.CALL.N` | milliseconds that a call takes |
//! | `held.CALL`, `held.CALL.N` | 1: the call does not come back until the line is gone |
//! | `calls` | a file to which every call is written with its GPU, -1 for none: `nvmlInit_v2 -1` |
//! | `absent` | calls that the library does not have, with spaces between; read when it is built |

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("fake_nvml.c");
const NAME: &str = "libnvidia-ml.so.1";

/// The library, with its file beside it.
#[derive(Clone, Debug)]
pub struct FakeNvml {
    library: PathBuf,
}

impl FakeNvml {
    /// Builds the library in a directory, with the answers of `text`. Every machine that builds
    /// this project has a C compiler, because its cryptography needs one.
    ///
    /// # Errors
    /// When it cannot be built or written.
    pub fn new(dir: &Path, text: &str) -> io::Result<Self> {
        let fake = Self {
            library: dir.join(NAME),
        };
        fake.answer(text)?;
        let source = dir.join("fake_nvml.c");
        std::fs::write(&source, SOURCE)?;
        let absent = text
            .lines()
            .filter_map(|line| line.strip_prefix("absent = "));
        let renamed = absent
            .flat_map(str::split_whitespace)
            .map(|call| format!("-D{call}=absent_{call}"));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]);
        compiler
            .args(renamed)
            .arg("-o")
            .args([&fake.library, &source]);
        match compiler.status()?.success() {
            true => Ok(fake),
            false => Err(io::Error::other("the fake driver library does not build")),
        }
    }

    /// Changes all answers.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn answer(&self, text: &str) -> io::Result<()> {
        // In one step, so that no call sees half of it.
        let mut file = self.library.clone().into_os_string();
        file.push(".txt");
        let mut new = file.clone();
        new.push(".new");
        std::fs::write(&new, text)?;
        std::fs::rename(&new, &file)
    }

    /// Where the library is.
    pub fn library(&self) -> &Path {
        &self.library
    }
}
