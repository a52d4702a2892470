//! How fast the REST API is: a job, and a listing of 50 of 10,000 as OpenPAI's portal asks for it, beside a
//! bare warp server that answers with the same bytes and headers.
//!
//! Both servers are processes that are kept on one core, and what asks is one thread on another: the same
//! for both, with as many connections. They take turns. At half of the agent's full speed requests are due
//! at fixed times, and their times count from then on.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use hyper::Method;
use serde_json::{Map, Value, json};

use crate::alone::Alone;
use crate::bare_rest::{self, BareAnswer, BareRest};
use crate::cores::ApartCores;
use crate::load::{Load, LoadResult, Pace};
use crate::process::{cpu_seconds, forget_most, most_rss_mb};
use crate::sample::{Sample, round};

const LIST: &str = "/api/v2/jobs?limit=50&offset=0&order=submissionTime,DESC&withTotalCount=true";
/// Connections that ask at full speed.
const CONNECTIONS: usize = 16;
/// Connections that requests which are due may use.
const CONNECTIONS_OPEN: usize = 32;
/// Turns of each server.
const TURNS: usize = 3;
const WARM_UP: Duration = Duration::from_secs(1);
const SETTLE: Duration = Duration::from_secs(3);
const RATIO_MIN: f64 = 0.30;
const P99_MS_MAX: f64 = 15.0;
const RSS_MB_MAX: f64 = 110.0;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RestArguments {
    /// The `muster` binary.
    #[arg(long)]
    muster: PathBuf,
    /// How many jobs there are.
    #[arg(long, default_value_t = 10_000)]
    jobs: usize,
    /// How long each turn takes, in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

pub(crate) async fn run(arguments: &RestArguments) -> Result<Value> {
    let alone = Alone::start(&arguments.muster).await?;
    let job = alone.one_job().await?;
    // What is measured is answers, beside a scheduler at rest.
    alone.cordon().await?;
    alone.fill(arguments.jobs).await?;
    tokio::time::sleep(SETTLE).await;
    let (waiting, running) = (
        alone.count("&state=WAITING").await?,
        alone.count("&state=RUNNING").await?,
    );
    let pid = alone.node().pid()?;
    forget_most(pid)?;
    let bench = RestBench {
        alone: &alone,
        time: Duration::from_secs(arguments.seconds),
        cores: ApartCores::apart()?,
    };
    let mut line = Map::new();
    line.extend([
        ("bench".to_owned(), json!("rest")),
        ("jobs".to_owned(), json!(arguments.jobs)),
        ("waiting".to_owned(), json!(waiting)),
        ("running".to_owned(), json!(running)),
        ("pinned".to_owned(), json!(bench.cores.is_some())),
    ]);
    let mut met = true;
    for (name, path) in [
        ("detail", format!("/api/v2/jobs/{job}")),
        ("list", LIST.to_owned()),
    ] {
        let figures = bench.measure(&path).await?;
        met &= figures.is_met();
        figures.tell(name, &mut line);
    }
    let rss = most_rss_mb(pid)?;
    line.insert("rss_mb".to_owned(), json!(round(rss)));
    line.insert("met".to_owned(), json!(met && rss <= RSS_MB_MAX));
    Ok(Value::Object(line))
}

struct RestBench<'a> {
    alone: &'a Alone,
    time: Duration,
    cores: Option<ApartCores>,
}

/// A server under full load.
struct FullSpeed {
    rate: f64,
    /// CPU of the server for an answer, in microseconds.
    cpu_us: f64,
    /// Of a core, what asks took.
    asking_percent: f64,
}

impl RestBench<'_> {
    /// Asks both servers for a path.
    async fn measure(&self, path: &str) -> Result<RestFigures> {
        let node = self.alone.node();
        // An agent closes connections that are idle, and a load takes longer than that.
        let client = node.client().await?;
        let asked = client.respond(Method::GET, path, "application/json", String::new());
        let answer = BareAnswer::of(asked.await?)?;
        let bare = BareRest::start(node.namespace(), self.alone.folder(), &answer)?;
        let (agent_pid, bare_pid) = (node.pid()?, bare.pid());
        if let Some(cores) = self.cores {
            cores.keep_process(agent_pid)?;
            cores.keep_process(bare_pid)?;
        }
        let bare_address = ([127, 0, 0, 1], bare_rest::PORT).into();
        let open =
            |address, count| Load::new(node.namespace(), address, (path, client.token()), count);
        let mut agent_load = open(Alone::address(), CONNECTIONS)?;
        let mut bare_load = open(bare_address, CONNECTIONS)?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            ours.push(self.full_speed(&mut agent_load, agent_pid)?);
            theirs.push(self.full_speed(&mut bare_load, bare_pid)?);
        }
        drop(agent_load);
        let (ours, theirs) = (median(ours)?, median(theirs)?);
        let rate = ours.rate / 2.0;
        let mut due = open(Alone::address(), CONNECTIONS_OPEN)?;
        self.load(&mut due, Pace::Rate(rate), WARM_UP)?;
        let half = self.load(&mut due, Pace::Rate(rate), 2 * self.time)?;
        Ok(RestFigures {
            bytes: answer.body.len(),
            ours,
            theirs,
            half: half.times,
        })
    }

    fn full_speed(&self, load: &mut Load, pid: u32) -> Result<FullSpeed> {
        self.load(load, Pace::Full, WARM_UP)?;
        let before = cpu_seconds(pid)?;
        let result = self.load(load, Pace::Full, self.time)?;
        let cpu = cpu_seconds(pid)? - before;
        Ok(FullSpeed {
            rate: result.rate(),
            cpu_us: cpu * 1e6 / result.answers as f64,
            asking_percent: 100.0 * result.cpu.as_secs_f64() / result.took.as_secs_f64(),
        })
    }

    /// A load on a thread of its own, on a core of its own.
    fn load(&self, load: &mut Load, pace: Pace, time: Duration) -> Result<LoadResult> {
        let run = || {
            if let Some(cores) = self.cores {
                cores.keep_this_thread()?;
            }
            load.run(pace, time)
        };
        let ended = std::thread::scope(|scope| scope.spawn(run).join());
        ended.map_err(|_| anyhow::anyhow!("the thread that asks panicked"))?
    }
}

/// The turn whose rate is in the middle.
fn median(mut turns: Vec<FullSpeed>) -> Result<FullSpeed> {
    turns.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    ensure!(!turns.is_empty(), "no turns");
    Ok(turns.swap_remove(turns.len() / 2))
}

struct RestFigures {
    bytes: usize,
    ours: FullSpeed,
    theirs: FullSpeed,
    /// At half of our rate.
    half: Sample,
}

impl RestFigures {
    fn ratio(&self) -> f64 {
        self.ours.rate / self.theirs.rate
    }

    fn is_met(&self) -> bool {
        self.ratio() >= RATIO_MIN && self.half.ms(0.99) <= P99_MS_MAX
    }

    fn tell(&self, name: &str, line: &mut Map<String, Value>) {
        let figures = [
            ("bytes", json!(self.bytes)),
            ("rps", json!(round(self.ours.rate))),
            ("bare_rps", json!(round(self.theirs.rate))),
            ("ratio", json!(round(self.ratio()))),
            ("cpu_us", json!(round(self.ours.cpu_us))),
            ("bare_cpu_us", json!(round(self.theirs.cpu_us))),
            ("asking_percent", json!(round(self.ours.asking_percent))),
            (
                "bare_asking_percent",
                json!(round(self.theirs.asking_percent)),
            ),
            ("half_p50_ms", json!(self.half.ms(0.5))),
            ("half_p99_ms", json!(self.half.ms(0.99))),
        ];
        let named = figures.map(|(figure, value)| (format!("{name}_{figure}"), value));
        line.extend(named);
    }
}
