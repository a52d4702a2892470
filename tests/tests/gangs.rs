//! Jobs of a cluster: real agents in network namespaces, each with a containerd namespace of its
//! own, one virtual cluster led by whoever leads it.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::net::BareNode;
pub(crate) use muster_tests::site::{Site, said};
use serde_json::Value;

use crate::stage::Job;

/// How long a job may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// Waits until the node holds nothing for any task.
pub(crate) fn holds_nothing(node: &BareNode) -> Result<()> {
    let start = Instant::now();
    loop {
        let shown = node.json(&["node", "show"]);
        let tasks = shown.map(|shown| shown["tasks"].clone());
        if tasks
            .as_ref()
            .is_ok_and(|it| it.as_array().is_some_and(Vec::is_empty))
        {
            return Ok(());
        }
        ensure!(
            start.elapsed() < LIMIT,
            "{} still holds {tasks:?}",
            node.name()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

pub(crate) fn submit(node: &BareNode, job: &Job<'_>) -> Result<()> {
    let path = node.home().join(format!("{}.yaml", job.name));
    std::fs::write(&path, job.yaml())?;
    node.prints(&["job", "submit", &path.to_string_lossy()])?;
    Ok(())
}

/// Waits at a node until a job's state is one of these.
pub(crate) fn waits(node: &BareNode, name: &str, states: &[&str]) -> Result<Value> {
    let start = Instant::now();
    let mut last = String::new();
    while start.elapsed() < LIMIT {
        // A node that has just lost the leader says so, and is asked again.
        match node.json(&["job", "show", name]) {
            Ok(detail) => {
                let state = detail["state"].as_str().unwrap_or_default();
                if states.contains(&state) {
                    return Ok(detail);
                }
                last = format!("{state}: {detail:#}");
            }
            Err(error) => last = error.to_string(),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    anyhow::bail!("{name} at {} is not {states:?}: {last}", node.name())
}

pub(crate) fn ends(node: &BareNode, name: &str) -> Result<Value> {
    let detail = waits(node, name, &["SUCCEEDED", "FAILED", "STOPPED"])?;
    ensure!(detail["state"] == "SUCCEEDED", "{name}: {detail:#}");
    Ok(detail)
}

/// Every task serves its number over the network of its node and adds up those of all.
const ALL_REDUCE: &str = "\
me=$PAI_TASK_INDEX
eval port=\\$PAI_PORT_LIST_main_${me}_sum
mkdir /tmp/www && echo $((me + 1)) >/tmp/www/n
httpd -p $port -h /tmp/www
sum=0
for i in 0 1 2 3; do
  eval ip=\\$PAI_HOST_IP_main_$i port=\\$PAI_PORT_LIST_main_${i}_sum
  until n=$(wget -q -O - http://$ip:$port/n); do sleep 0.1; done
  sum=$((sum + n))
done
echo sum=$sum
sleep 3";

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_gang_runs_on_many_nodes() -> Result<()> {
    let Some(site) = Site::new(4).await? else {
        return Ok(());
    };
    // Eight simulated GPUs a node: each task takes one whole.
    let job = Job {
        gpu: 8,
        instances: 4,
        ports: "sum: 1",
        ..Job::new("sum", ALL_REDUCE)
    };
    submit(site.node(3), &job)?;
    let detail = ends(site.node(2), "sum")?;
    let tasks = detail["roles"][0]["tasks"].as_array();
    let tasks = tasks.context("tasks")?;
    let address = |task: &Value| task["attempts"][0]["address"].to_string();
    let addresses: BTreeSet<_> = tasks.iter().map(address).collect();
    ensure!(addresses.len() == 4, "{detail:#}");
    let sums = said(&site.lan, "sum=");
    let expected: Vec<_> = (1..=4).map(|node| (node, "sum=10".to_owned())).collect();
    ensure!(sums == expected, "{sums:?}");
    // Its output can be read on any node.
    let logs = site
        .node(1)
        .prints(&["job", "logs", "sum", "--role", "main"])?;
    ensure!(logs.matches("sum=10").count() == 4, "{logs}");
    // What all have together, whoever is asked.
    let vcs = site.node(4).json(&["vc", "list"])?;
    ensure!(vcs[0]["total"]["gpu"] == 32, "{vcs:#}");
    // The same list everywhere.
    let lists: Vec<_> = site
        .lan
        .nodes()
        .iter()
        .map(|node| node.json(&["job", "list"]))
        .collect::<Result<_>>()?;
    ensure!(lists.iter().all(|list| *list == lists[0]), "{lists:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_jobs_go_on_without_the_leader() -> Result<()> {
    let Some(mut site) = Site::new(3).await? else {
        return Ok(());
    };
    site.all_vote(LIMIT).await?;
    // More than the leader's own node has room for: some of it runs elsewhere.
    let job = Job {
        gpu: 8,
        instances: 2,
        // Sealed where it was submitted, opened where it runs.
        extra: "secrets: {word: hunter2}",
        ..Job::new(
            "before",
            "echo <% $secrets.word %>; for i in 1 2 3 4 5 6 7 8; do echo beat $i; sleep 1; done",
        )
    };
    submit(site.node(1), &job)?;
    waits(site.node(2), "before", &["RUNNING"])?;
    // The founder led from the beginning.
    site.lan.node_mut(1).kill()?;
    let killed = Instant::now();
    submit(site.node(3), &Job::new("after", "echo after"))?;
    println!(
        "accepted {:?} after the leader was killed",
        killed.elapsed()
    );
    ends(site.node(2), "after")?;
    println!("ended {:?} after the leader was killed", killed.elapsed());
    site.lan.node_mut(1).start()?;
    for number in 1..=3 {
        ends(site.node(number), "before")?;
        ends(site.node(number), "after")?;
    }
    let told = said(&site.lan, "hunter2");
    ensure!(told.len() == 2, "{told:?}");
    // Nothing ran twice.
    ensure!(
        said(&site.lan, "beat 1").len() == 2,
        "{:?}",
        said(&site.lan, "beat")
    );
    ensure!(
        said(&site.lan, "after").len() == 1,
        "{:?}",
        said(&site.lan, "after")
    );
    Ok(())
}

/// Where a registry listens that takes every question and answers none. Ends with the test.
fn silent_registry(node: &BareNode) -> Result<SocketAddr> {
    let bind = || TcpListener::bind((node.address(), 0));
    let listener = node.namespace().enter(bind)??;
    let address = listener.local_addr()?;
    std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    Ok(address)
}

/// The addresses of a job's tasks, as far as they have one.
fn addresses(detail: &Value) -> BTreeSet<IpAddr> {
    let tasks = detail["roles"][0]["tasks"].as_array();
    let address = |task: &Value| task["attempts"][0]["address"].as_str()?.parse().ok();
    tasks.into_iter().flatten().filter_map(address).collect()
}

/// Waits until a node tells that so many machines get this image for a job.
fn shows_pulls(node: &BareNode, job: &str, image: &str, machines: usize) -> Result<()> {
    let start = Instant::now();
    loop {
        let told = node.json(&["job", "explain", job])?;
        let launches = told["launches"].as_array().into_iter().flatten();
        let pulls = launches.flat_map(|launch| launch["pulls"].as_array().into_iter().flatten());
        if pulls.filter(|pull| pull["image"] == image).count() == machines {
            return Ok(());
        }
        ensure!(start.elapsed() < LIMIT, "{told:#}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_machine_lost_during_a_launch_is_replaced() -> Result<()> {
    let Some(mut site) = Site::new(4).await? else {
        return Ok(());
    };
    site.all_vote(LIMIT).await?;
    let image = format!("{}/late:1", silent_registry(site.node(1))?);
    let job = Job {
        gpu: 8,
        instances: 3,
        image: &image,
        ..Job::new(
            "late",
            "echo launched on $PAI_HOST_IP_main_0 $PAI_HOST_IP_main_1 $PAI_HOST_IP_main_2",
        )
    };
    submit(site.node(1), &job)?;
    let start = Instant::now();
    let before = loop {
        let before = addresses(&site.node(1).json(&["job", "show", "late"])?);
        if before.len() == 3 {
            break before;
        }
        ensure!(start.elapsed() < LIMIT, "it is not placed: {before:?}");
        std::thread::sleep(Duration::from_millis(100));
    };
    shows_pulls(site.node(4), "late", &image, 3)?;
    // Whoever is told to launch it from now on finds it; who waits for the registry goes on waiting.
    let archive = site.engine.busybox()?;
    for node in site.lan.nodes() {
        let import = [
            "image",
            "import",
            &archive.to_string_lossy(),
            "--name",
            &image,
        ];
        node.prints(&import)?;
    }
    let used = |number: &usize| before.contains(&site.node(*number).address());
    let lost = (2..=4).find(used).context("one of them at least")?;
    site.lan.node_mut(lost).kill()?;
    let killed = Instant::now();
    let detail = ends(site.node(1), "late")?;
    println!("ended {:?} after a machine was killed", killed.elapsed());
    let after = addresses(&detail);
    let others = site.lan.nodes().iter().filter(|node| node.number() != lost);
    let others: BTreeSet<_> = others.map(BareNode::address).collect();
    ensure!(after == others, "{detail:#}");
    let retries = &detail["summary"]["retries"]["total"];
    ensure!(*retries == 0, "it took more than one attempt: {detail:#}");
    // Each ran once, and knew where all are now.
    let told = said(&site.lan, "launched on");
    let knows_all = |(_, line): &(usize, String)| {
        let mut others = others.iter().map(ToString::to_string);
        others.all(|address| line.contains(&address))
    };
    ensure!(told.len() == 3 && told.iter().all(knows_all), "{told:?}");
    site.lan.node_mut(lost).start()?;
    for node in site.lan.nodes() {
        holds_nothing(node)?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_what_ended_while_its_agent_was_away_is_told() -> Result<()> {
    let Some(mut site) = Site::new(2).await? else {
        return Ok(());
    };
    let job = Job {
        gpu: 8,
        instances: 2,
        ..Job::new("away", "echo here; sleep 3")
    };
    submit(site.node(1), &job)?;
    waits(site.node(1), "away", &["RUNNING"])?;
    site.lan.node_mut(2).kill()?;
    std::thread::sleep(Duration::from_secs(4));
    let detail = site.node(1).json(&["job", "show", "away"])?;
    ensure!(
        detail["state"] == "RUNNING",
        "one task's end is not known: {detail:#}"
    );
    site.lan.node_mut(2).start()?;
    ends(site.node(2), "away")?;
    ensure!(
        said(&site.lan, "here").len() == 2,
        "{:?}",
        said(&site.lan, "here")
    );
    Ok(())
}

/// The names of the jobs that a node lists.
fn listed(node: &BareNode) -> Result<BTreeSet<String>> {
    let list = node.json(&["job", "list"])?;
    let jobs = list.as_array().context("no list")?.iter();
    let name = |job: &Value| job["key"]["name"].as_str().unwrap_or_default().to_owned();
    Ok(jobs.map(name).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_jobs_run_before_and_after_joining_and_leaving() -> Result<()> {
    let Some(site) = Site::apart(2)? else {
        return Ok(());
    };
    let (one, two) = (site.node(1), site.node(2));
    let runs = |node: &BareNode, name: &str| {
        submit(node, &Job::new(name, "true"))?;
        ends(node, name)
    };
    for name in ["solo-1", "solo-2", "solo-3"] {
        runs(one, name)?;
    }
    runs(two, "own")?;
    let token = site.lan.found(1)?;
    // The founder's leader goes on where it was.
    runs(one, "founded")?;
    site.lan.join(&[2], &token)?;
    ensure!(!listed(two)?.contains("own") && listed(two)?.contains("solo-1"));
    let gang = Job {
        gpu: 8,
        instances: 2,
        ..Job::new("gang", "true")
    };
    submit(two, &gang)?;
    ends(two, "gang")?;
    two.prints(&["cluster", "leave"])?;
    // Alone it has its own jobs again, and runs more.
    ensure!(listed(two)? == ["own".to_owned()].into());
    runs(two, "alone")?;
    runs(one, "after")?;
    site.lan.join(&[2], &site.lan.token(1, &[])?)?;
    submit(
        one,
        &Job {
            name: "again",
            ..gang
        },
    )?;
    ends(two, "again")?;
    Ok(())
}
