//! `muster placement`: placement put to the test, without an agent.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use flate2::read::MultiGzDecoder;
use muster_placement::bench::{self, BenchSetup};
use muster_placement::sim::{self, ReplayPolicy};
use muster_placement::suite::{self, SuiteReport};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::console::{Console, Paint, printable};
use super::document_file;
use super::error::{CliError, explained};
use super::output::OutputOption;
use super::status::CliStatus;

/// The largest suite or cluster that is read.
const DOCUMENT_BYTES_MAX: u64 = 16 << 20;
/// The largest trace that is read, unpacked.
const TRACE_BYTES_MAX: u64 = 1 << 30;
/// What a compressed trace starts with.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// What can be tried.
#[derive(Debug, Subcommand)]
pub enum PlacementCommand {
    /// Replay suites of scheduling steps: exits with 0 if every expectation holds, 1 if not.
    #[command(after_help = "Examples:
  muster placement replay suites/31-feature-buddy.yaml --clusters clusters
  muster placement replay suites/*.yaml --clusters clusters
  muster placement replay s.yaml --clusters . -o json | jq '.[].steps[] | select(.problems != [])'

A suite is written in the format hived-steps/1, and decided by the preset that decides as HiveD
does: no reservation, no ageing, no fair share.")]
    Replay(ReplayArguments),
    /// Measure decisions on a cluster kept 85 % full: prints one JSON object a size.
    #[command(after_help = "Examples:
  muster placement bench --gpus 10240
  muster placement bench --gpus 1024,10240,51200,100352,500224
  muster placement bench --gpus 100352 --opportunistic 30 --cycles 5000 --seed 7

Times are processor time of the one thread that decides. With several sizes, rss_mb is the most
memory so far: give the sizes from the smallest up.")]
    Bench(BenchArguments),
    /// Replay a trace of jobs on equal machines of 8 GPUs: prints one JSON object a policy.
    #[command(after_help = "Examples:
  muster placement sim philly.csv.gz --nodes 96 --policy default
  muster placement sim philly.csv.gz --nodes 96 --policy all | jq -c '[.policy, .mean_wait_s]'

The first line of a trace names its columns: submit_s, duration_s and gpus, and user or vc where
users are to share fairly. Up to 8 GPUs lie on one machine, more on as many whole machines as
they need. A job's duration is hidden from the policy until the job ends.")]
    Sim(Sim),
}

/// Arguments of `muster placement replay`.
#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// The suites.
    #[arg(required = true, value_name = "SUITE")]
    suites: Vec<PathBuf>,
    /// The directory with the clusters that the suites name, NAME.yaml each.
    #[arg(long, value_name = "DIR")]
    clusters: PathBuf,
    #[command(flatten)]
    output: OutputOption,
}

/// Arguments of `muster placement bench`.
#[derive(Clone, Debug, Args)]
pub struct BenchArguments {
    /// How many GPUs the cluster has, a multiple of 512; several sizes are measured in turn.
    #[arg(long, required = true, value_delimiter = ',')]
    gpus: Vec<u32>,
    /// How many gangs in a hundred are opportunistic.
    #[arg(long, value_name = "PCT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=100))]
    opportunistic: u64,
    /// How many gangs come and go while it is measured.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    cycles: u64,
    /// Where the random numbers start: the same seed, the same run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Arguments of `muster placement sim`.
#[derive(Debug, Args)]
pub struct Sim {
    /// The trace, comma-separated, compressed by gzip or not.
    trace: PathBuf,
    /// How many machines there are.
    #[arg(long)]
    nodes: u32,
    /// Who comes first and who may pass whom.
    #[arg(long, value_enum, default_value_t = PolicyName::Default)]
    policy: PolicyName,
}

/// The policies of `muster placement sim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PolicyName {
    /// First come, first served; a job that must wait stops all behind it.
    Fifo,
    /// First come, first served, but a job that does not fit is passed, for ever if need be.
    Backfill,
    /// The default policy: small jobs and users with little first, room kept for large jobs.
    Default,
    /// All of these, one after the other.
    All,
}

impl PlacementCommand {
    pub(super) fn run(self, console: &Console) -> Result<CliStatus, CliError> {
        match self {
            Self::Replay(replay) => replay.run(console),
            Self::Bench(bench) => bench.run(console),
            Self::Sim(sim) => sim.run(console),
        }
    }
}

impl ReplayArguments {
    fn run(&self, console: &Console) -> Result<CliStatus, CliError> {
        let reports = self.suites.iter().map(|suite| self.one(suite));
        let reports = reports.collect::<Result<Vec<SuiteReport>, CliError>>()?;
        self.output
            .write(console, &reports, |reports, paint| page(reports, paint))?;
        Ok(CliStatus::of(reports.iter().all(SuiteReport::passed)))
    }

    fn one(&self, file: &Path) -> Result<SuiteReport, CliError> {
        let text = document_file::read(file, DOCUMENT_BYTES_MAX)?;
        let cluster = |name: &str| {
            let path = self.clusters.join(format!("{name}.yaml"));
            let text = document_file::read(&path, DOCUMENT_BYTES_MAX);
            text.map_err(|error| explained(&error))
        };
        let replayed = suite::replay(&text, &cluster);
        replayed.map_err(|error| unusable(file, &error))
    }
}

/// Every step in a line, and what should have been different below it.
fn page(reports: &[SuiteReport], paint: Paint) -> String {
    let mut lines = Vec::new();
    for report in reports {
        lines.push(paint.bold(&printable(&report.name)));
        for step in &report.steps {
            let sign = if step.problems.is_empty() {
                "ok  "
            } else {
                "FAIL"
            };
            let outcome = match &*step.outcome {
                "" => String::new(),
                outcome => format!(": {outcome}"),
            };
            let line = format!("  {sign}  {}{outcome}", step.action);
            lines.push(printable(&line));
            let problems = step.problems.iter();
            lines.extend(problems.map(|problem| printable(&format!("          {problem}"))));
        }
    }
    lines.push(sum(reports));
    lines.join("\n")
}

fn sum(reports: &[SuiteReport]) -> String {
    let failed = reports.iter().filter(|report| !report.passed()).count();
    let steps: usize = reports.iter().map(|report| report.steps.len()).sum();
    let suites = match reports.len() {
        1 => "1 suite".to_owned(),
        many => format!("{many} suites"),
    };
    match failed {
        0 => format!("{suites} of {steps} steps in all: every expectation holds"),
        failed => format!("{suites} of {steps} steps in all: {failed} failed"),
    }
}

impl BenchArguments {
    fn run(self, console: &Console) -> Result<CliStatus, CliError> {
        for gpus in &self.gpus {
            self.one(*gpus, console)?;
        }
        Ok(CliStatus::Ok)
    }

    fn one(&self, gpus: u32, console: &Console) -> Result<(), CliError> {
        let setup = BenchSetup {
            gpus,
            opportunistic: self.opportunistic,
            cycles: self.cycles,
            seed: self.seed,
        };
        let figures = bench::run(setup, &cpu_ns);
        let mut figures = figures.map_err(|error| match error {
            bench::BenchError::Gpus(_) => CliError::Usage(format!("--{error}")),
            bench::BenchError::Refused(_) => CliError::Usage(error.to_string()),
        })?;
        figures.rss_mb = resident_mb().unwrap_or(0.0);
        json_line(console, &figures)
    }
}

impl Sim {
    fn run(&self, console: &Console) -> Result<CliStatus, CliError> {
        let text = read_trace(&self.trace)?;
        let jobs = sim::read(&text).map_err(|error| unusable(&self.trace, &error))?;
        drop(text);
        for kind in self.policy.kinds() {
            let figures = sim::replay(&jobs, self.nodes, *kind, &cpu_ns);
            let figures = figures.map_err(|error| match error {
                sim::ReplayError::Nodes(_) => CliError::Usage(format!("--{error}")),
                error => CliError::Usage(error.to_string()),
            })?;
            json_line(console, &figures)?;
        }
        Ok(CliStatus::Ok)
    }
}

impl PolicyName {
    fn kinds(self) -> &'static [ReplayPolicy] {
        match self {
            Self::Fifo => &[ReplayPolicy::Fifo],
            Self::Backfill => &[ReplayPolicy::Backfill],
            Self::Default => &[ReplayPolicy::Default],
            Self::All => &ReplayPolicy::ALL,
        }
    }
}

/// The text of a trace, unpacked if it is compressed.
fn read_trace(path: &Path) -> Result<String, CliError> {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let mut start = Vec::new();
        file.by_ref().take(2).read_to_end(&mut start)?;
        let is_packed = start == GZIP_MAGIC;
        let whole = io::Cursor::new(start).chain(file);
        match is_packed {
            true => document_file::bounded(MultiGzDecoder::new(whole), TRACE_BYTES_MAX),
            false => document_file::bounded(whole, TRACE_BYTES_MAX),
        }
    };
    read().map_err(|source| CliError::Read {
        path: path.into(),
        source,
    })
}

fn unusable(file: &Path, error: &dyn std::error::Error) -> CliError {
    CliError::Usage(format!(
        "{} cannot be used: {}",
        file.display(),
        explained(error)
    ))
}

fn json_line(console: &Console, value: &impl Serialize) -> Result<(), CliError> {
    let line = serde_json::to_string(value);
    console.line(line.map_err(CliError::unwritable)?)
}

/// Processor time of this thread, nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    let time = time.map_or((0, 0), |time| (time.tv_sec(), time.tv_nsec()));
    u64::try_from(time.0 * 1_000_000_000 + time.1).unwrap_or(0)
}

/// The most memory the process has had, MiB.
fn resident_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}
