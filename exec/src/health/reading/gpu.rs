//! Figures of a GPU, as its driver tells them.

/// One look at a GPU. What the driver does not tell is None.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuReading {
    /// Errors of memory that were not corrected, since the driver was loaded or the GPU reset.
    pub ecc_uncorrected: Option<u64>,
    /// The same over the GPU's life.
    pub ecc_uncorrected_ever: Option<u64>,
    /// Whether rows of memory are to be remapped at the next reset. None where a GPU remaps none.
    pub rows_pending: Option<bool>,
    /// Whether rows of memory could not be remapped.
    pub rows_failed: Option<bool>,
    /// NVML's field 230: what has to be done to use the GPU again, 0 for nothing.
    pub recovery_action: Option<u32>,
    /// Degrees Celsius.
    pub temperature_c: Option<u32>,
    /// At which temperature the GPU slows down.
    pub slowdown_c: Option<u32>,
    /// Whether it is slowed down because it is too hot.
    pub slow_thermal: Option<bool>,
    /// Whether it is slowed down by the machine's power supply: power brake.
    pub slow_power: Option<bool>,
    /// Whether any reason is told for its clocks, idleness included.
    pub clock_reason: Option<bool>,
    /// Milliwatts.
    pub power_mw: Option<u64>,
    /// The power limit in force, milliwatts.
    pub power_limit_mw: Option<u64>,
    /// How many links to other GPUs are active.
    pub nvlinks_active: Option<u32>,
    /// How many are not.
    pub nvlinks_inactive: Option<u32>,
    /// Lanes of the PCIe link that are in use.
    pub pcie_width: Option<u32>,
    /// Lanes that the GPU and its slot could use.
    pub pcie_width_max: Option<u32>,
    /// 0 is the fastest, 15 the slowest.
    pub p_state: Option<u32>,
    /// Of a hundred parts of the last moments, in how many a kernel ran. A GPU may show 100 with
    /// nothing on it: alone it tells neither that a GPU is busy nor that it is idle.
    pub utilisation_percent: Option<u32>,
    /// How many processes use it.
    pub processes: Option<u32>,
}

impl GpuReading {
    /// Whether no process uses it. None if the driver does not tell its processes: utilisation
    /// does not tell it either.
    pub fn is_idle(&self) -> Option<bool> {
        self.processes.map(|number| number == 0)
    }
}
