//! How long after a node fell silent its gang runs elsewhere: its agent is killed and its network cut,
//! its tasks go on until their run lease ends. Tasks say themselves when they are there.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::beat;
use muster_tests::client::Client;
use muster_tests::job::Job;
use muster_tests::net::{Lan, View, Watch};
use muster_tests::site::Site;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::sample::{Sample, round};
use crate::unique;

/// One more than the gang has tasks, so that there is a place when one is lost.
const AGENTS: usize = 4;
/// How long a cluster may take until it is whole, or a gang until it runs.
const LIMIT: Duration = Duration::from_secs(120);
/// Members tell others what they run, and of which groups they are voters, a moment late.
const SETTLE: Duration = Duration::from_secs(8);
const LOOK: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SilenceArguments {
    /// The `muster` binary.
    #[arg(long)]
    muster: PathBuf,
    /// The job's `extras.muster.partition.seconds`: 15 is the shortest, 300 the default of jobs.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(15..=300))]
    seconds: u32,
    /// How many nodes fall silent, one after the other.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
}

/// What a restart may take, seconds: the lease on the wire, and little more. Stated for these two.
const fn bound_s(lease_s: u32) -> Option<f64> {
    match lease_s {
        15 => Some(45.0),
        300 => Some(400.0),
        _ => None,
    }
}

pub(crate) async fn run(arguments: &SilenceArguments) -> Result<Value> {
    let site = Site::running(&arguments.muster, AGENTS).await?;
    let mut site = site.context("containers or network namespaces cannot be made here")?;
    whole(&site.lan).await?;
    let client = site.node(1).client().await?;
    let mut restarts = Sample::new()?;
    let mut gaps = Vec::new();
    for nth in 1..=arguments.rounds {
        let silence = silence(&mut site.lan, &client, arguments.seconds).await?;
        eprintln!("{nth} of {}: {silence:?}", arguments.rounds);
        restarts.add(silence.restart);
        gaps.push(silence.gap_s);
        whole(&site.lan).await?;
    }
    let gap_s = gaps.into_iter().fold(f64::MAX, f64::min);
    let longest_s = restarts.ms(1.0) / 1000.0;
    let bound_s = bound_s(arguments.seconds);
    Ok(json!({
        "bench": "silence", "agents": AGENTS, "rounds": arguments.rounds,
        "lease_s": arguments.seconds,
        "restart_p50_s": round(restarts.ms(0.5) / 1000.0), "restart_s": round(longest_s),
        "gap_s": round(gap_s), "bound_s": bound_s,
        "met": bound_s.map(|bound| longest_s <= bound && gap_s > 0.0),
    }))
}

/// Waits until every member sees all, and the jobs are kept by three.
async fn whole(lan: &Lan) -> Result<()> {
    let well = |view: &View| {
        let led = &view.0["vcs"]["default"];
        let kept = view.voters(Some("default")).len();
        view.alive() == AGENTS && kept >= 3 && led["leader"].is_string()
    };
    let all = Watch::new(lan, 1..=AGENTS);
    all.each("the jobs are kept", LIMIT, well).await?;
    sleep(SETTLE).await;
    Ok(())
}

/// What came of a node that fell silent.
#[derive(Debug)]
struct Silence {
    /// Until the next attempt said that it is there.
    restart: Duration,
    /// From the last beat of the attempt before to the first of the next, seconds; below 0 both were
    /// there at once.
    gap_s: f64,
}

/// Lets a node of a gang fall silent, waits until the gang has ended elsewhere, and brings it back.
async fn silence(lan: &mut Lan, client: &Client, seconds: u32) -> Result<Silence> {
    let name = unique("silence");
    let extra = format!("extras: {{muster: {{partition: {{seconds: {seconds}}}}}}}");
    let commands = beat::commands(&name);
    let job = Job {
        gpu: 8,
        instances: u32::try_from(AGENTS - 1)?,
        extra: &extra,
        ..Job::new(&name, &commands)
    };
    client.submit(&job.yaml()).await?;
    let victim = victim(lan, &name).await?;
    lan.node_mut(victim).kill()?;
    lan.cut_node(victim)?;
    let lost_s = beat::now_s()?;
    let limit = LIMIT + 2 * Duration::from_secs(seconds.into());
    client.wait_final(&format!("admin~{name}"), limit).await?;
    let all = beat::beats(lan, &name)?;
    let of = |attempt: u32| all.iter().filter(move |beat| beat.attempt == attempt);
    let last_s = of(0).map(|beat| beat.at_s).fold(0.0, f64::max);
    let first_s = of(1).map(|beat| beat.at_s).fold(f64::MAX, f64::min);
    ensure!(of(1).count() > 0, "{name} did not start anew");
    ensure!(
        of(1).all(|beat| beat.node != victim),
        "{name} was placed on the silent node"
    );
    lan.heal()?;
    lan.node_mut(victim).start()?;
    Ok(Silence {
        restart: Duration::from_secs_f64(first_s - lost_s),
        gap_s: first_s - last_s,
    })
}

/// Waits until the whole gang runs, and names a node of it that leads nothing: without its leader a
/// virtual cluster counts anew, which is another measurement. Nor is it the first, which is asked.
async fn victim(lan: &Lan, name: &str) -> Result<usize> {
    let begin = Instant::now();
    loop {
        let mut nodes: Vec<usize> = beat::beats(lan, name)?
            .iter()
            .map(|beat| beat.node)
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.len() == AGENTS - 1 {
            let views = Watch::new(lan, [1]).views().await?;
            let View(view) = views.first().context("the first node shows nothing")?;
            let leaders = [
                &view["vcs"]["default"]["leader"],
                &view["leadership"]["leader"],
            ];
            let leads = |node: usize| leaders.iter().any(|it| **it == lan.node(node).name());
            let mut follows = nodes
                .into_iter()
                .rev()
                .filter(|node| *node != 1 && !leads(*node));
            return follows.next().context("no node of the gang can be spared");
        }
        ensure!(begin.elapsed() < LIMIT, "{name} runs on {nodes:?} only");
        sleep(LOOK).await;
    }
}
