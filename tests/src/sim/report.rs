//! The JSON line of a run. Figures of the host have wall, rss or speed in their names; all others
//! are the same in every run of one seed.

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::figures::Figures;

/// One run's line.
#[derive(Debug)]
pub struct RunReport {
    line: Map<String, Value>,
    violations: Vec<String>,
}

impl RunReport {
    pub(crate) fn new(seed: u64, nodes: usize) -> Self {
        let mut report = Self::plain(seed, nodes);
        Figures::default().write(&mut report.line);
        report
    }

    /// One without the table of the mesh.
    pub(crate) fn plain(seed: u64, nodes: usize) -> Self {
        let mut line = Map::new();
        line.insert("seed".into(), json!(seed));
        line.insert("nodes".into(), json!(nodes));
        line.insert("violations".into(), json!([]));
        Self {
            line,
            violations: Vec::new(),
        }
    }

    /// Sets the figures of the table.
    pub(crate) fn figures(&mut self, figures: &Figures) {
        figures.write(&mut self.line);
    }

    /// Sets another value.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.line.insert(key.into(), value.into());
    }

    /// Adds what must not be.
    pub(crate) fn violations(&mut self, more: impl IntoIterator<Item = String>) {
        self.violations.extend(more);
        self.line
            .insert("violations".into(), json!(self.violations));
    }

    /// Whether nothing was wrong.
    pub fn clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// What was wrong.
    pub fn wrong(&self) -> &[String] {
        &self.violations
    }

    /// Adds what the run cost this machine.
    pub(crate) fn host(&mut self, started: Instant, virtual_ms: u64) {
        let wall_s = started.elapsed().as_secs_f64();
        let virtual_s = virtual_ms as f64 / 1_000.0;
        self.set("virtual_s", virtual_s);
        self.set("wall_s", rounded(wall_s));
        self.set("cpu_s", rounded(cpu_s()));
        self.set("speed_x", rounded(virtual_s / wall_s));
        self.set("rss_mb", rss_mb());
    }
}

impl std::fmt::Display for RunReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", Value::Object(self.line.clone()))
    }
}

/// Two digits are enough.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Processor time of this process, seconds; 0 where the kernel does not say.
fn cpu_s() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
    let seconds = |time: nix::sys::time::TimeVal| {
        let (whole, micros) = (time.tv_sec() as f64, time.tv_usec() as f64);
        whole + micros / 1e6
    };
    usage.map_or(0.0, |usage| {
        seconds(usage.user_time()) + seconds(usage.system_time())
    })
}

/// The most memory this process had, MiB; 0 where the kernel does not say.
fn rss_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|rest| rest.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
