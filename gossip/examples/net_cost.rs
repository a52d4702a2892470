//! What links cost: prints one line of JSON.
//!
//! `cargo run --release -p muster-gossip --features net --example net_cost -- [LINKS] [SECONDS]`
//!
//! One node in this process, its peers in another one, all on loopback. Idle: one probe and its
//! answer a second on each link, as the cores do. Bytes are UDP payload, both ways, from QUIC's
//! own counts. Memory and processor time are this process's: one end of each link.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::io::{BufRead as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use muster_gossip::frame::{MeshFrame, Probe, ProbeAnswer, codec};
use muster_gossip::net::MonotonicClock;
use muster_gossip::net::keys::Ed25519Signer;
use muster_gossip::net::quic::{Admitted, Lane, LinkView, NetEvent, NetHandle, QuicConfig, bind};
use muster_gossip::record::SelfHealth;
use muster_gossip::{ClusterId, Incarnation, MemberId, Sign as _};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use tokio::sync::mpsc;

/// So that memory is what is in use: one arena, and what is free goes back to the system.
const ALLOCATOR: [(&str, &str); 2] = [
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_TRIM_THRESHOLD_", "65536"),
];

const CLUSTER: ClusterId = ClusterId([7; 16]);
/// The node in this process.
const HUB: MemberId = MemberId(0);
/// Round trips measured.
const TRIPS: usize = 5_000;

fn signer(member: MemberId) -> anyhow::Result<Ed25519Signer> {
    let mut seed = [9; 32];
    seed[..4].copy_from_slice(&member.0.to_le_bytes());
    Ok(Ed25519Signer::from_bytes(&seed)?)
}

fn start(member: MemberId) -> anyhow::Result<(NetHandle, mpsc::Receiver<NetEvent>)> {
    let config = QuicConfig {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        address_rate: 1_000,
        ..QuicConfig::new(CLUSTER)
    };
    Ok(bind(config, &signer(member)?, MonotonicClock::default())?)
}

fn admitted(id: MemberId, addresses: Vec<SocketAddr>) -> anyhow::Result<Admitted> {
    let key = signer(id)?.key();
    Ok(Admitted { id, key, addresses })
}

fn encoded(frame: &MeshFrame) -> Bytes {
    codec::encode(frame, CLUSTER, 1).into()
}

fn probe(number: u32) -> Bytes {
    encoded(&MeshFrame::Probe(Probe {
        number,
        incarnation: Incarnation(12),
        root: 0x0123_4567_89ab_cdef,
    }))
}

fn answer(number: u32) -> Bytes {
    encoded(&MeshFrame::Answer(ProbeAnswer {
        number,
        incarnation: Incarnation(12),
        root: 0x0123_4567_89ab_cdef,
        health: SelfHealth::default(),
        next_ms: 1_000,
    }))
}

/// A peer: answers probes.
async fn peer(id: MemberId) -> anyhow::Result<()> {
    let (net, mut events) = start(id)?;
    net.members(vec![admitted(HUB, vec![])?]);
    println!("{} {}", id.0, net.address()?);
    while let Some(event) = events.recv().await {
        let NetEvent::Frame { from, bytes, .. } = event else {
            continue;
        };
        if let Ok(MeshFrame::Probe(probe)) = codec::decode(&bytes, CLUSTER, 1) {
            net.send(from, Lane::Liveness, answer(probe.number));
        }
    }
    Ok(())
}

/// The process of all peers; ends with its standard input.
async fn peers(links: u32) -> anyhow::Result<()> {
    for n in 1..=links {
        tokio::spawn(async move {
            if let Err(error) = peer(MemberId(n)).await {
                eprintln!("peer {n}: {error:#}");
            }
        });
    }
    let mut line = String::new();
    tokio::task::spawn_blocking(move || std::io::stdin().read_line(&mut line)).await??;
    Ok(())
}

/// Resident memory of this process, in bytes.
fn resident() -> anyhow::Result<i64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    Ok(kilobytes.context("no VmRSS")?.parse::<i64>()? * 1_024)
}

/// Processor time of this process so far, in microseconds.
fn cpu_us() -> anyhow::Result<i64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok((usage.user_time() + usage.system_time()).num_microseconds())
}

struct Hub {
    net: NetHandle,
    events: mpsc::Receiver<NetEvent>,
    members: Vec<MemberId>,
    number: u32,
}

impl Hub {
    async fn answered(&mut self) -> anyhow::Result<MemberId> {
        loop {
            let event = tokio::time::timeout(Duration::from_secs(10), self.events.recv());
            match event.await?.context("the endpoint lives")? {
                NetEvent::Frame { from, .. } => return Ok(from),
                _ => continue,
            }
        }
    }

    /// Probes all till all have answered.
    async fn connect(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut silent: std::collections::BTreeSet<MemberId> =
            self.members.iter().copied().collect();
        while !silent.is_empty() {
            anyhow::ensure!(Instant::now() < deadline, "no answer of {silent:?}");
            for member in &silent {
                self.net.send(*member, Lane::Liveness, probe(0));
            }
            let while_heard = tokio::time::timeout(Duration::from_millis(300), async {
                while !silent.is_empty() {
                    silent.remove(&self.answered().await?);
                }
                anyhow::Ok(())
            });
            while_heard.await.unwrap_or(Ok(()))?;
        }
        // Answers that came twice.
        tokio::time::sleep(Duration::from_millis(500)).await;
        while self.events.try_recv().is_ok() {}
        Ok(())
    }

    /// One probe on each link, and all answers.
    async fn round(&mut self) -> anyhow::Result<()> {
        self.number += 1;
        for member in &self.members {
            self.net.send(*member, Lane::Liveness, probe(self.number));
        }
        for _ in 0..self.members.len() {
            self.answered().await?;
        }
        Ok(())
    }

    async fn idle(&mut self, seconds: u32) -> anyhow::Result<()> {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        for _ in 0..seconds {
            second.tick().await;
            self.round().await?;
        }
        second.tick().await;
        Ok(())
    }

    /// Round trips one after the other over one link, in microseconds, sorted.
    async fn trips(&mut self) -> anyhow::Result<Vec<u128>> {
        let mut trips = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            self.number += 1;
            let begun = Instant::now();
            self.net
                .send(self.members[0], Lane::Liveness, probe(self.number));
            self.answered().await?;
            trips.push(begun.elapsed().as_micros());
        }
        trips.sort_unstable();
        Ok(trips)
    }

    fn bytes(&self) -> u64 {
        let both = |link: &LinkView| link.sent_bytes + link.received_bytes;
        self.net.links().iter().map(both).sum()
    }
}

fn child(links: u32) -> anyhow::Result<(Child, std::io::BufReader<ChildStdout>)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["peers", &links.to_string()])
        .envs(ALLOCATOR)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let out = child.stdout.take().context("a pipe")?;
    Ok((child, std::io::BufReader::new(out)))
}

fn told(line: &str) -> anyhow::Result<Admitted> {
    let (id, address) = line.split_once(' ').ok_or_else(|| anyhow!("{line}"))?;
    admitted(MemberId(id.parse()?), vec![address.trim().parse()?])
}

async fn measure(links: u32, seconds: u32) -> anyhow::Result<String> {
    let (mut child, out) = child(links)?;
    let lines = out.lines().take(links as usize);
    let list: Vec<Admitted> = lines.map(|line| told(&line?)).collect::<Result<_, _>>()?;
    let (net, events) = start(HUB)?;
    let members = list.iter().map(|admitted| admitted.id).collect();
    net.members(list);
    let mut hub = Hub {
        net,
        events,
        members,
        number: 0,
    };
    let before = resident()?;
    hub.connect().await?;
    // Handshakes end, and the allocator gives back what they used.
    hub.idle(8).await?;
    let memory = (resident()? - before) / i64::from(links);
    let (bytes, cpu) = (hub.bytes(), cpu_us()?);
    hub.idle(seconds).await?;
    let exchanges = u64::from(links) * u64::from(seconds);
    let idle_bytes = (hub.bytes() - bytes) as f64 / exchanges as f64;
    let idle_cpu = (cpu_us()? - cpu) as f64 / f64::from(seconds) / 10_000.0;
    let cpu = cpu_us()?;
    let trips = hub.trips().await?;
    let frame_cpu = (cpu_us()? - cpu) as f64 / (2 * TRIPS) as f64;
    let at = |share: usize| trips[trips.len() * share / 100];
    let mtu = hub.net.links().iter().map(|link| link.mtu_bytes).min();
    child.stdin.take().context("a pipe")?.write_all(b"\n")?;
    child.wait()?;
    Ok(serde_json::json!({
        "links": links,
        "frame_bytes_probe": probe(1).len(),
        "frame_bytes_answer": answer(1).len(),
        "idle_bytes_per_exchange": (idle_bytes * 10.0).round() / 10.0,
        "rss_bytes_per_link": memory,
        "cpu_percent_idle": (idle_cpu * 100.0).round() / 100.0,
        "cpu_ms_per_1000_frames": (frame_cpu * 10.0).round() / 10.0,
        "rtt_us_p50": at(50),
        "rtt_us_p99": at(99),
        "mtu_bytes": mtu,
    })
    .to_string())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "peers") {
        return peers(arguments[1].parse()?).await;
    }
    if std::env::var_os(ALLOCATOR[0].0).is_none() {
        let again = Command::new(std::env::current_exe()?)
            .args(arguments)
            .envs(ALLOCATOR)
            .status()?;
        std::process::exit(again.code().unwrap_or(1));
    }
    let number = |n: usize, default| arguments.get(n).map_or(Ok(default), |word| word.parse());
    println!("{}", measure(number(0, 50)?, number(1, 20)?).await?);
    Ok(())
}
