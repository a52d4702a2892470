//! How soon the next job is placed after whoever leads was killed, or cut off; and how soon an etcd of as many
//! members, as it comes, takes the next write. Both in the same network namespaces, one after the other.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hyper::Method;
use muster_tests::client::Client;
use muster_tests::net::{BareNode, Lan, View, Watch};
use muster_tests::site::Site;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::sample::Sample;
use crate::{job, unique};

/// How long a cluster may take until all is well again.
const LIMIT: Duration = Duration::from_secs(60);
/// Between two looks whether a job is placed.
const LOOK: Duration = Duration::from_millis(2);
/// How long a write of etcd may take before it is tried again.
const ETCD_PATIENCE: Duration = Duration::from_millis(200);
/// Between two questions that were refused.
const AGAIN: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FailoverArguments {
    /// The `muster` binary.
    #[arg(long)]
    muster: PathBuf,
    /// How many agents, and members of etcd.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(3..=9))]
    agents: u8,
    /// How many leaders are lost on each side.
    #[arg(long, default_value_t = 30)]
    kills: usize,
    /// Cuts them off the network instead, as if their machines had lost power: nobody is told that
    /// they are gone.
    #[arg(long)]
    silent: bool,
}

pub(crate) async fn run(arguments: &FailoverArguments) -> Result<Value> {
    let agents = usize::from(arguments.agents);
    let site = Site::running(&arguments.muster, agents).await?;
    let mut site = site.context("containers or network namespaces cannot be made here")?;
    let client = site.lan.node(1).client().await?;
    let mut placed = Sample::new()?;
    let mut leader = until_well(&site.lan, "").await?;
    for nth in 0..arguments.kills {
        let took = fail_leader(&mut site.lan, &leader, nth, &client, arguments.silent).await?;
        placed.add(took);
        eprintln!(
            "leader {} of {} was replaced: {took:.0?}",
            nth + 1,
            arguments.kills
        );
        leader = until_well(&site.lan, &leader).await?;
    }
    site.lan.stop()?;
    let mut etcd = Etcd::start(&site.lan)?;
    let mut written = Sample::new()?;
    for nth in 0..arguments.kills {
        written.add(etcd.fail_leader(&mut site.lan, arguments.silent).await?);
        eprintln!(
            "etcd's leader {} of {} was replaced",
            nth + 1,
            arguments.kills
        );
    }
    Ok(json!({
        "bench": "failover", "agents": agents, "kills": arguments.kills, "silent": arguments.silent,
        "placed_p50_ms": placed.ms(0.5), "placed_p99_ms": placed.ms(0.99),
        "placed_max_ms": placed.ms(1.0),
        "etcd_p50_ms": written.ms(0.5), "etcd_p99_ms": written.ms(0.99),
        "etcd_max_ms": written.ms(1.0),
    }))
}

/// Kills the agent that leads the jobs, or cuts it off: how long it took until a job was placed that was
/// submitted right then at one of the others, another one each time. The agent is back when this returns.
async fn fail_leader(
    lan: &mut Lan,
    leader: &str,
    nth: usize,
    client: &Client,
    silent: bool,
) -> Result<Duration> {
    let leads = |node: &&BareNode| node.name() == leader;
    let number = lan.nodes().iter().find(leads).context("no such node")?;
    let number = number.number();
    let others = lan.nodes().iter().filter(|node| !leads(node));
    let other = others.cycle().nth(nth).context("nobody else")?.visitor();
    let other = other.with_token(client.token());
    let name = unique("failover");
    let failed = Instant::now();
    match silent {
        true => lan.cut_node(number)?,
        false => lan.node_mut(number).kill()?,
    }
    submit(&other, &name).await?;
    let took = until_placed(&other, &name, failed).await?;
    match silent {
        true => lan.heal()?,
        false => lan.node_mut(number).start()?,
    }
    Ok(took)
}

/// Waits until all agents are there and keep the jobs, and all see that: who leads them. Whoever `led` before
/// may be told of for a moment still, after it is back.
async fn until_well(lan: &Lan, led: &str) -> Result<String> {
    let agents = lan.nodes().len();
    let well = |views: &[View]| {
        let all = views.iter().all(|view| {
            let voters = view.voters(Some("default")).len();
            let leader = jobs(view)["leader"].as_str();
            view.alive() == agents && voters == agents && leader.is_some_and(|name| name != led)
        });
        let mut pairs = views.windows(2);
        all && pairs.all(|pair| jobs(&pair[0])["leader"] == jobs(&pair[1])["leader"])
    };
    let all = Watch::new(lan, 1..=agents);
    let views = all.seen("all keep the jobs", LIMIT, well).await?;
    let leader = views.first().and_then(|view| jobs(view)["leader"].as_str());
    Ok(leader.context("nobody leads")?.to_owned())
}

/// Who keeps the jobs, as a node shows it.
fn jobs(view: &View) -> &Value {
    &view.0["vcs"]["default"]
}

async fn submit(client: &Client, name: &str) -> Result<()> {
    let begun = Instant::now();
    while let Err(error) = client.submit(&job(name, 1, "true")).await {
        ensure!(begun.elapsed() < LIMIT, "{name} is not taken: {error:#}");
        tokio::time::sleep(AGAIN).await;
    }
    Ok(())
}

async fn until_placed(client: &Client, name: &str, since: Instant) -> Result<Duration> {
    let path = format!("/api/muster/v1/jobs/admin~{name}");
    while since.elapsed() < LIMIT {
        let shown = client.get(&path).await;
        if shown.is_ok_and(|shown| shown["summary"]["created"].is_number()) {
            return Ok(since.elapsed());
        }
        tokio::time::sleep(LOOK).await;
    }
    bail!("{name} is not placed")
}

/// An etcd with a member in each node's namespace. Killed when it is dropped.
struct Etcd {
    members: Vec<Option<Child>>,
}

impl Etcd {
    fn start(lan: &Lan) -> Result<Self> {
        let mut etcd = Self {
            members: Vec::new(),
        };
        for node in lan.nodes() {
            etcd.members.push(Some(member(lan, node)?));
        }
        Ok(etcd)
    }

    /// The same with its leader.
    async fn fail_leader(&mut self, lan: &mut Lan, silent: bool) -> Result<Duration> {
        let leader = leader(lan).await?;
        let other = (0..self.members.len()).find(|at| *at != leader);
        let other = client(&lan.nodes()[other.context("nobody else")?]);
        let number = lan.nodes()[leader].number();
        let failed = Instant::now();
        match silent {
            true => lan.cut_node(number)?,
            false => self.end(leader)?,
        }
        let body = || r#"{"key": "ZmFpbG92ZXI=", "value": "MQ=="}"#.to_owned();
        // A write that was on its way to the leader waits for seven seconds: whoever wants the best of
        // etcd asks again soon.
        loop {
            let written = timeout(ETCD_PATIENCE, ask(&other, "/v3/kv/put", body()));
            if let Ok(Ok(_)) = written.await {
                break;
            }
            ensure!(failed.elapsed() < LIMIT, "etcd takes nothing");
            tokio::time::sleep(AGAIN).await;
        }
        let took = failed.elapsed();
        match silent {
            true => lan.heal()?,
            false => self.members[leader] = Some(member(lan, &lan.nodes()[leader])?),
        }
        Ok(took)
    }

    fn end(&mut self, at: usize) -> Result<()> {
        if let Some(mut child) = self.members[at].take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for at in 0..self.members.len() {
            // It is gone already, or the system is about to end.
            let _ = self.end(at);
        }
    }
}

/// Starts the member of a node, with etcd's own defaults for all that is about time.
fn member(lan: &Lan, node: &BareNode) -> Result<Child> {
    let at = |node: &BareNode, port: u16| format!("http://{}:{port}", node.address());
    let all = lan.nodes().iter();
    let all: Vec<String> = all
        .map(|node| format!("{}={}", node.name(), at(node, 2380)))
        .collect();
    let (peer, client) = (at(node, 2380), at(node, 2379));
    let mut command = Command::new("etcd");
    command
        .args(["--name", &node.name(), "--data-dir"])
        .arg(node.home().join("etcd"))
        .args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ])
        .args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ])
        .args(["--initial-cluster", &all.join(",")])
        .args(["--initial-cluster-state", "new", "--log-level", "error"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let started = node.namespace().enter(|| command.spawn())?;
    started.context("etcd does not start; it is in the package etcd-server")
}

fn client(node: &BareNode) -> Client {
    let url = format!("http://{}:2379", node.address());
    node.client_of(&url)
}

async fn ask(client: &Client, path: &str, body: String) -> Result<Value> {
    let answer = client.send(Method::POST, path, "application/json", body);
    let (status, text) = timeout(LIMIT, answer).await??;
    ensure!(status.is_success(), "{path}: {status}: {text}");
    Ok(serde_json::from_str(&text)?)
}

/// Where the member is that leads, once all answer and name the same.
async fn leader(lan: &Lan) -> Result<usize> {
    let begun = Instant::now();
    while begun.elapsed() < LIMIT {
        let mut ids = Vec::new();
        let mut leaders = Vec::new();
        for node in lan.nodes() {
            let path = "/v3/maintenance/status";
            if let Ok(status) = ask(&client(node), path, "{}".to_owned()).await {
                ids.push(status["header"]["member_id"].clone());
                leaders.push(status["leader"].clone());
            }
        }
        let is_one = leaders.len() == lan.nodes().len() && leaders.windows(2).all(|w| w[0] == w[1]);
        let leads = ids.iter().position(|id| leaders.first() == Some(id));
        if let Some(leads) = leads.filter(|_| is_one) {
            return Ok(leads);
        }
        tokio::time::sleep(AGAIN * 10).await;
    }
    bail!("etcd has no leader")
}
