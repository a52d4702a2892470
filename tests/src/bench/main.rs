//! `muster-bench NAME`: one measurement of the whole product, printed as one flat JSON line.
//! `deploy/bench.sh` makes the home with its containerd and image, and runs this.

mod bare;
mod burst;
mod ctr;
mod failover;
mod gang;
mod idle;
mod launch;
mod mesh;
mod process;
mod queue;
mod sample;
mod silence;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

/// Measures real agents.
#[derive(Debug, Parser)]
struct Command {
    #[command(subcommand)]
    name: Name,
}

/// One agent with a container engine.
#[derive(Clone, Debug, Args)]
struct Arguments {
    /// The `muster` binary.
    #[arg(long)]
    muster: PathBuf,
    /// A home prepared by deploy/bench.sh.
    #[arg(long)]
    home: PathBuf,
    /// Where the home's agent listens.
    #[arg(long)]
    url: String,
    /// containerd's socket.
    #[arg(long)]
    containerd: PathBuf,
    /// The agent's namespace there.
    #[arg(long)]
    namespace: String,
}

#[derive(Clone, Debug, Subcommand)]
enum Name {
    /// Submit to finished, against `ctr run --rm`.
    Launch {
        #[command(flatten)]
        arguments: Arguments,
        /// Launches a side.
        #[arg(long, default_value_t = 300)]
        n: usize,
    },
    /// Memory and CPU of an agent with nothing, then 100 tasks, to do.
    Idle(Arguments),
    /// Many submissions at once, and crashes right after them.
    Burst(Arguments),
    /// Many agents in network namespaces: joining, dying, healing, and what they cost.
    Mesh(mesh::Arguments),
    /// Leaders killed until the next job is placed, against etcd's until the next write.
    Failover(failover::Arguments),
    /// A gang over many agents until the last of its commands has started, against as many
    /// `ctr run --rm` at once.
    Gang(gang::Arguments),
    /// Thousands of jobs that run and wait: the memory of those who keep them, and a listing.
    Queue(queue::Arguments),
    /// Nodes that fall silent, until their gang runs elsewhere.
    Silence(silence::Arguments),
}

// One thread: what a client takes is taken from the launches that it measures.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let line = match Command::parse().name {
        Name::Launch { arguments, n } => launch::run(&arguments, n).await?,
        Name::Idle(arguments) => idle::run(&arguments).await?,
        Name::Burst(arguments) => burst::run(&arguments).await?,
        Name::Mesh(arguments) => mesh::run(&arguments).await?,
        Name::Failover(arguments) => failover::run(&arguments).await?,
        Name::Gang(arguments) => gang::run(&arguments).await?,
        Name::Queue(arguments) => queue::run(&arguments).await?,
        Name::Silence(arguments) => silence::run(&arguments).await?,
    };
    println!("{line}");
    Ok(())
}

/// A job of `instances` tasks that run `command`.
fn job(name: &str, instances: u32, command: &str) -> String {
    format!(
        "protocolVersion: 2
name: {name}
type: job
prerequisites:
  - {{type: dockerimage, name: image, uri: muster/busybox}}
taskRoles:
  main:
    instances: {instances}
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 32, gpu: 0}}
    commands: [\"{command}\"]
"
    )
}

/// A name that no earlier run used.
fn unique(prefix: &str) -> String {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("{prefix}-{}", since.as_micros())
}
