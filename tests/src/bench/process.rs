//! What the kernel tells of a process.

use std::path::Path;

use anyhow::{Context as _, Result};

/// Resident memory in MB.
pub(crate) fn rss_mb(pid: u32) -> Result<f64> {
    memory_mb(pid, "status", "VmRSS:")
}

/// The most resident memory in MB since it started, or since [`forget_most`].
pub(crate) fn most_rss_mb(pid: u32) -> Result<f64> {
    memory_mb(pid, "status", "VmHWM:")
}

/// Has the kernel forget how much it was at most.
pub(crate) fn forget_most(pid: u32) -> Result<()> {
    Ok(std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

/// Resident memory in MB, where a page shared by several processes counts in parts.
pub(crate) fn pss_mb(pid: u32) -> Result<f64> {
    memory_mb(pid, "smaps_rollup", "Pss:")
}

fn memory_mb(pid: u32, file: &str, name: &'static str) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}"))?;
    let line = text.lines().find(|line| line.starts_with(name));
    let kib = line.context(name)?.split_whitespace().nth(1);
    Ok(kib.context(name)?.parse::<f64>()? * 1024.0 / 1e6)
}

/// Whether it has not ended, or has and nobody has taken note.
pub(crate) fn runs(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// CPU taken since it started, in seconds.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"))?;
    let after_name = stat.rsplit(')').next().context("stat")?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    // The kernel shows 100 ticks a second to everybody, whatever it runs at.
    Ok(ticks / 100.0)
}

/// Bytes and packets that left its network namespace, but for the loopback.
pub(crate) fn sent(pid: u32) -> Result<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/dev"))?;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut sent = (0, 0);
    for (_, counters) in lines.filter(|(name, _)| name.trim() != "lo") {
        let counters: Vec<&str> = counters.split_whitespace().collect();
        sent.0 += counters.get(8).context("net/dev")?.parse::<u64>()?;
        sent.1 += counters.get(9).context("net/dev")?.parse::<u64>()?;
    }
    Ok(sent)
}
