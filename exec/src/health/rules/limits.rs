//! Thresholds of what is sampled.

use serde::Deserialize;

/// When a figure is a sign. The defaults are in `health.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthLimits {
    /// How long a driver may be silent until that is bad, seconds.
    pub driver_silent_s: u64,
    /// How far below the slowdown limit a GPU is too hot, degrees Celsius.
    pub temperature_margin_c: u32,
    /// How far below that it is well again, degrees Celsius.
    pub temperature_back_c: u32,
    /// In which time slowdowns are counted, seconds.
    pub slowdown_window_s: u64,
    /// How many looks the window has to have.
    pub slowdown_looks_min: usize,
    /// In how many of a hundred looks a GPU may be slowed down.
    pub slowdown_percent: usize,
    /// From which P-state on a GPU is slow.
    pub pstate_slow: u32,
    /// For how long it may be, seconds.
    pub pstate_slow_s: u64,
    /// In how many looks in a row a GPU may be busy without a process.
    pub ghost_looks: u32,
    /// From which utilisation on it is busy, percent.
    pub ghost_percent: u32,
    /// In how many looks in a row a link may be narrow.
    pub pcie_looks: u32,
    /// How far a GPU's power may be above its limit, percent.
    pub power_over_percent: u64,
    /// How many looks in a row have to find no recovery action until one is over.
    pub recovered_looks: u32,
    /// How many errors an hour AMD's GPUs may correct.
    pub ras_correctable_per_hour: u64,
    /// For how long a port may be down, seconds.
    pub port_drop_s: u64,
    /// How long an outage is that counts as a flap, seconds.
    pub port_outage_s: u64,
    /// From how many outages on a port flaps.
    pub port_flaps: usize,
    /// In which time, seconds.
    pub port_flap_window_s: u64,
    /// How many active ports make one that was never up a sign.
    pub port_peers_min: usize,
    /// In how many looks in a row a process may be in the kernel.
    pub stuck_looks: u32,
    /// In how many looks in a row a process of others may hold a device.
    pub holder_looks: u32,
    /// Names of processes that may hold devices: they watch them.
    pub watchers: Vec<String>,
}

impl HealthLimits {
    pub(super) fn check(&self) -> Result<(), String> {
        let zero = [
            ("slowdown_looks_min", self.slowdown_looks_min == 0),
            ("port_flaps", self.port_flaps == 0),
            ("stuck_looks", self.stuck_looks == 0),
            ("holder_looks", self.holder_looks == 0),
            ("slowdown_percent", self.slowdown_percent == 0),
        ];
        match zero.into_iter().find(|(_, is_zero)| *is_zero) {
            Some((field, _)) => Err(format!(
                "field `{field}` of `limits` has to be greater than 0"
            )),
            None => Ok(()),
        }
    }
}
