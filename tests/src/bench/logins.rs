//! What logins cost others: a job is asked for at a fixed rate, alone and while 50 users a second log in with
//! a password. Each login is due at a fixed time, by one of several users.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::stream::{FuturesUnordered, StreamExt as _};
use hyper::{Method, StatusCode};
use muster_tests::client::Client;
use serde_json::{Value, json};

use crate::alone::Alone;
use crate::load::{Load, LoadResult, Pace};
use crate::process::cpu_seconds;
use crate::sample::{Sample, round};

const USERS: usize = 20;
const PASSWORD: &str = "correct horse";
const CONNECTIONS: usize = 16;
const WARM_UP: Duration = Duration::from_secs(1);
/// How long nothing happens before each measurement.
const SETTLE: Duration = Duration::from_secs(3);
const RATIO_MAX: f64 = 2.0;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoginsArguments {
    /// The `muster` binary.
    #[arg(long)]
    muster: PathBuf,
    /// Logins a second.
    #[arg(long, default_value_t = 50.0)]
    rate: f64,
    /// How often a second the job is asked for.
    #[arg(long, default_value_t = 200.0)]
    details: f64,
    /// How long each measurement takes, in seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// How many measurements there are with logins, and without.
    #[arg(long, default_value_t = 2)]
    rounds: usize,
}

pub(crate) async fn run(arguments: &LoginsArguments) -> Result<Value> {
    let alone = Alone::start(&arguments.muster).await?;
    let job = alone.one_job().await?;
    let path = format!("/api/v2/jobs/{job}");
    for nth in 0..USERS {
        add_user(&alone.client, &user(nth)).await?;
    }
    let time = Duration::from_secs(arguments.seconds);
    let bench = LoginBench {
        alone: &alone,
        path,
        rate: arguments.details,
        time,
    };
    let (mut without, mut with) = (Sample::new()?, Sample::new()?);
    let mut crowd = Crowd::new()?;
    let mut cpu = 0.0;
    for _ in 0..arguments.rounds {
        without.join(&bench.details().await?.times)?;
        let before = cpu_seconds(alone.node().pid()?)?;
        let logins = crowd.come(&alone, arguments.rate, time);
        let (details, logins) = tokio::join!(bench.details(), logins);
        with.join(&details?.times)?;
        logins?;
        cpu += cpu_seconds(alone.node().pid()?)? - before;
    }
    let ratio = with.ms(0.99) / without.ms(0.99);
    let cpu = 100.0 * cpu / (time.as_secs_f64() * arguments.rounds as f64);
    Ok(json!({
        "bench": "logins", "details_s": arguments.details, "logins_s": arguments.rate,
        "detail_p50_ms": without.ms(0.5), "detail_p99_ms": without.ms(0.99),
        "with_logins_p50_ms": with.ms(0.5), "with_logins_p99_ms": with.ms(0.99),
        "p99_ratio": round(ratio),
        "logins": crowd.done, "refused": crowd.refused,
        "login_p50_ms": crowd.times.ms(0.5), "login_p99_ms": crowd.times.ms(0.99),
        "cpu_percent": round(cpu),
        "met": ratio <= RATIO_MAX && crowd.refused == 0,
    }))
}

fn user(nth: usize) -> String {
    format!("user{}", nth % USERS)
}

async fn add_user(admin: &Client, name: &str) -> Result<()> {
    let body = json!({"username": name, "email": "", "password": PASSWORD}).to_string();
    let added = admin.send(Method::POST, "/api/v2/users", "application/json", body);
    let (status, text) = added.await?;
    ensure!(status.is_success(), "{status}: {text}");
    Ok(())
}

struct LoginBench<'a> {
    alone: &'a Alone,
    path: String,
    rate: f64,
    time: Duration,
}

impl LoginBench<'_> {
    /// Asks for the job at its rate, on a thread of its own.
    async fn details(&self) -> Result<LoadResult> {
        let asked = (self.path.as_str(), self.alone.client.token());
        let namespace = self.alone.node().namespace();
        let mut load = Load::new(namespace, Alone::address(), asked, CONNECTIONS)?;
        let (pace, time) = (Pace::Rate(self.rate), self.time);
        let run = move || {
            load.run(pace, WARM_UP)?;
            load.run(pace, time)
        };
        tokio::time::sleep(SETTLE).await;
        tokio::task::spawn_blocking(run)
            .await
            .context("the thread that asks")?
    }
}

/// Users who log in.
struct Crowd {
    times: Sample,
    done: usize,
    refused: usize,
}

impl Crowd {
    fn new() -> Result<Self> {
        Ok(Self {
            times: Sample::new()?,
            done: 0,
            refused: 0,
        })
    }

    /// Lets so many a second log in from the time on at which the job is asked for, and as long.
    async fn come(&mut self, alone: &Alone, rate: f64, time: Duration) -> Result<()> {
        tokio::time::sleep(SETTLE).await;
        let visitor = alone.node().visitor();
        let start = Instant::now();
        let end = start + WARM_UP + time;
        let mut under_way = FuturesUnordered::new();
        for nth in 0.. {
            let due = start + Duration::from_secs_f64(nth as f64 / rate);
            if due >= end {
                break;
            }
            let until = tokio::time::sleep_until(due.into());
            tokio::pin!(until);
            loop {
                tokio::select! {
                    () = &mut until => break,
                    Some(came) = under_way.next() => self.count(came)?,
                }
            }
            under_way.push(log_in(visitor.clone(), user(nth), due));
        }
        while let Some(came) = under_way.next().await {
            self.count(came)?;
        }
        Ok(())
    }

    fn count(&mut self, came: Result<(StatusCode, Duration)>) -> Result<()> {
        match came? {
            (StatusCode::OK, took) => {
                self.times.add(took);
                self.done += 1;
            }
            _ => self.refused += 1,
        }
        Ok(())
    }
}

async fn log_in(visitor: Client, user: String, due: Instant) -> Result<(StatusCode, Duration)> {
    let body = json!({"username": user, "password": PASSWORD}).to_string();
    let path = "/api/v2/authn/basic/login";
    let (status, _) = visitor
        .send(Method::POST, path, "application/json", body)
        .await?;
    Ok((status, due.elapsed()))
}
