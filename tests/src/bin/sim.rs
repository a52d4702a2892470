//! `sim`: the mesh and whole clusters in virtual time, and small cases of which every state is looked at.
//! Prints one JSON line for each run; exit code 1 if anything was not as it must be, 2 for a command that
//! makes no sense.

use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use muster_tests::explore::{self, Exploration};
use muster_tests::sim::{self, RunReport, SimRun, Which, suite};

/// Millions of small things are made and dropped: with the system's own an eighth of the time went there.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Runs the mesh and whole clusters in virtual time, and looks at every state of small cases.
#[derive(Debug, Parser)]
struct SimArguments {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Debug, Subcommand)]
enum SimCommand {
    /// One cluster: the load of the table, or the faults and scenarios named.
    Mesh(SimMeshArguments),
    /// A whole cluster with jobs: faults that the seed chooses, or the faults and scenarios named.
    Cluster(SimClusterArguments),
    /// Lists faults and scenarios, of the mesh and of clusters, and cases to explore.
    Faults,
    /// Many scenarios with many seeds.
    Suite(SuiteArguments),
    /// Small cases, every state of which is looked at.
    Explore(Explore),
}

#[derive(Debug, clap::Args)]
struct SimMeshArguments {
    /// How many nodes.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=20_000))]
    nodes: u32,
    /// What all randomness comes from.
    #[arg(long)]
    seed: u64,
    /// Packets lost, percent.
    #[arg(long, default_value_t = 5.0)]
    loss: f64,
    /// Names of faults or scenarios, with commas between.
    #[arg(long, value_delimiter = ',')]
    faults: Vec<String>,
    /// Which protocol runs.
    #[arg(long, value_enum, default_value_t = Which::Muster)]
    protocol: Which,
}

#[derive(Debug, clap::Args)]
struct SimClusterArguments {
    /// How many nodes.
    #[arg(long, value_parser = clap::value_parser!(u32).range(3..=2_000))]
    nodes: u32,
    /// What all randomness comes from.
    #[arg(long)]
    seed: u64,
    /// Packets lost, percent; none with --table.
    #[arg(long, default_value_t = 1.0, default_value_if("table", "true", "0"))]
    loss: f64,
    /// Names of faults or scenarios, with commas between.
    #[arg(long, value_delimiter = ',')]
    faults: Vec<String>,
    /// How fast a cluster is to which nothing happens, instead.
    #[arg(long, conflicts_with = "faults")]
    table: bool,
}

#[derive(Debug, clap::Args)]
struct SuiteArguments {
    /// What they are played on.
    #[arg(long, value_enum, default_value_t = suite::Of::Mesh)]
    of: suite::Of,
    /// Names of faults or scenarios, with commas between; `all`, or `S` for those with a number.
    #[arg(long, value_delimiter = ',', default_value = "all")]
    scenarios: Vec<String>,
    /// How many nodes.
    #[arg(long, value_parser = clap::value_parser!(u32).range(5..=2_000))]
    nodes: u32,
    /// Seeds, as FIRST..END, without END.
    #[arg(long, value_parser = range)]
    seeds: (u64, u64),
    /// At most so many runs, spread evenly over the scenarios.
    #[arg(long)]
    runs: Option<usize>,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Packets lost, percent.
    #[arg(long, default_value_t = 5.0)]
    loss: f64,
    /// Ends with the first run with something wrong.
    #[arg(long)]
    until_failure: bool,
}

#[derive(Debug, clap::Args)]
struct Explore {
    /// Names of cases, with commas between; all if none is named.
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// At most so many seconds for each, on two threads at least. A case that takes longer is not complete.
    #[arg(long)]
    limit_s: Option<u64>,
    /// Finds the shortest way to what is wrong, if anything is. Takes many times the memory.
    #[arg(long)]
    shortest: bool,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let ends = text.split_once("..").ok_or("write FIRST..END")?;
    let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is no number"));
    Ok((number(ends.0)?, number(ends.1)?))
}

fn main() -> ExitCode {
    let done = match SimArguments::parse().command {
        SimCommand::Mesh(mesh) => run(&mesh).map(|report| finish(&report)),
        SimCommand::Cluster(cluster) => {
            let run = SimRun {
                nodes: cluster.nodes as usize,
                seed: cluster.seed,
                loss: cluster.loss,
            };
            match cluster.table {
                true => Ok(finish(&sim::cluster_table(&run))),
                false => sim::cluster(&run, &cluster.faults).map(|report| finish(&report)),
            }
        }
        SimCommand::Faults => {
            list();
            Ok(ExitCode::SUCCESS)
        }
        SimCommand::Suite(suite) => play(suite),
        SimCommand::Explore(explore) => look(explore),
    };
    done.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}

/// Prints a line. Who reads no further has seen enough; the exit code tells the rest.
fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn run(mesh: &SimMeshArguments) -> Result<RunReport, String> {
    let run = SimRun {
        nodes: mesh.nodes as usize,
        seed: mesh.seed,
        loss: mesh.loss,
    };
    match (mesh.faults.is_empty(), mesh.protocol) {
        (true, protocol) => Ok(sim::table(&run, protocol)),
        (false, Which::Muster) => sim::faults(&run, &mesh.faults),
        (false, Which::Foca) => Err("foca runs under the load of the table only".into()),
    }
}

fn list() {
    say("mesh:");
    for (name, about) in sim::list() {
        say(format_args!("{name:10} {about}"));
    }
    say("cluster:");
    for (name, about) in sim::list_of_cluster() {
        say(format_args!("{name:10} {about}"));
    }
    say("explore:");
    for (name, about) in explore::list() {
        say(format_args!("{name:18} {about}"));
    }
}

fn play(suite: SuiteArguments) -> Result<ExitCode, String> {
    let outcome = suite::play(&suite::SuitePlan {
        of: suite.of,
        scenarios: suite.scenarios,
        nodes: suite.nodes as usize,
        seeds: suite.seeds.0..suite.seeds.1,
        runs: suite.runs,
        jobs: suite.jobs,
        loss: suite.loss,
        until_failure: suite.until_failure,
    })?;
    say(&outcome.line);
    Ok(ExitCode::from(u8::from(!outcome.clean)))
}

fn look(explore: Explore) -> Result<ExitCode, String> {
    let exploration = Exploration {
        cases: explore.cases,
        jobs: explore.jobs,
        limit: explore.limit_s.map(Duration::from_secs),
        shortest: explore.shortest,
    };
    let mut clean = true;
    explore::explore(&exploration, |outcome| {
        say(&outcome.line);
        clean &= outcome.clean;
    })?;
    Ok(ExitCode::from(u8::from(!clean)))
}

fn finish(report: &RunReport) -> ExitCode {
    say(report);
    ExitCode::from(u8::from(!report.clean()))
}
