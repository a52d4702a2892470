//! A node falls silent with everything on it: its tasks end by themselves, and the gang starts anew
//! elsewhere, never twice at once.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use muster_tests::beat::{self, beats};

use crate::gangs::{LIMIT, Site, ends, holds_nothing, said, submit, waits};
use crate::stage::Job;

/// The shortest lease lasts so long on the wire: the 15 s of the job, two renewals, the grace.
const WIRE_S: f64 = 37.0;
/// What the issue allows from a node's loss to the new start, in seconds.
const GOAL_S: f64 = 45.0;

/// Waits until runs hold by leases: all keep the jobs, and the cluster state.
async fn until_leases_are_given(site: &Site) -> Result<()> {
    site.all_vote(LIMIT).await?;
    // Voters of the cluster group are told by their records, which are a moment old.
    std::thread::sleep(Duration::from_secs(8));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_silent_nodes_gang_starts_anew_elsewhere_and_never_twice() -> Result<()> {
    let Some(mut site) = Site::new(4).await? else {
        return Ok(());
    };
    until_leases_are_given(&site).await?;
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

/// Rounds of the all-reduce below.
const ROUNDS: usize = 60;

/// Every rank serves its number of each round over the network of its node and adds up those of all; where
/// one does not answer for 6 s it fails, as ranks of a training run do.
const COUPLED: &str = "\
me=$PAI_TASK_INDEX
eval port=\\$PAI_PORT_LIST_main_${me}_sum
mkdir /tmp/www && httpd -p $port -h /tmp/www
round=0
while [ $round -lt 60 ]; do
  echo $((me + 1 + round)) >/tmp/next && mv /tmp/next /tmp/www/$round
  sum=0
  for i in 0 1 2 3; do
    eval ip=\\$PAI_HOST_IP_main_$i port=\\$PAI_PORT_LIST_main_${i}_sum
    began=$(date +%s)
    until n=$(timeout 2 wget -q -O - http://$ip:$port/$round); do
      if [ $(($(date +%s) - began)) -gt 6 ]; then echo rank $i is lost; exit 1; fi
      sleep 0.1
    done
    sum=$((sum + n))
  done
  [ $sum -eq $((10 + 4 * round)) ] || exit 2
  echo round=$round
  round=$((round + 1))
  sleep 0.2
done
sleep 8";

#[tokio::test(flavor = "multi_thread")]
async fn containerd_an_all_reduce_that_loses_a_machine_is_done_by_the_others() -> Result<()> {
    let Some(mut site) = Site::new(5).await? else {
        return Ok(());
    };
    until_leases_are_given(&site).await?;
    let job = Job {
        gpu: 8,
        instances: 4,
        ports: "sum: 1",
        extra: "extras: {muster: {partition: {seconds: 15}}}",
        ..Job::new("reduce", COUPLED)
    };
    submit(site.node(2), &job)?;
    let start = Instant::now();
    let victim = loop {
        let begun = said(&site.lan, "round=5");
        // The founder leads: without it another one would have to count anew.
        if let Some((node, _)) = begun.iter().find(|(node, _)| *node != 1) {
            break *node;
        }
        if start.elapsed() > LIMIT {
            let detail = site.node(2).json(&["job", "show", "reduce"])?;
            anyhow::bail!("no round ends: {:?}, {detail:#}", said(&site.lan, ""));
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    site.lan.node_mut(victim).kill()?;
    site.lan.cut_node(victim)?;
    let lost = SystemTime::now();
    let asked = site.node(victim % 5 + 1);
    let detail = ends(asked, "reduce")?;
    let told = said(&site.lan, "is lost");
    let missed = told.iter().any(|(node, _)| *node != victim);
    ensure!(missed, "no rank missed the lost one: {told:?}");
    let anew = detail["attempt"]["launched"].as_u64().unwrap_or_default();
    let anew = (UNIX_EPOCH + Duration::from_millis(anew)).duration_since(lost)?;
    println!("started anew {anew:?} after the machine was lost");
    // It was the machine, not who had lost a peer and said so first.
    ensure!(detail["attempt"]["id"] == 1, "{detail:#}");
    let retries = &detail["summary"]["retries"];
    ensure!(retries["accountable"] == 0, "{detail:#}");
    let first = asked.json(&["job", "show", "reduce", "--attempt", "0"])?;
    let first = &first["attempt"];
    let why = first["trigger"]["message"].as_str().unwrap_or_default();
    ensure!(
        first["verdict"]["spec"]["code"] == -101 && why.contains("taken as the reason"),
        "{first:#}"
    );
    let done = said(&site.lan, &format!("round={}", ROUNDS - 1));
    let on: Vec<usize> = done.iter().map(|(node, _)| *node).collect();
    let others: Vec<usize> = (1..=5).filter(|node| *node != victim).collect();
    ensure!(on == others, "done on {on:?}, lost {victim}");
    Ok(())
}
