//! `muster-fuzz`: inputs at the submit path by the million. Prints one JSON line; exit code 1 if a rule was
//! broken.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Parser;
use muster_tests::submissions::{SeedJobs, Submissions};
use serde_json::json;

/// Millions of small things are made and dropped.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Judges many bodies of `POST jobs`, which it makes of job files.
#[derive(Debug, Parser)]
struct FuzzArguments {
    /// How many.
    #[arg(long, default_value_t = 1_000_000)]
    inputs: u64,
    /// What all randomness comes from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of the first.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// A folder with job files, to make inputs of besides the repository's own.
    #[arg(long)]
    jobs: Option<PathBuf>,
    /// Most CPU that one may take, in milliseconds.
    #[arg(long, default_value_t = 200)]
    ms: u64,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Writes the first one to this file, and judges none.
    #[arg(long)]
    save: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let arguments = FuzzArguments::parse();
    let mut seeds = SeedJobs::own()?;
    if let Some(folder) = &arguments.jobs {
        seeds = seeds.with_folder(folder)?;
    }
    let submissions = Submissions {
        seed: arguments.seed,
        from: arguments.from,
        inputs: arguments.inputs,
        time_max: Duration::from_millis(arguments.ms),
        threads: arguments.threads,
    };
    if let Some(path) = &arguments.save {
        submissions.save(&seeds, arguments.from, path)?;
        return Ok(ExitCode::SUCCESS);
    }
    let begun = Instant::now();
    let report = submissions.run(&seeds)?;
    let took_s = begun.elapsed().as_secs_f64();
    let mut line = serde_json::to_value(&report)?;
    line["seed"] = json!(arguments.seed);
    line["inputs_s"] = json!((report.inputs as f64 / took_s).round());
    line["rss_mb"] = json!(most_rss_mb()?.round());
    println!("{line}");
    Ok(match report.violated {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The most memory that this process had.
fn most_rss_mb() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("VmHWM")?.parse::<f64>()? * 1024.0 / 1e6)
}
