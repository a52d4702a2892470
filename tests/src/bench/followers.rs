//! How soon a line of a log is with all who follow it: one job writes a line every 100 ms with its time, and many
//! follow it by the stream that the log's page uses, each on a connection of its own. Beside: one alone.
//!
//! A thread of its own reads what comes, as a browser would, and the time of a line counts from the time that the
//! job has written into it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Map, Value, json};

use crate::build::Build;
use crate::process::{cpu_seconds, rss_mb};
use crate::sample::{Sample, round};
use crate::{Arguments, job, unique};

/// Writes its number and the time in seconds ten times a second.
const WRITES: &str = "n=0; while true; do n=$((n+1)); echo at $n $EPOCHREALTIME; sleep 0.1; done";
const LIMIT: Duration = Duration::from_secs(60);
/// How long followers come, before lines are counted.
const SETTLE: Duration = Duration::from_secs(5);
const LAG_MS_MAX: f64 = 500.0;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FollowersArguments {
    #[command(flatten)]
    arguments: Arguments,
    /// How many follow.
    #[arg(long, default_value_t = 1000)]
    followers: usize,
    /// How long lines are counted, in seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

pub(crate) async fn run(arguments: &FollowersArguments) -> Result<Value> {
    let build = arguments.arguments.build()?;
    let agent = build.start()?;
    let client = agent.client().await?;
    let name = unique("followed");
    let id = format!("admin~{name}");
    client.submit(&job(&name, 1, WRITES)).await?;
    client.wait(&id, LIMIT, |state| state == "RUNNING").await?;
    let bench = FollowerBench {
        address: address(&build)?,
        path: format!("/jobs/{id}/attempts/0/tasks/main/0/0/log/stream?file=all&from=0"),
        token: client.token().to_owned(),
        pid: agent.pid(),
        time: Duration::from_secs(arguments.seconds),
    };
    let mut line = Map::new();
    line.insert("bench".to_owned(), json!("followers"));
    let mut met = true;
    for (name, count) in [("one", 1), ("all", arguments.followers)] {
        met &= bench.measure(count).await?.tell(name, &mut line);
    }
    line.insert("met".to_owned(), json!(met));
    Ok(Value::Object(line))
}

fn address(build: &Build) -> Result<SocketAddr> {
    let address = build.url.strip_prefix("http://").context("no http")?;
    Ok(address.parse()?)
}

struct FollowerBench {
    address: SocketAddr,
    path: String,
    token: String,
    pid: u32,
    time: Duration,
}

struct FollowerFigures {
    followers: usize,
    seen: FollowedLines,
    cpu_cores: f64,
    rss_mb: f64,
}

impl FollowerFigures {
    /// Whether every line was with everybody in time, and once.
    fn tell(&self, name: &str, line: &mut Map<String, Value>) -> bool {
        let seen = &self.seen;
        let most = seen.lag.ms(1.0);
        for (figure, value) in [
            ("followers", json!(self.followers)),
            ("lines", json!(seen.lines)),
            ("lag_p50_ms", json!(seen.lag.ms(0.5))),
            ("lag_p99_ms", json!(seen.lag.ms(0.99))),
            ("lag_max_ms", json!(most)),
            ("lost", json!(seen.lost)),
            ("doubled", json!(seen.doubled)),
            ("cpu_cores", json!(round(self.cpu_cores))),
            ("rss_mb", json!(round(self.rss_mb))),
        ] {
            line.insert(format!("{name}_{figure}"), value);
        }
        seen.lines > 0 && seen.lost == 0 && seen.doubled == 0 && most <= LAG_MS_MAX
    }
}

impl FollowerBench {
    async fn measure(&self, followers: usize) -> Result<FollowerFigures> {
        let mut crowd = FollowerCrowd::come(self, followers)?;
        let (pid, time) = (self.pid, self.time);
        let reading = move || {
            crowd.read_for(SETTLE, None)?;
            let before = cpu_seconds(pid)?;
            let mut seen = FollowedLines::new()?;
            let begun = Instant::now();
            crowd.read_for(time, Some(&mut seen))?;
            let cpu_cores = (cpu_seconds(pid)? - before) / begun.elapsed().as_secs_f64();
            Ok(FollowerFigures {
                followers,
                seen,
                cpu_cores,
                rss_mb: rss_mb(pid)?,
            })
        };
        tokio::task::spawn_blocking(reading)
            .await
            .context("the thread that reads")?
    }
}

/// What came.
struct FollowedLines {
    lag: Sample,
    lines: u64,
    lost: u64,
    doubled: u64,
}

impl FollowedLines {
    fn new() -> Result<Self> {
        Ok(Self {
            lag: Sample::new()?,
            lines: 0,
            lost: 0,
            doubled: 0,
        })
    }
}

struct FollowerCrowd {
    followers: Vec<OneFollower>,
}

struct OneFollower {
    stream: TcpStream,
    held: Vec<u8>,
    /// The number of the last line.
    last: Option<u64>,
}

impl FollowerCrowd {
    fn come(bench: &FollowerBench, followers: usize) -> Result<Self> {
        let request = format!(
            "GET {} HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\ncookie: muster_session={}\r\n\r\n",
            bench.path, bench.address, bench.token
        );
        let come = |_| {
            let mut stream = TcpStream::connect(bench.address)?;
            stream.write_all(request.as_bytes())?;
            stream.set_nonblocking(true)?;
            Ok(OneFollower {
                stream,
                held: Vec::new(),
                last: None,
            })
        };
        let followers = (0..followers).map(come).collect::<Result<_>>()?;
        Ok(Self { followers })
    }

    /// Reads what comes for so long, and counts it if it is to be counted.
    fn read_for(&mut self, time: Duration, mut seen: Option<&mut FollowedLines>) -> Result<()> {
        let end = Instant::now() + time;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            for nth in self.readable(left)? {
                self.followers[nth].read(&mut buffer, seen.as_deref_mut())?;
            }
        }
    }

    fn readable(&self, left: Duration) -> Result<Vec<usize>> {
        let followers = self.followers.iter();
        let fds = followers.map(|one| PollFd::new(one.stream.as_fd(), PollFlags::POLLIN));
        let mut fds: Vec<PollFd<'_>> = fds.collect();
        let wait = u16::try_from(left.as_millis()).unwrap_or(u16::MAX).max(1);
        poll(&mut fds, PollTimeout::from(wait))?;
        let ready = fds.iter().enumerate();
        let ready = ready.filter(|(_, fd)| fd.revents().is_some_and(|events| !events.is_empty()));
        Ok(ready.map(|(nth, _)| nth).collect())
    }
}

impl OneFollower {
    fn read(&mut self, buffer: &mut [u8], mut seen: Option<&mut FollowedLines>) -> Result<()> {
        let count = match self.stream.read(buffer) {
            Ok(0) => bail!(
                "the stream has ended: {}",
                String::from_utf8_lossy(&self.held)
            ),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.held.extend_from_slice(&buffer[..count]);
        while let Some(end) = self.held.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.held.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            ensure!(
                !line.starts_with("HTTP/1.1 ") || line.contains(" 200 "),
                "{line}"
            );
            if let Some((number, at)) = written(&line) {
                self.count(number, at, seen.as_deref_mut())?;
            }
        }
        Ok(())
    }

    fn count(&mut self, number: u64, at: f64, seen: Option<&mut FollowedLines>) -> Result<()> {
        let last = self.last.replace(number);
        let (Some(seen), Some(last)) = (seen, last) else {
            return Ok(());
        };
        seen.lines += 1;
        match number.checked_sub(last) {
            None | Some(0) => seen.doubled += 1,
            Some(step) => seen.lost += step - 1,
        }
        seen.lag
            .add(Duration::from_secs_f64((now()? - at).max(0.0)));
        Ok(())
    }
}

/// The number and the time of a line that the job wrote.
fn written(line: &str) -> Option<(u64, f64)> {
    let mut words = line.strip_prefix("data: at ")?.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// Seconds since the epoch.
fn now() -> Result<f64> {
    Ok(UNIX_EPOCH.elapsed()?.as_secs_f64())
}
