//! What a mesh takes: how soon who joins is seen, who dies is missed and who was cut off knows
//! the same again, and what an agent costs while nothing happens.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use muster_tests::net::{BareNode, Lan, View, Watch};
use serde_json::{Value, json};

use crate::sample::{Sample, round};
use crate::{bare, process};

const KILLS: usize = 5;
/// Joins at a time.
const AT_ONCE: usize = 4;
const SETTLE: Duration = Duration::from_secs(10);
const WINDOW: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(120);
/// Bytes of Ethernet, IPv4 and UDP around a datagram, which the interface counts too. A TCP
/// segment has more, of which there are few.
const HEADERS: u64 = 14 + 20 + 8;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MeshArguments {
    /// The `muster` binary.
    #[arg(long)]
    muster: PathBuf,
    /// How many agents.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(3..=200))]
    agents: u8,
}

pub(crate) async fn run(arguments: &MeshArguments) -> Result<Value> {
    let agents = usize::from(arguments.agents);
    let mut lan = Lan::running(&arguments.muster, agents)?;
    let start = Instant::now();
    lan.start()?;
    let started = start.elapsed();
    let (joins, formed) = form(&lan).await?;
    let idle = idle(&lan).await?;
    let bare = bare::percent(&lan, idle.packets_s)?;
    let suspects = kills(&mut lan).await?;
    let healed = halves(&mut lan).await?;
    let stopped = stop(lan)?;
    Ok(json!({
        "bench": "mesh", "agents": agents,
        "start_ms": ms(started), "stop_ms": ms(stopped),
        "converge_ms": ms(formed),
        "join_visible_p50_ms": joins.ms(0.5), "join_visible_ms": joins.ms(1.0),
        "suspect_p50_ms": suspects.ms(0.5), "suspect_ms": suspects.ms(1.0),
        "heal_ms": ms(healed),
        "rss_mb": idle.rss_mb, "rss_mb_max": idle.rss_mb_max, "memory_mb_all": idle.memory_mb_all,
        "cpu_percent": idle.cpu, "cpu_percent_max": idle.cpu_max,
        "bare_cpu_percent": round(bare),
        "idle_bytes_s": idle.bytes_s, "idle_packets_s": idle.packets_s,
    }))
}

/// Ends all agents as the system does, and sees to it that nothing of them is left: how long it
/// took until the last one had ended.
fn stop(mut lan: Lan) -> Result<Duration> {
    let pids: Vec<u32> = lan
        .nodes()
        .iter()
        .map(BareNode::pid)
        .collect::<Result<_>>()?;
    let homes: Vec<PathBuf> = lan.nodes().iter().map(|n| n.home().to_owned()).collect();
    let start = Instant::now();
    lan.stop()?;
    let stopped = start.elapsed();
    drop(lan);
    for (pid, home) in pids.iter().zip(&homes) {
        ensure!(!process::runs(*pid), "agent {pid} runs on");
        ensure!(!home.exists(), "{} is left", home.display());
    }
    Ok(stopped)
}

fn ms(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1000.0)
}

/// Makes one cluster of all: how long each took from `cluster join` to being seen alive
/// everywhere, and how long all took until they knew the same.
pub(crate) async fn form(lan: &Lan) -> Result<(Sample, Duration)> {
    let agents = lan.nodes().len();
    let token = lan.found(1)?;
    let mut joins = Sample::new()?;
    let start = Instant::now();
    let mut members: Vec<usize> = vec![1];
    let joining: Vec<usize> = (2..=agents).collect();
    // One at a time is what is measured; many are not waited for.
    let at_once = if agents > 10 { AT_ONCE } else { 1 };
    for group in joining.chunks(at_once) {
        let begin = Instant::now();
        lan.join(group, &token)?;
        members.extend(group);
        let names: Vec<String> = group.iter().map(|n| lan.node(*n).name()).collect();
        let seen = |view: &View| names.iter().all(|name| view.state(name) == "alive");
        let watch = Watch::new(lan, members.clone());
        watch.each("who joined is alive", LIMIT, seen).await?;
        joins.add(begin.elapsed());
    }
    Watch::new(lan, 1..=agents).agree(agents, LIMIT).await?;
    Ok((joins, start.elapsed()))
}

/// What agents cost while nothing happens: the mean and the worst of them.
struct Idle {
    rss_mb: f64,
    rss_mb_max: f64,
    /// Of all together; what they share is counted once.
    memory_mb_all: f64,
    cpu: f64,
    cpu_max: f64,
    bytes_s: f64,
    packets_s: f64,
}

async fn idle(lan: &Lan) -> Result<Idle> {
    tokio::time::sleep(SETTLE).await;
    let before = costs(lan)?;
    tokio::time::sleep(WINDOW).await;
    let after = costs(lan)?;
    let (count, time) = (before.len() as f64, WINDOW.as_secs_f64());
    let pairs = || before.iter().zip(&after);
    let cpu: Vec<f64> = pairs()
        .map(|(before, after)| (after.cpu_s - before.cpu_s) / time * 100.0)
        .collect();
    let rss: Vec<f64> = after.iter().map(|cost| cost.rss_mb).collect();
    let packets: u64 = pairs().map(|(b, a)| a.packets - b.packets).sum();
    let bytes: u64 = pairs().map(|(b, a)| a.bytes - b.bytes).sum();
    let payload = bytes.saturating_sub(packets * HEADERS);
    let mean = |values: &[f64]| round(values.iter().sum::<f64>() / count);
    let worst = |values: &[f64]| round(values.iter().copied().fold(0.0, f64::max));
    Ok(Idle {
        rss_mb: mean(&rss),
        rss_mb_max: worst(&rss),
        memory_mb_all: round(after.iter().map(|cost| cost.pss_mb).sum()),
        cpu: mean(&cpu),
        cpu_max: worst(&cpu),
        bytes_s: round(payload as f64 / count / time),
        packets_s: round(packets as f64 / count / time),
    })
}

/// What one agent has cost so far.
struct Cost {
    rss_mb: f64,
    pss_mb: f64,
    cpu_s: f64,
    bytes: u64,
    packets: u64,
}

fn costs(lan: &Lan) -> Result<Vec<Cost>> {
    let cost = |node: &BareNode| {
        let pid = node.pid()?;
        let (bytes, packets) = process::sent(pid)?;
        Ok(Cost {
            rss_mb: process::rss_mb(pid)?,
            pss_mb: process::pss_mb(pid)?,
            cpu_s: process::cpu_seconds(pid)?,
            bytes,
            packets,
        })
    };
    lan.nodes().iter().map(cost).collect()
}

/// Kills agents, one after the other: how long until all others suspect each.
async fn kills(lan: &mut Lan) -> Result<Sample> {
    let agents = lan.nodes().len();
    let mut times = Sample::new()?;
    for kill in 0..KILLS {
        // The founder is left alone: nobody else could take back in who comes again.
        let victim = 2 + kill % (agents - 1);
        let name = lan.node(victim).name();
        let others = Watch::new(lan, (1..=agents).filter(|number| *number != victim));
        lan.node_mut(victim).kill()?;
        let missed = |view: &View| view.state(&name) != "alive";
        times.add(others.each("the dead is suspect", LIMIT, missed).await?);
        lan.node_mut(victim).start()?;
        Watch::new(lan, 1..=agents).agree(agents, LIMIT).await?;
    }
    Ok(times)
}

/// Cuts the network in halves until they have given each other up: how long after it is whole
/// again do all know the same.
async fn halves(lan: &mut Lan) -> Result<Duration> {
    let agents = lan.nodes().len();
    let half = agents.div_ceil(2);
    lan.split(half)?;
    let parted = |views: &[View]| {
        let (left, right) = views.split_at(half);
        left.iter().all(|view| view.alive() == half)
            && right.iter().all(|view| view.alive() == agents - half)
    };
    let watch = Watch::new(lan, 1..=agents);
    watch
        .all("halves give each other up", LIMIT, parted)
        .await?;
    lan.heal()?;
    watch.agree(agents, LIMIT).await
}
