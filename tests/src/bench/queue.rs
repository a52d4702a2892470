//! What a long queue costs: the memory of those who keep it, how soon a page of it is listed at any
//! node, and how soon it is taken in.
//!
//! Agents are as they are; their container engine is a fake, which only says that tasks run. A machine
//! offers 128 places for tasks without devices and as many for each kind of device, of which two kinds
//! are simulated: so many jobs run at most.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use muster_tests::client::Client;
use muster_tests::fake_containerd::FakeContainerd;
use muster_tests::job::Job;
use muster_tests::net::{BareNode, Lan, View, Watch};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::process::rss_mb;
use crate::sample::{Sample, round};
use crate::unique;

/// Devices of each node, and how many.
const DEVICES: &str = "128xV100,128xA100";
const DEVICES_EACH: usize = 256;
/// Places for tasks without devices, of each node.
const PLAIN_EACH: usize = 128;
/// So many jobs are to run, where there are places for as many, and to wait.
const JOBS: usize = 10_000;
/// Submissions at a time.
const AT_ONCE: usize = 16;
/// How long a cluster may take until it is whole.
const LIMIT: Duration = Duration::from_secs(120);
/// How long all jobs may take until they run.
const START_LIMIT: Duration = Duration::from_secs(1800);
/// Between two counts of those that run.
const LOOK: Duration = Duration::from_secs(1);
const SETTLE: Duration = Duration::from_secs(10);
const PAGE: &str = "/api/v2/jobs?limit=50";
const RSS_MB_MAX: f64 = 150.0;
const LIST_MS_MAX: f64 = 20.0;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct QueueArguments {
    /// The `muster` binary.
    #[arg(long)]
    muster: PathBuf,
    /// How many agents. As many jobs run as they have places for, up to 10,000, which takes 27.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=39))]
    agents: u8,
    /// How many more jobs wait.
    #[arg(long, default_value_t = JOBS)]
    queued: usize,
    /// How many pages are listed.
    #[arg(long, default_value_t = 500)]
    requests: usize,
}

pub(crate) async fn run(arguments: &QueueArguments) -> Result<Value> {
    let agents = usize::from(arguments.agents);
    let running = JOBS.min(agents * (DEVICES_EACH + PLAIN_EACH));
    // Every running task is a connection on this side, and more on the agents', who inherit it.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let mut lan = Lan::running(&arguments.muster, agents)?;
    lan.nodes().iter().try_for_each(prepare)?;
    let sockets: Vec<PathBuf> = lan.nodes().iter().map(socket).collect();
    let _engine = FakeContainerd::start(&sockets)?;
    lan.unite().await?;
    let queue = Queue::new(&lan).await?;
    let idle = queue.memory().await?;

    let rates = queue.fill(running, arguments.queued).await?;
    tokio::time::sleep(SETTLE).await;
    let full = queue.memory().await?;
    let pages = queue.list(arguments.requests).await?;
    let kept = queue.count("RUNNING").await?;
    ensure!(kept == running, "{kept} jobs run in place of {running}");
    let met = full.most() <= RSS_MB_MAX && pages.ms(0.99) <= LIST_MS_MAX;
    Ok(json!({
        "bench": "queue", "agents": agents, "voters": full.voters,
        "running": running, "queued": arguments.queued,
        "idle_rss_mb": idle.most(), "rss_mb": full.most(),
        "rss_leader_mb": full.leader, "rss_follower_mb": full.follower,
        "list_p50_ms": pages.ms(0.5), "list_p99_ms": pages.ms(0.99),
        "submit_s": rates.submit, "start_s": rates.start,
        "whole": running >= JOBS && arguments.queued >= JOBS, "met": met,
    }))
}

/// Gives a node that did not start yet room for many tasks, and takes jobs without a limit.
fn prepare(node: &BareNode) -> Result<()> {
    let path = node.home().join("agent.toml");
    let text = std::fs::read_to_string(&path)?;
    let more =
        "cpu_overcommit = 1000.0\nmemory_overcommit = 1000.0\n[http]\nsubmits_per_hour = 0\n";
    std::fs::write(&path, text.replace("8xV100", DEVICES) + more)?;
    Ok(())
}

/// Where a node that has no engine looks for one.
fn socket(node: &BareNode) -> PathBuf {
    node.home().join("no-containerd.sock")
}

/// Resident memory of those who keep the jobs.
struct Memory {
    voters: usize,
    leader: f64,
    /// Of the others, the most.
    follower: f64,
}

impl Memory {
    fn most(&self) -> f64 {
        self.leader.max(self.follower)
    }
}

/// Jobs a second.
struct JobRates {
    /// Taken in to wait.
    submit: f64,
    /// From the first submission until all run.
    start: f64,
}

impl JobRates {
    fn of(jobs: usize, time: Duration) -> f64 {
        round(jobs as f64 / time.as_secs_f64())
    }
}

/// The jobs of a cluster.
struct Queue<'a> {
    lan: &'a Lan,
    clients: Vec<Client>,
}

impl<'a> Queue<'a> {
    async fn new(lan: &'a Lan) -> Result<Self> {
        let admin = lan.node(1).client().await?;
        let client = |node: &BareNode| node.visitor().with_token(admin.token());
        let clients = lan.nodes().iter().map(client).collect();
        Ok(Self { lan, clients })
    }

    /// Submits so many jobs until they run, on all devices and then on plain places, and then so many
    /// that want devices and wait.
    async fn fill(&self, running: usize, queued: usize) -> Result<JobRates> {
        let with_device = self.clients.len() * DEVICES_EACH;
        let begin = Instant::now();
        self.submit(with_device, 1).await?;
        self.submit(running - with_device, 0).await?;
        self.until_running(running).await?;
        let started = begin.elapsed();
        let submitted = self.submit(queued, 1).await?;
        Ok(JobRates {
            submit: JobRates::of(queued, submitted),
            start: JobRates::of(running, started),
        })
    }

    /// Submits jobs of a task with so many devices at all nodes: how long it took.
    async fn submit(&self, jobs: usize, gpu: u32) -> Result<Duration> {
        let next = Arc::new(AtomicUsize::new(0));
        let prefix = unique("queue");
        let begin = Instant::now();
        let worker = |_| async {
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                if nth >= jobs {
                    return anyhow::Ok(());
                }
                let name = format!("{prefix}-{nth}");
                let job = Job {
                    gpu,
                    memory_mb: 32,
                    ..Job::new(&name, "sleep 600")
                };
                let client = &self.clients[nth % self.clients.len()];
                client.submit(&job.yaml()).await?;
            }
        };
        try_join_all((0..AT_ONCE).map(worker)).await?;
        Ok(begin.elapsed())
    }

    /// How many jobs are in a state.
    async fn count(&self, state: &str) -> Result<usize> {
        let path = format!("/api/v2/jobs?state={state}&withTotalCount=true&limit=1");
        let page = self.clients[0].get(&path).await?;
        let count = page["totalCount"].as_u64().context("no count")?;
        Ok(usize::try_from(count)?)
    }

    async fn until_running(&self, jobs: usize) -> Result<()> {
        let begin = Instant::now();
        loop {
            let running = self.count("RUNNING").await?;
            eprintln!("{running} of {jobs} jobs run");
            if running == jobs {
                return Ok(());
            }
            ensure!(begin.elapsed() < START_LIMIT, "only {running} jobs run");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Lists the first page at one node after the other.
    async fn list(&self, requests: usize) -> Result<Sample> {
        let mut times = Sample::new()?;
        for nth in 0..requests {
            let client = &self.clients[nth % self.clients.len()];
            let begin = Instant::now();
            let page = client.get(PAGE).await?;
            times.add(begin.elapsed());
            let rows = page.as_array().map_or(0, Vec::len);
            ensure!(rows == 50, "a page of {rows} jobs");
        }
        Ok(times)
    }

    async fn memory(&self) -> Result<Memory> {
        let led = |view: &View| view.0["vcs"]["default"]["leader"].is_string();
        let led = |views: &[View]| views.iter().all(led);
        let all = Watch::new(self.lan, 1..=self.lan.nodes().len());
        let views = all.seen("somebody leads", LIMIT, led).await?;
        let vc = &views[0].0["vcs"]["default"];
        let voters = vc["voters"].as_array().context("no voters")?;
        let is_voter = |node: &&BareNode| voters.iter().any(|voter| *voter == *node.name());
        let mut memory = Memory {
            voters: voters.len(),
            leader: 0.0,
            follower: 0.0,
        };
        for node in self.lan.nodes().iter().filter(is_voter) {
            let rss = round(rss_mb(node.pid()?)?);
            match vc["leader"] == *node.name() {
                true => memory.leader = rss,
                false => memory.follower = memory.follower.max(rss),
            }
        }
        ensure!(memory.leader > 0.0, "no node leads: {vc}");
        Ok(memory)
    }
}
