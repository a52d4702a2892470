//! The benchmark: `bench GPUS [OPPORTUNISTIC] [CYCLES] [SEED]`, one JSON line.
#![allow(missing_docs)]

use muster_placement::bench::{Setup, run};
use nix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let number = |at: usize, default: u64| numbers.get(at).copied().unwrap_or(default);
    let setup = Setup {
        gpus: u32::try_from(number(0, 10_240))?,
        opportunistic: number(1, 0),
        cycles: number(2, 20_000),
        seed: number(3, 1),
    };
    let clock = || {
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
            .map_or((0, 0), |time| (time.tv_sec(), time.tv_nsec()));
        u64::try_from(time.0 * 1_000_000_000 + time.1).unwrap_or(0)
    };
    let mut figures = run(setup, &clock)?;
    figures.rss_mb = resident_mb().unwrap_or(0.0);
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

/// The most memory the process has had, MiB.
fn resident_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}
