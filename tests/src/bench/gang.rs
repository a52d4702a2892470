//! How long a gang of one task a node takes from its submission until the last task's commands have
//! started, against as many `ctr run --rm` of the same image, runtime and commands started at once:
//! from the start of the first until the last one's commands have. The two sides in turn.
//!
//! When commands start they say so themselves: the kernel's time since boot, which all containers of
//! the machine share, to 10 ms.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::future::{join_all, try_join_all};
use hyper::Method;
use muster_tests::beat;
use muster_tests::client::Client;
use muster_tests::home;
use muster_tests::job::Job;
use muster_tests::net::{BareNode, Lan, View, Watch};
use muster_tests::site::{Site, said};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use crate::ctr::Ctr;
use crate::sample::{Sample, round};
use crate::unique;

/// How long a cluster may take until it is whole, or a gang until it has started or ended.
const LIMIT: Duration = Duration::from_secs(120);
/// Rounds of either side that are not counted.
const WARM_UP: usize = 2;
/// What an ended side leaves to be cleared away is not put on the other one.
const SETTLE: Duration = Duration::from_secs(2);
/// Between two looks at what tasks have said. Looking takes nothing that is measured: they say when.
const LOOK: Duration = Duration::from_millis(100);
/// What a gang may take over its peer: so many times as long, and so much more.
const FACTOR_MAX: f64 = 1.2;
const EXTRA_MS_MAX: f64 = 100.0;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GangArguments {
    /// The `muster` binary.
    #[arg(long)]
    muster: PathBuf,
    /// How many agents, tasks of the gang, and containers of the peer.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=100))]
    agents: u8,
    /// How many gangs, and as many rounds of the peer.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
}

pub(crate) async fn run(arguments: &GangArguments) -> Result<Value> {
    let agents = usize::from(arguments.agents);
    let site = Site::running(&arguments.muster, agents).await?;
    let site = site.context("containers or network namespaces cannot be made here")?;
    let (gangs, peer) = (Gangs::new(&site.lan).await?, Peer::new(&site).await?);
    let (mut ours, mut theirs) = (Side::new()?, Side::new()?);
    for nth in 0..WARM_UP + arguments.rounds {
        let gang = gangs.launch(nth).await?;
        sleep(SETTLE).await;
        let ctr = peer.launch().await?;
        sleep(SETTLE).await;
        eprintln!("gang {:?}, ctr {:?}", gang.last, ctr.last);
        if nth >= WARM_UP {
            ours.add(&gang);
            theirs.add(&ctr);
        }
    }
    let bound = theirs.last.ms(0.5) * FACTOR_MAX + EXTRA_MS_MAX;
    Ok(json!({
        "bench": "gang", "agents": agents, "rounds": arguments.rounds, "runtime": peer.runtime,
        "gang_p50_ms": ours.last.ms(0.5), "gang_p99_ms": ours.last.ms(0.99),
        "gang_first_p50_ms": ours.first.ms(0.5),
        "ctr_p50_ms": theirs.last.ms(0.5), "ctr_p99_ms": theirs.last.ms(0.99),
        "ctr_first_p50_ms": theirs.first.ms(0.5),
        "ratio_p50": round(ours.last.ms(0.5) / theirs.last.ms(0.5)),
        "bound_ms": round(bound), "met": ours.last.ms(0.5) <= bound,
    }))
}

/// When commands started, counted from the round's begin.
struct Starts {
    first: Duration,
    last: Duration,
}

impl Starts {
    fn new(begin: Duration, said: &[Duration]) -> Result<Self> {
        let first = said.iter().min().context("nothing started")?;
        let last = said.iter().max().context("nothing started")?;
        Ok(Self {
            first: first.saturating_sub(begin),
            last: last.saturating_sub(begin),
        })
    }
}

struct Side {
    first: Sample,
    last: Sample,
}

impl Side {
    fn new() -> Result<Self> {
        Ok(Self {
            first: Sample::new()?,
            last: Sample::new()?,
        })
    }

    fn add(&mut self, starts: &Starts) {
        self.first.add(starts.first);
        self.last.add(starts.last);
    }
}

/// Commands that say `mark` and when they started.
fn says(mark: &str) -> String {
    format!("echo {mark} $(cat /proc/uptime)")
}

/// When the commands started that wrote this line.
fn started(line: &str) -> Result<Duration> {
    let seconds = line.split_whitespace().nth(1).context("no time")?;
    Ok(Duration::from_secs_f64(seconds.parse()?))
}

/// The time since boot, by the same clock.
fn now() -> Result<Duration> {
    Ok(Duration::from_secs_f64(beat::now_s()?))
}

/// Our side.
struct Gangs<'a> {
    lan: &'a Lan,
    clients: Vec<Client>,
}

impl<'a> Gangs<'a> {
    async fn new(lan: &'a Lan) -> Result<Self> {
        let agents = lan.nodes().len();
        let voters = match agents {
            1 | 2 => 1,
            3 | 4 => 3,
            _ => 5,
        };
        let well = |view: &View| {
            let led = &view.0["vcs"]["default"];
            let kept = view.voters(Some("default")).len();
            view.alive() == agents && kept == voters && led["leader"].is_string()
        };
        let all = Watch::new(lan, 1..=agents);
        all.each("the jobs are kept", LIMIT, well).await?;
        let admin = lan.node(1).client().await?;
        let client = |node: &BareNode| node.visitor().with_token(admin.token());
        let clients = lan.nodes().iter().map(client).collect();
        Ok(Self { lan, clients })
    }

    /// A gang that holds all devices of each node, so one task is on each; submitted at one node after
    /// the other.
    async fn launch(&self, nth: usize) -> Result<Starts> {
        let client = &self.clients[nth % self.clients.len()];
        let name = unique("gang");
        let commands = format!("{}; sleep 600", says(&name));
        let job = Job {
            instances: u32::try_from(self.clients.len())?,
            gpu: 8,
            ..Job::new(&name, &commands)
        };
        let begin = now()?;
        client.submit(&job.yaml()).await?;
        let started = self.started(&name).await?;
        let path = format!("/api/v2/jobs/admin~{name}/executionType");
        let body = json!({"value": "STOP"}).to_string();
        client
            .send(Method::PUT, &path, "application/json", body)
            .await?;
        client.wait_final(&format!("admin~{name}"), LIMIT).await?;
        Starts::new(begin, &started)
    }

    /// Waits until a task has started on each node, and gives when.
    async fn started(&self, name: &str) -> Result<Vec<Duration>> {
        let begin = Instant::now();
        loop {
            let lines = said(self.lan, name);
            if lines.len() == self.clients.len() {
                let nodes: BTreeSet<usize> = lines.iter().map(|(node, _)| *node).collect();
                ensure!(nodes.len() == lines.len(), "{name} has two tasks on a node");
                return lines.iter().map(|(_, line)| started(line)).collect();
            }
            ensure!(begin.elapsed() < LIMIT, "{name} started {}", lines.len());
            sleep(LOOK).await;
        }
    }
}

/// The other side.
struct Peer {
    ctr: Ctr,
    runtime: String,
    /// Cleared away with the engine.
    cgroup_parent: String,
    count: usize,
}

impl Peer {
    async fn new(site: &Site) -> Result<Self> {
        let archive = site.engine.busybox()?;
        let archive = archive.to_string_lossy();
        let imported = site.engine.ctr(&["images", "import", &archive])?;
        ensure!(imported.status.success(), "ctr imports nothing");
        // As in "containerd 1.6.20 with runc".
        let node = site.node(1).json(&["node", "show"])?;
        let engine = node["engine"]["Ok"].as_str().context("no engine")?;
        let runtime = engine.rsplit(' ').next().unwrap_or_default();
        Ok(Self {
            ctr: Ctr::new(&site.engine.socket(), home::NAMESPACE).await?,
            runtime: runtime.to_owned(),
            cgroup_parent: site.engine.cgroup_parent(),
            count: site.lan.nodes().len(),
        })
    }

    async fn launch(&self) -> Result<Starts> {
        let name = unique("ctr");
        // Those that have started wait for the others here too, and end with their input.
        let commands = format!("{}; read line", says(&name));
        let begin = now()?;
        let containers = (0..self.count).map(|nth| {
            let id = format!("{name}-{nth}");
            let cgroup = format!("/{}/{id}", self.cgroup_parent);
            let options = ["--runc-binary", &self.runtime, "--cgroup", &cgroup];
            let mut command = self.ctr.run(&options, &id, &["sh", "-c", &commands]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
        });
        let mut containers: Vec<Child> = containers.collect::<Result<_, _>>()?;
        let said = try_join_all(containers.iter_mut().map(first_line)).await?;
        let ends = containers.iter_mut().map(|container| async {
            drop(container.stdin.take());
            timeout(LIMIT, container.wait()).await
        });
        for end in join_all(ends).await {
            end.context("a container does not end")??;
        }
        Starts::new(begin, &said)
    }
}

async fn first_line(container: &mut Child) -> Result<Duration> {
    let output = container.stdout.as_mut().context("no output")?;
    let (mut output, mut line) = (BufReader::new(output), String::new());
    let read = output.read_line(&mut line);
    timeout(LIMIT, read).await.context("ctr run hangs")??;
    started(&line).with_context(|| format!("a container said {line:?}"))
}
