//! A node falls silent with everything on it: its tasks end by themselves, and the gang starts anew
//! elsewhere, never twice at once.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use muster_tests::beat::{self, beats};
use muster_tests::net::{View, Watch};

use crate::gangs::{LIMIT, Site, ends, holds_nothing, submit, waits};
use crate::stage::Job;

/// The shortest lease lasts so long on the wire: the 15 s of the job, two renewals, the grace.
const WIRE_S: f64 = 37.0;
/// What the issue allows from a node's loss to the new start, in seconds.
const GOAL_S: f64 = 45.0;

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_silent_nodes_gang_starts_anew_elsewhere_and_never_twice() -> Result<()> {
    let Some(mut site) = Site::new(4).await? else {
        return Ok(());
    };
    let kept = |view: &View| {
        let voters = view.0["vcs"]["default"]["voters"].as_array();
        voters.is_some_and(|voters| voters.len() >= 3)
    };
    let all = Watch::new(&site.lan, 1..=4);
    all.each("the jobs are kept by three", LIMIT, kept).await?;
    // Voters of the cluster group are told by their records, which are a moment old.
    std::thread::sleep(Duration::from_secs(8));
    let commands = beat::commands("beat");
    let job = Job {
        gpu: 8,
        instances: 3,
        extra: "extras: {muster: {partition: {seconds: 15}}}",
        ..Job::new("beats", &commands)
    };
    submit(site.node(2), &job)?;
    let detail = waits(site.node(2), "beats", &["RUNNING"])?;
    let run = &detail["partition"]["runs"][0];
    let leases = run["nodes"].as_array().into_iter().flatten();
    let told = leases.filter(|it| it["ends_by"].is_u64()).count();
    ensure!(
        run["seconds"] == 15 && told == 3,
        "{:#}",
        detail["partition"]
    );
    let start = Instant::now();
    let victim = loop {
        let begun = beats(&site.lan, "beat")?;
        // The founder leads: without it another one would have to count anew.
        if let Some(beat) = begun.iter().find(|beat| beat.node != 1) {
            break beat.node;
        }
        ensure!(start.elapsed() < LIMIT, "nothing runs");
    };
    // The agent dies, and the network with it. What muster-init and the logger do is up to them.
    site.lan.node_mut(victim).kill()?;
    site.lan.cut_node(victim)?;
    let lost = beat::now_s()?;
    let asked = (victim % 4) + 1;
    let detail = ends(site.node(asked), "beats")?;
    ensure!(detail["attempt"]["id"] == 1, "{detail:#}");
    let all = beats(&site.lan, "beat")?;
    let times = |attempt: u32| all.iter().filter(move |beat| beat.attempt == attempt);
    let last = times(0).map(|beat| beat.at_s).fold(0.0, f64::max);
    let first = times(1).map(|beat| beat.at_s).fold(f64::MAX, f64::min);
    println!(
        "lost at {lost}: the last beat of the first attempt came {:.1} s later, the first of the \
         second {:.1} s later",
        last - lost,
        first - lost
    );
    ensure!(last < first, "twice at once: {last} and {first}");
    let silent = times(0).filter(|beat| beat.node == victim);
    let silent = silent.map(|beat| beat.at_s).fold(0.0, f64::max);
    ensure!(
        silent > lost + 10.0 && silent < lost + WIRE_S,
        "the silent node's task ended {} s after it was lost",
        silent - lost
    );
    ensure!(
        times(1).all(|beat| beat.node != victim),
        "placed on the silent node: {all:?}"
    );
    ensure!(
        first < lost + GOAL_S,
        "started anew {} s after",
        first - lost
    );
    // Back again it tells what came of its task, and holds nothing.
    site.lan.heal()?;
    site.lan.node_mut(victim).start()?;
    holds_nothing(site.node(victim))?;
    ensure!(
        beats(&site.lan, "beat")?.len() == all.len(),
        "something still runs"
    );
    Ok(())
}
