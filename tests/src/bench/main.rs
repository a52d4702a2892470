//! `muster-bench NAME`: one measurement of the whole product, printed as one flat JSON line.
//! `deploy/bench.sh` makes the home with its containerd and image, and runs this.

mod alone;
mod bare;
mod bare_rest;
mod build;
mod burst;
mod commands;
mod cores;
mod ctr;
mod devices;
mod failover;
mod followers;
mod gang;
mod idle;
mod launch;
mod load;
mod logins;
mod mesh;
mod pages;
mod people;
mod process;
mod queue;
mod rest;
mod rules;
mod sample;
mod sessions;
mod silence;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use serde_json::Value;

use crate::build::Build;

/// Measures real agents.
#[derive(Debug, Parser)]
struct BenchCommand {
    #[command(subcommand)]
    name: Name,
}

/// One agent with a container engine, or two of different builds.
#[derive(Clone, Debug, Args)]
struct Arguments {
    /// A home prepared by deploy/bench.sh.
    #[arg(long)]
    home: PathBuf,
    /// The home of an earlier build, to measure beside ours.
    #[arg(long)]
    beside: Option<PathBuf>,
}

impl Arguments {
    /// Our build.
    fn build(&self) -> Result<Build> {
        Build::of(&self.home)
    }

    /// Our build, then the one beside it.
    fn builds(&self) -> Result<Vec<Build>> {
        let homes = std::iter::once(&self.home).chain(&self.beside);
        homes.map(|home| Build::of(home)).collect()
    }
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
    /// `muster run -- true` and `muster job submit --wait`, against `ctr run --rm`.
    Commands {
        #[command(flatten)]
        arguments: Arguments,
        /// Jobs of each kind and build.
        #[arg(long, default_value_t = 100)]
        n: usize,
    },
    /// Memory and CPU of an agent with nothing, then 100 tasks, to do.
    Idle(Arguments),
    /// What 16 GPUs cost: the start, their health, and a scrape, against Prometheus' node exporter.
    Devices(Arguments),
    /// Many submissions at once, and crashes right after them.
    Burst(Arguments),
    /// Many agents in network namespaces: joining, dying, healing, and what they cost.
    Mesh(mesh::MeshArguments),
    /// Leaders killed until the next job is placed, against etcd's until the next write.
    Failover(failover::FailoverArguments),
    /// A gang over many agents until the last of its commands has started, against as many
    /// `ctr run --rm` at once.
    Gang(gang::GangArguments),
    /// Thousands of jobs that run and wait: the memory of those who keep them, and a listing.
    Queue(queue::QueueArguments),
    /// Nodes that fall silent, until their gang runs elsewhere.
    Silence(silence::SilenceArguments),
    /// Requests of a job and of a listing of 10,000, against a bare server with the same answers.
    Rest(rest::RestArguments),
    /// Lines of a log until all of 1,000 who follow it have them, against one alone.
    Followers(followers::FollowersArguments),
    /// Tokens that are revoked and users that are added at one of five nodes, until all know.
    People(people::PeopleArguments),
    /// Edits of failure rules at one of five nodes, until all go by them, and a test on 10,000 kept failures.
    Rules(rules::RulesArguments),
    /// Requests of a job while many log in, against the same alone.
    Logins(logins::LoginsArguments),
    /// A command in a task of another node, against `ctr task exec`, and a file copied there, against `ssh cat`.
    Sessions(sessions::SessionsArguments),
    /// The portal's pages on a node of 100 with 10,000 jobs: time to the first byte, and bytes on the wire.
    Pages(pages::PagesArguments),
    /// What `rest` measures beside.
    #[command(hide = true)]
    BareRest(bare_rest::BareRestArguments),
}

// One thread: what a client takes is taken from the launches that it measures.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let line = match BenchCommand::parse().name {
        Name::Launch { arguments, n } => launch::run(&arguments, n).await?,
        Name::Commands { arguments, n } => commands::run(&arguments, n).await?,
        Name::Idle(arguments) => idle::run(&arguments).await?,
        Name::Devices(arguments) => devices::run(&arguments).await?,
        Name::Burst(arguments) => burst::run(&arguments).await?,
        Name::Mesh(arguments) => mesh::run(&arguments).await?,
        Name::Failover(arguments) => failover::run(&arguments).await?,
        Name::Gang(arguments) => gang::run(&arguments).await?,
        Name::Queue(arguments) => queue::run(&arguments).await?,
        Name::Silence(arguments) => silence::run(&arguments).await?,
        Name::Rest(arguments) => rest::run(&arguments).await?,
        Name::Followers(arguments) => followers::run(&arguments).await?,
        Name::People(arguments) => people::run(&arguments).await?,
        Name::Rules(arguments) => rules::run(&arguments).await?,
        Name::Logins(arguments) => logins::run(&arguments).await?,
        Name::Sessions(arguments) => sessions::run(&arguments).await?,
        Name::Pages(arguments) => pages::run(&arguments).await?,
        Name::BareRest(arguments) => return bare_rest::run(&arguments).await,
    };
    println!("{line}");
    Ok(())
}

/// The line of our build, with each number of the build beside it, named `beside_...`, and the ratio of ours
/// to that one.
fn compared(mut line: Value, beside: Option<&Value>) -> Value {
    let Some(Value::Object(beside)) = beside else {
        return line;
    };
    for (name, value) in beside {
        let Some((theirs, ours)) = value.as_f64().zip(line[name].as_f64()) else {
            continue;
        };
        line[format!("beside_{name}")] = value.clone();
        line[format!("{name}_to_beside")] = sample::round(ours / theirs).into();
    }
    line
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
