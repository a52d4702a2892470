//! What devices cost an agent: its start with 16 GPUs, their health while nothing happens, and a scrape of its figures
//! with 8 GPUs and 100 tasks, beside Prometheus' node exporter. A driver that a text file plays has the GPUs.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::agent::Agent;
use muster_tests::played_driver::PlayedDriver;
use serde_json::{Value, json};

use crate::build::Build;
use crate::process::{cpu_seconds, rss_mb};
use crate::sample::{Sample, round};
use crate::{Arguments, compared, job, unique};

const STARTS: u32 = 10;
const SCRAPES: u32 = 300;
const SCRAPE_PAUSE: Duration = Duration::from_millis(20);
const TASKS: u32 = 100;
const SETTLE: Duration = Duration::from_secs(15);
/// Six rounds of looks at the machine's health.
const WINDOW: Duration = Duration::from_secs(60);
const ROUNDS: f64 = 6.0;
const LIMIT: Duration = Duration::from_secs(180);
/// Where the node exporter listens.
const EXPORTER: &str = "127.0.0.1:17793";

pub(crate) async fn run(arguments: &Arguments) -> Result<Value> {
    let mut lines = Vec::new();
    for build in arguments.builds()? {
        lines.push(of(&build).await?);
    }
    let mut line = compared(lines.remove(0), lines.first());
    let exporter = exporter()?;
    for (name, value) in exporter.as_object().context("figures")? {
        line[format!("node_exporter_{name}")] = value.clone();
    }
    let ratio = |name: &str| {
        let theirs = exporter[name].as_f64()?;
        Some(round(line[name].as_f64()? / theirs))
    };
    let ratio = ratio("scrape_cpu_us_per_series");
    line["scrape_cpu_per_series_to_node_exporter"] = json!(ratio);
    Ok(line)
}

async fn of(build: &Build) -> Result<Value> {
    let directory = tempfile::tempdir()?;
    let driver = PlayedDriver::new(directory.path())?;
    let without = quiet(build, directory.path(), 0, &driver)?;
    let with = quiet(build, directory.path(), 16, &driver)?;
    let (start_p50, start_max) = starts(build, directory.path())?;
    let mut line = json!({
        "bench": "devices",
        "start_to_16_devices_ms_p50": start_p50, "start_to_16_devices_ms_max": start_max,
        "idle_rss_mb": without.rss_mb, "devices_rss_mb": with.rss_mb,
        "idle_cpu_ms_a_round": round(without.cpu_ms / ROUNDS), "devices_cpu_ms_a_round": round(with.cpu_ms / ROUNDS),
        "health_cpu_ms_a_round": round((with.cpu_ms - without.cpu_ms) / ROUNDS),
    });
    driver.answer(&played(8))?;
    let agent = start(build, directory.path())?;
    let client = agent.client().await?;
    let name = unique("devices");
    let id = format!("admin~{name}");
    client.submit(&job(&name, TASKS, "sleep 600")).await?;
    client.wait(&id, LIMIT, |state| state == "RUNNING").await?;
    std::thread::sleep(SETTLE);
    let address = build.url.trim_start_matches("http://");
    let scrapes = Scrapes::of(address, agent.pid())?;
    for (name, value) in scrapes.line().as_object().context("figures")? {
        line[name] = value.clone();
    }
    let path = format!("/api/v2/jobs/{id}/executionType");
    let body = json!({"value": "STOP"}).to_string();
    client
        .send(hyper::Method::PUT, &path, "application/json", body)
        .await?;
    client.wait_final(&id, LIMIT).await?;
    Ok(line)
}

/// The driver's text for GPUs with all that a data centre's have.
fn played(count: u32) -> String {
    let mut text = format!("devices = {count}\n");
    for index in 0..count {
        let gpu = format!(
            "uuid = GPU-{index}\nname = NVIDIA H100 80GB HBM3\nminor = {index}\nmemory = 81559\n\
             pci = 00000000:{:02x}:00.0\nutilization = 97 40\nmemory.used = 20000\ntemperature = 64\npower = 650000\n\
             energy = 5\npstate = 8\nthrottle = 0\necc.corrected = 0\necc.uncorrected = 2\nremapped = 0 1 0 0\n\
             processes = 4711:20000\ngpm = 1\ngpm.2 = 45\ngpm.5 = 30\nfield.230 = 0\n",
            16 + index
        );
        for line in gpu.lines() {
            let _ = writeln!(text, "gpu.{index}.{line}");
        }
    }
    text
}

/// The build's agent with the driver of a directory, and no made-up devices.
fn start(build: &Build, driver: &Path) -> Result<Agent> {
    let settings = build.home.join("agent.toml");
    let text = std::fs::read_to_string(&settings)?;
    let lines = text.lines().filter(|line| !line.starts_with("simulate"));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    std::fs::write(&settings, text)?;
    let environment: [(&str, PathBuf); 1] = [("LD_LIBRARY_PATH", driver.to_owned())];
    Agent::start_with(&build.muster, &build.home, &build.url, &environment)
}

/// How many devices an agent tells of.
fn devices(build: &Build) -> Result<usize> {
    let told = build.command(&["node", "show", "-o", "json"]).output()?;
    let node: Value = serde_json::from_slice(&told.stdout).unwrap_or_default();
    Ok(node["capacity"]["devices"].as_array().map_or(0, Vec::len))
}

/// Milliseconds from a start until the agent tells of 16 devices: the middle and the most.
fn starts(build: &Build, driver: &Path) -> Result<(f64, f64)> {
    let mut sample = Sample::new()?;
    for _ in 0..STARTS {
        let begun = Instant::now();
        let agent = start(build, driver)?;
        while devices(build)? != 16 {
            ensure!(begun.elapsed() < LIMIT, "the devices are not told");
        }
        sample.add(begun.elapsed());
        drop(agent);
    }
    Ok((sample.ms(0.5), sample.ms(1.0)))
}

/// An agent without tasks.
struct Quiet {
    rss_mb: f64,
    /// CPU in the window.
    cpu_ms: f64,
}

fn quiet(build: &Build, directory: &Path, count: u32, driver: &PlayedDriver) -> Result<Quiet> {
    driver.answer(&played(count))?;
    let agent = start(build, directory)?;
    std::thread::sleep(SETTLE);
    let before = cpu_seconds(agent.pid())?;
    std::thread::sleep(WINDOW);
    Ok(Quiet {
        cpu_ms: (cpu_seconds(agent.pid())? - before) * 1000.0,
        rss_mb: round(rss_mb(agent.pid())?),
    })
}

/// Scrapes of one process.
struct Scrapes {
    times: Sample,
    cpu_seconds: f64,
    series: usize,
}

impl Scrapes {
    fn of(address: &str, pid: u32) -> Result<Self> {
        let series = scrape(address)?;
        let series = series.lines().filter(|line| !line.starts_with('#')).count();
        let mut times = Sample::new()?;
        let before = cpu_seconds(pid)?;
        for _ in 0..SCRAPES {
            let begun = Instant::now();
            scrape(address)?;
            times.add(begun.elapsed());
            std::thread::sleep(SCRAPE_PAUSE);
        }
        Ok(Self {
            times,
            cpu_seconds: cpu_seconds(pid)? - before,
            series,
        })
    }

    fn line(&self) -> Value {
        let cpu_us = self.cpu_seconds * 1e6 / f64::from(SCRAPES);
        json!({
            "series": self.series,
            "scrape_ms_p50": self.times.ms(0.5), "scrape_ms_p99": self.times.ms(0.99),
            "scrape_cpu_ms": round(cpu_us / 1000.0),
            "scrape_cpu_us_per_series": round(cpu_us / self.series as f64),
        })
    }
}

/// One scrape, on a connection of its own.
fn scrape(address: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    ensure!(text.starts_with("HTTP/1.1 200"), "{text}");
    let body = text.split_once("\r\n\r\n").context("no body")?.1;
    Ok(body.to_owned())
}

/// The same figures of Prometheus' node exporter.
fn exporter() -> Result<Value> {
    let mut exporter = Exporter(
        Command::new("prometheus-node-exporter")
            .arg(format!("--web.listen-address={EXPORTER}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("prometheus-node-exporter")?,
    );
    let begun = Instant::now();
    while TcpStream::connect(EXPORTER).is_err() {
        let ended = exporter.0.try_wait()?;
        ensure!(ended.is_none() && begun.elapsed() < LIMIT, "{ended:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(Scrapes::of(EXPORTER, exporter.0.id())?.line())
}

struct Exporter(Child);

impl Drop for Exporter {
    fn drop(&mut self) {
        // It is ours: nothing is left to do where it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
