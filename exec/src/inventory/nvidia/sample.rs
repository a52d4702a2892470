//! What one reading of a GPU gave.

use super::ask::NvidiaGpu;
use super::look::{NvidiaError, SilentGpu};

/// The GPUs at one time.
#[derive(Debug, Default)]
pub struct GpuRound {
    /// Those that were read, by index.
    pub gpus: Vec<GpuSample>,
    /// Those that the driver counts and does not answer for.
    pub silent: Vec<SilentGpu>,
    /// That the driver hangs: the GPUs after the last one read are not known.
    pub hangs: Option<NvidiaError>,
}

/// One reading of a GPU. A figure that the driver or the GPU does not have is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuSample {
    /// Which GPU it is.
    pub identity: GpuIdentity,
    /// Percent of the driver's last window in which a kernel ran.
    pub utilization: Option<u32>,
    /// Percent of that window in which the GPU's memory was read or written.
    pub memory_utilization: Option<u32>,
    /// Percent of time that the video encoder was busy.
    pub encoder_utilization: Option<u32>,
    /// Percent of time that the video decoder was busy.
    pub decoder_utilization: Option<u32>,
    /// Memory of the GPU.
    pub memory: Option<GpuMemory>,
    /// Temperatures.
    pub temperature: GpuTemperature,
    /// Power and energy.
    pub power: GpuPower,
    /// Clock of the processors, MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Performance state, 0 the fastest to 15.
    pub performance_state: Option<u32>,
    /// Why the clocks are not at their highest, as the driver's bits.
    pub throttle_reasons: Option<u64>,
    /// Memory errors.
    pub ecc: GpuEcc,
    /// Rows of memory that were replaced. GPUs of Ampere and later.
    pub remapped_rows: Option<RemappedRows>,
    /// Pages of memory that are not used any more. GPUs before Ampere.
    pub retired_pages: RetiredPages,
    /// The connection to the machine.
    pub pcie: GpuPcie,
    /// The connections to other GPUs.
    pub nvlink: GpuNvlink,
    /// What the driver wants done to get the GPU well again: 0 nothing, 1 reset it, 2 restart the machine,
    /// 3 drain its peers, 4 drain and reset it, 5 recover the IMEX domain.
    pub recovery_action: Option<u32>,
    /// Processes with memory on the GPU. None where the driver tells none, as those before 510.
    pub processes: Option<Vec<GpuProcess>>,
    /// Activity by the GPU's own counters. Hopper and later, from the second reading on.
    pub activity: Option<GpuActivity>,
    /// Instances in MIG mode; none if it is not in that mode.
    pub instances: Option<Vec<MigSample>>,
}

/// Which GPU a sample is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuIdentity {
    /// The driver's number.
    pub index: u32,
    /// The driver's lasting name, `GPU-...`.
    pub uuid: String,
    /// Of its file `/dev/nvidia0` 0. It need not be the index.
    pub minor: u32,
    /// As the driver names it.
    pub model: String,
    /// Its address on the bus, as the kernel writes it. None if the driver does not tell it.
    pub pci: Option<String>,
}

impl From<&NvidiaGpu> for GpuIdentity {
    fn from(gpu: &NvidiaGpu) -> Self {
        Self {
            index: gpu.index,
            uuid: gpu.uuid.clone(),
            minor: gpu.minor,
            model: gpu.model.clone(),
            pci: gpu.pci.clone(),
        }
    }
}

/// Memory of a GPU or of an instance, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuMemory {
    /// All of it.
    pub total: u64,
    /// Allocated by processes.
    pub used: u64,
    /// Not allocated.
    pub free: u64,
    /// Kept by the driver for itself. None if an old driver counts it as used.
    pub reserved: Option<u64>,
}

/// Temperatures of a GPU, degrees Celsius.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuTemperature {
    /// Of the processors now.
    pub gpu: Option<u32>,
    /// Of the memory now.
    pub memory: Option<u32>,
    /// At which the clocks are lowered.
    pub slowdown: Option<u32>,
    /// At which the GPU turns itself off.
    pub shutdown: Option<u32>,
}

/// Power of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuPower {
    /// Drawn now, milliwatts.
    pub milliwatts: Option<u32>,
    /// The most that it may draw, milliwatts.
    pub limit_milliwatts: Option<u32>,
    /// Drawn since the driver was loaded, millijoules.
    pub energy_millijoules: Option<u64>,
}

/// Memory errors that were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuEcc {
    /// Corrected, since the driver was loaded.
    pub corrected: Option<u64>,
    /// Not corrected, since the driver was loaded.
    pub uncorrected: Option<u64>,
    /// Corrected, in the GPU's life.
    pub corrected_ever: Option<u64>,
    /// Not corrected, in the GPU's life.
    pub uncorrected_ever: Option<u64>,
}

/// Rows of memory that were replaced by spare ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemappedRows {
    /// Because of errors that were corrected.
    pub correctable: u32,
    /// Because of errors that were not.
    pub uncorrectable: u32,
    /// Whether a row is replaced at the next reset.
    pub pending: bool,
    /// Whether a row could not be replaced.
    pub failed: bool,
}

/// Pages of memory that are not used any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetiredPages {
    /// Because of several errors that were corrected.
    pub single_bit: Option<u64>,
    /// Because of an error that was not.
    pub double_bit: Option<u64>,
    /// Whether pages are retired at the next reset.
    pub pending: Option<bool>,
}

/// The connection of a GPU to the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuPcie {
    /// Packets that were sent again.
    pub replays: Option<u64>,
    /// Generation now. An idle GPU lowers it.
    pub generation: Option<u32>,
    /// The highest generation that GPU and machine have.
    pub generation_max: Option<u32>,
    /// Lanes now.
    pub width: Option<u32>,
    /// The most lanes that GPU and machine have.
    pub width_max: Option<u32>,
}

/// The connections of a GPU to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuNvlink {
    /// Links that carry data. None if it has no links.
    pub active: Option<u32>,
    /// Links that it has and that carry none.
    pub inactive: Option<u32>,
    /// Errors in flow control, all links.
    pub crc_flit_errors: Option<u64>,
    /// Errors in data, all links.
    pub crc_data_errors: Option<u64>,
    /// Packets that were sent again, all links.
    pub replay_errors: Option<u64>,
    /// Links that had to be trained again.
    pub recovery_errors: Option<u64>,
    /// Bytes of data sent by all links.
    pub sent_bytes: Option<u64>,
    /// Bytes of data received by all links.
    pub received_bytes: Option<u64>,
}

/// A process with memory on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its number in the machine's first namespace.
    pub pid: u32,
    /// Its memory on the GPU, bytes. None if the driver does not tell.
    pub memory: Option<u64>,
}

/// Activity of a GPU since the reading before, as ratios from 0 to 1. A figure that the GPU does not have is
/// `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuActivity {
    /// Time in which the graphics or compute engine was active.
    pub engine: Option<f64>,
    /// Cycles in which a multiprocessor had a warp, mean over all of them.
    pub sm: Option<f64>,
    /// Warps that were resident, of those that fit.
    pub occupancy: Option<f64>,
    /// Cycles in which a tensor core worked.
    pub tensor: Option<f64>,
    /// Cycles in which the memory was read or written.
    pub dram: Option<f64>,
    /// Cycles in which units for 64 bit numbers worked.
    pub fp64: Option<f64>,
    /// Cycles in which units for 32 bit numbers worked.
    pub fp32: Option<f64>,
    /// Cycles in which units for 16 bit numbers worked.
    pub fp16: Option<f64>,
    /// Bytes a second to the machine.
    pub pcie_sent: Option<f64>,
    /// Bytes a second from the machine.
    pub pcie_received: Option<f64>,
}

/// One reading of an instance in MIG mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigSample {
    /// The driver's lasting name, `MIG-...`.
    pub uuid: String,
    /// Number of its part of the GPU.
    pub gpu_instance: u32,
    /// Number of its part of that.
    pub compute_instance: u32,
    /// As the driver names it.
    pub model: String,
    /// Its part of the memory.
    pub memory: Option<GpuMemory>,
}
