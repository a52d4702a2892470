//! Virtual clusters by the cluster's own description: applied, asked about, taken back.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::net::{BareNode, Lan, View, Watch};
use muster_tests::promises::{machine, promises};
use serde_json::Value;

use crate::gangs::{LIMIT, Site, ends, submit, waits};
use crate::stage::Job;

const VISION: &str = "defaults: {virtualCluster: vision}";
const OPPORTUNISTIC: &str = "extras: {hivedScheduler: {jobPriorityClass: oppo}}";
const STAYS: &str = "while true; do sleep 0.2; done";

fn write(node: &BareNode, name: &str, text: &str) -> Result<String> {
    let path = node.home().join(name);
    std::fs::write(&path, text)?;
    Ok(path.to_string_lossy().into_owned())
}

fn vcs(node: &BareNode) -> Result<Vec<String>> {
    let shown = node.json(&["vc", "list"])?;
    let all = shown.as_array().context("no list")?;
    let names = all.iter().map(|vc| vc["name"].as_str().unwrap_or_default());
    Ok(names.map(str::to_owned).collect())
}

/// Waits until a node lists these, and no others: one that has just lost the leader says so.
fn lists(node: &BareNode, expect: &[&str]) -> Result<()> {
    let start = Instant::now();
    loop {
        let listed = vcs(node);
        if listed.as_ref().is_ok_and(|listed| listed == expect) {
            return Ok(());
        }
        ensure!(
            start.elapsed() < LIMIT,
            "{} lists {listed:?} in place of {expect:?}",
            node.name()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn stays<'a>(name: &'a str, extra: &'a str, instances: u32) -> Job<'a> {
    Job {
        gpu: 8,
        instances,
        extra,
        ..Job::new(name, STAYS)
    }
}

/// Three nodes that are shared: two for vision, on which its job `two` runs, one for speech. The type
/// of the machines.
async fn shared() -> Result<Option<(Site, String)>> {
    let Some(site) = Site::new(3).await? else {
        return Ok(None);
    };
    site.all_vote(LIMIT).await?;
    let machine = machine(site.node(2))?;
    let found = site.node(2).prints(&["vc", "export"])?;
    // What is printed to start from changes nothing.
    let as_found = write(site.node(2), "found.yaml", &found)?;
    let asked = ["vc", "apply", &as_found, "--what-if"];
    site.node(2).prints(&asked)?;
    let text = promises(&machine, &[("speech", 1), ("vision", 2)]);
    let file = write(site.node(2), "shared.yaml", &text)?;
    let made = site.node(2).prints(&["vc", "apply", &file])?;
    ensure!(made.trim() == "version 1", "{made}");
    // Whoever is asked next knows, at any node.
    submit(site.node(3), &stays("two", VISION, 2))?;
    site.node(1).prints(&["job", "show", "two"])?;
    waits(site.node(1), "two", &["RUNNING"])?;
    Ok(Some((site, machine)))
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_description_shares_machines_between_virtual_clusters() -> Result<()> {
    let Some((site, _)) = shared().await? else {
        return Ok(());
    };
    for node in site.lan.nodes() {
        ensure!(vcs(node)? == ["speech", "vision"], "{}", node.name());
    }
    let no = write(site.node(1), "no.yaml", &Job::new("no", "true").yaml())?;
    let refused = site.node(1).refused(&["job", "submit", &no], 4)?;
    ensure!(refused.contains("default"), "{refused}");
    // The third machine is promised to others, and idle.
    submit(site.node(1), &stays("more", VISION, 1))?;
    let job = Job {
        gpu: 8,
        extra: "defaults: {virtualCluster: speech}",
        ..Job::new("said", "true")
    };
    submit(site.node(1), &job)?;
    ends(site.node(3), "said")?;
    waits(site.node(2), "more", &["WAITING"])?;
    let share = |name: &str| -> Result<String> {
        let shown = site.node(1).json(&["vc", "show", name])?;
        Ok(format!(
            "{} of {}",
            shown["used"]["gpu"], shown["total"]["gpu"]
        ))
    };
    ensure!(share("vision")? == "16 of 16", "{}", share("vision")?);
    ensure!(share("speech")?.ends_with("of 8"), "{}", share("speech")?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_nobody_changes_a_description_unseen_or_takes_unasked() -> Result<()> {
    let Some((site, machine)) = shared().await? else {
        return Ok(());
    };
    let node = site.node(1);
    let text = promises(&machine, &[("speech", 2), ("vision", 1)]);
    let file = write(node, "less.yaml", &text)?;
    let apply = ["vc", "apply", &file];
    let with = |more: &[&'static str]| [&apply[..], more].concat();
    node.refused(&with(&["--yes"]), 2)?;
    let conflict = node.refused(&with(&["--yes", "--base", "0"]), 4)?;
    ensure!(conflict.contains("version 1"), "{conflict}");
    let what = node.muster(&with(&["--what-if", "-o", "json"]))?;
    ensure!(what.status.code() == Some(1), "{what:?}");
    let what: Value = serde_json::from_slice(&what.stdout)?;
    ensure!(what["lose_quota"][0]["name"] == "two", "{what:#}");
    let harm = node.refused(&with(&["--base", "1"]), 2)?;
    ensure!(harm.contains("admin~two"), "{harm}");
    let wrong = write(node, "wrong.yaml", &text.replace("CPU-NODE", "TPU"))?;
    let wrong = node.refused(&["vc", "apply", &wrong, "--base", "1"], 4)?;
    ensure!(
        wrong.contains("virtualClusters.speech.virtualCells[1]"),
        "{wrong}"
    );
    // All that time nothing was changed; an admin who means it changes it, and takes it back.
    let text = site.node(3).prints(&["vc", "export"])?;
    ensure!(
        text.starts_with("# muster virtual-clusters version 1\n# by hand"),
        "{text}"
    );
    let made = node.prints(&with(&["--base", "1", "--yes"]))?;
    ensure!(made.trim() == "version 2", "{made}");
    let made = site.node(2).prints(&["vc", "rollback", "1"])?;
    ensure!(made.trim() == "version 3", "{made}");
    let history = site.node(3).json(&["vc", "history"])?;
    ensure!(
        history.as_array().is_some_and(|all| all.len() == 3),
        "{history:#}"
    );
    waits(node, "two", &["RUNNING"])?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_new_leader_keeps_to_the_description() -> Result<()> {
    let Some((mut site, machine)) = shared().await? else {
        return Ok(());
    };
    // The founder led from the beginning.
    site.lan.node_mut(1).kill()?;
    lists(site.node(2), &["speech", "vision"])?;
    // What it had promised to `two` counts as used, also where its node has not reported.
    submit(site.node(2), &stays("late", VISION, 1))?;
    waits(site.node(3), "late", &["WAITING"])?;
    site.lan.node_mut(1).start()?;
    waits(site.node(1), "two", &["RUNNING"])?;
    let text = promises(&machine, &[("speech", 1), ("vision", 1)]);
    let file = write(site.node(1), "less.yaml", &text)?;
    let what = site.node(1).muster(&["vc", "apply", &file, "--what-if"])?;
    let said = String::from_utf8_lossy(&what.stdout);
    ensure!(said.contains("admin~two"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_machine_alone_has_stays_when_it_lets_others_in() -> Result<()> {
    if muster_tests::net::missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(2)?;
    let text = "virtualClusters:
  speech: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
  vision: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
";
    lan.start()?;
    let one = lan.node(1);
    let file = write(one, "cluster.yaml", text)?;
    // It promises more than is there.
    one.prints(&["vc", "apply", &file, "--yes"])?;
    lists(one, &["speech", "vision"])?;
    let rules = one.prints(&["rules", "show"])?;
    let rules = write(one, "rules.yaml", &format!("{rules}\n# ours\n"))?;
    one.prints(&["rules", "apply", &rules, "--now"])?;
    let token = lan.found(1)?;
    lan.join(&[2], &token)?;
    Watch::new(&lan, 1..=2).agree(2, LIMIT).await?;
    for node in lan.nodes() {
        lists(node, &["speech", "vision"])?;
    }
    let history = lan.node(2).json(&["vc", "history"])?;
    ensure!(history[0]["author"] == "admin", "{history:#}");
    ensure!(lan.node(2).prints(&["vc", "export"])?.ends_with(text));
    let ours = |text: &str| text.ends_with("# ours\n");
    let began = std::time::Instant::now();
    while !ours(&lan.node(2).prints(&["rules", "show"])?) {
        ensure!(began.elapsed() < LIMIT, "the rules do not come to n2");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Any member may change it, and a restart changes nothing.
    let less = "virtualClusters: {vision: {virtualCells: [{cellType: CPU-NODE, cellNumber: 2}]}}\n";
    let file = write(lan.node(2), "less.yaml", less)?;
    lan.node(2).prints(&["vc", "apply", &file, "--base", "1"])?;
    lan.node_mut(1).stop()?;
    lan.node_mut(1).start()?;
    for node in lan.nodes() {
        lists(node, &["vision"])?;
    }
    // Whoever leaves has what it had before.
    lan.node(2).prints(&["cluster", "leave"])?;
    lists(lan.node(2), &["default"])?;
    ensure!(!ours(&lan.node(2).prints(&["rules", "show"])?));
    lan.node(2).prints(&["vc", "apply", &file, "--yes"])?;
    lists(lan.node(2), &["vision"])?;
    // The last member keeps all of it, without its name.
    lan.node(1).prints(&["cluster", "leave"])?;
    let page = lan.node(1).muster(&["cluster", "status"])?;
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    ensure!(page.contains("alone"), "{page}");
    lists(lan.node(1), &["vision"])?;
    let again = lan.node(1).refused(&["cluster", "leave"], 4)?;
    ensure!(again.contains("alone"), "{again}");
    Ok(())
}

/// Numbers of the nodes that vote about the jobs of a virtual cluster, or of the cluster state.
fn voters(led: &Value) -> BTreeSet<usize> {
    let names = led["voters"].as_array().into_iter().flatten();
    let names = names.filter_map(|name| name.as_str()?.strip_prefix('n')?.parse().ok());
    names.collect()
}

/// A virtual cluster, another one, and three nodes without which the first has no majority, but the
/// other and the cluster have.
fn parted(view: &Value, names: [&str; 3]) -> Result<(String, String, [usize; 3])> {
    let cluster_service = voters(&view["leadership"]);
    for one in names {
        for other in names.iter().filter(|other| **other != one) {
            let own: Vec<_> = voters(&view["vcs"][one]).into_iter().collect();
            let others = voters(&view["vcs"][*other]);
            for (a, b, c) in triples(&own) {
                let outside = |all: &BTreeSet<usize>| [a, b, c].iter().any(|it| !all.contains(it));
                if own.len() == 5 && outside(&others) && outside(&cluster_service) {
                    return Ok((one.to_owned(), (*other).to_owned(), [a, b, c]));
                }
            }
        }
    }
    anyhow::bail!("all vote in the same places: {view:#}")
}

fn triples(of: &[usize]) -> Vec<(usize, usize, usize)> {
    let mut all = Vec::new();
    for (i, a) in of.iter().enumerate() {
        for (j, b) in of.iter().enumerate().skip(i + 1) {
            all.extend(of.iter().skip(j + 1).map(|c| (*a, *b, *c)));
        }
    }
    all
}

/// How long the copies have to ask their leader for the first time.
const COPIES_ASK: Duration = Duration::from_secs(3);

/// Three virtual clusters, each with a task that stays, of which one has lost three of its five voters, and
/// another one and the cluster have not. The third may have lost them too.
struct Torn {
    site: Site,
    names: [&'static str; 3],
    lost: String,
    other: String,
    gone: [usize; 3],
}

impl Torn {
    async fn new() -> Result<Option<Self>> {
        let Some(mut site) = Site::new(7).await? else {
            return Ok(None);
        };
        let names = ["ape", "bee", "cat"];
        let machine = machine(site.node(1))?;
        let text = promises(&machine, &names.map(|name| (name, 1)));
        let file = write(site.node(1), "shared.yaml", &text)?;
        site.node(1).prints(&["vc", "apply", &file])?;
        let kept = |view: &View| {
            let all = names.iter().map(|name| &view.0["vcs"][*name]);
            let mut all = all.chain([&view.0["leadership"]]);
            all.all(|led| voters(led).len() == 5 && led["leader"].is_string())
        };
        let all = Watch::new(&site.lan, 1..=7);
        all.each("five vote on everything", LIMIT, kept).await?;
        for name in names {
            let extra = of(name);
            let goes_on = format!("on-{name}");
            submit(site.node(2), &stays(&goes_on, &extra, 1))?;
            waits(site.node(3), &goes_on, &["RUNNING"])?;
        }
        let (lost, other, gone) = parted(&all.views().await?[0].0, names)?;
        // Each copy asks its leader how far the log is committed, soon after its start. A copy that was not
        // able to ask before the leader was lost cannot say how old it is.
        tokio::time::sleep(COPIES_ASK).await;
        for number in gone {
            site.lan.node_mut(number).kill()?;
        }
        Ok(Some(Self {
            site,
            names,
            lost,
            other,
            gone,
        }))
    }
}

/// What a node tells of a virtual cluster without a leader comes from a copy of its log, and says how old
/// it is; what would change something is refused. Of one that has its leader it is new.
fn tells_of_copies(node: &BareNode, lost: &str, led: &str) -> Result<()> {
    let job = format!("on-{lost}");
    let says = |arguments: &[&str]| -> Result<(String, String)> {
        let told = node.muster(arguments)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&told.stdout), text(&told.stderr));
        ensure!(told.status.success(), "{arguments:?}: {out}{err}");
        Ok((out, err))
    };
    let (out, err) = says(&["job", "list"])?;
    ensure!(out.contains("short") && out.contains(&job), "{out}{err}");
    let aged = format!("what is shown of {lost} is from ");
    ensure!(err.contains(&aged) && err.contains("ago"), "{err}");
    let list: Value = serde_json::from_str(&says(&["job", "list", "-o", "json"])?.0)?;
    let mut ages = Vec::new();
    for row in list.as_array().context("no list")? {
        let (is_lost, is_old) = (row["vc"] == lost, row["age"].is_object());
        ensure!(is_old || !is_lost, "{row:#}");
        ensure!(!is_old || row["vc"] != led, "{row:#}");
        ages.extend(row["age"]["seconds"].as_u64().filter(|_| is_lost));
    }
    ensure!(matches!(ages[..], [1..120]), "{ages:?}");
    let (out, err) = says(&["job", "show", &job, "-o", "json"])?;
    let shown: Value = serde_json::from_str(&out)?;
    ensure!(err.contains(&aged) && shown["state"] == "RUNNING", "{out}");
    // It grows.
    let later = shown["age"]["seconds"].as_u64();
    ensure!(later >= ages.first().copied(), "{ages:?}, then {later:?}");
    let (out, err) = says(&["vc", "list"])?;
    ensure!(out.contains(lost) && err.contains(&aged), "{out}{err}");
    // One that has ended elsewhere may have a namesake there by now.
    for job in [&*job, "short"] {
        let stopped = node.muster(&["job", "stop", job])?;
        let why = String::from_utf8_lossy(&stopped.stderr).into_owned();
        ensure!(
            !stopped.status.success() && why.contains(lost),
            "{job}: {why}"
        );
    }
    Ok(())
}

/// What names a job's virtual cluster.
fn of(vc: &str) -> String {
    format!("defaults: {{virtualCluster: {vc}}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_virtual_cluster_without_its_majority_stops_no_other() -> Result<()> {
    let Some(torn) = Torn::new().await? else {
        return Ok(());
    };
    let Torn {
        mut site,
        names,
        lost,
        other,
        gone,
    } = torn;
    let mut left = site.lan.nodes().iter().filter(|node| node.runs());
    let (first, second) = left.next().zip(left.next()).context("nobody is left")?;
    let begun = Instant::now();
    let extra = of(&other);
    let short = Job {
        extra: &extra,
        ..Job::new("short", "true")
    };
    submit(first, &short)?;
    ends(second, "short")?;
    println!("{other} went on {:?} without {lost}", begun.elapsed());
    for node in [first, second] {
        tells_of_copies(node, &lost, &other)?;
    }
    let extra = of(&lost);
    let late = Job {
        extra: &extra,
        ..Job::new("late", "true")
    };
    let path = write(first, "late.yaml", &late.yaml())?;
    let refused = first.muster(&["job", "submit", &path])?;
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(!refused.status.success() && why.contains(&lost), "{why}");
    for number in gone {
        site.lan.node_mut(number).start()?;
    }
    // Who has just started has to hear first which virtual clusters there are.
    let begun = Instant::now();
    loop {
        match submit(site.node(gone[0]), &late) {
            Ok(()) => break,
            Err(why) => ensure!(begun.elapsed() < LIMIT, "{why:#}"),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    ends(site.node(gone[1]), "late")?;
    let begun = Instant::now();
    let is_aged = |list: &Value| {
        let mut rows = list.as_array().into_iter().flatten();
        rows.any(|row| row["age"].is_object())
    };
    while is_aged(&site.node(gone[2]).json(&["job", "list"])?) {
        ensure!(
            begun.elapsed() < LIMIT,
            "{lost} is led, and copies are told"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    for name in names {
        let name = format!("on-{name}");
        let detail = waits(site.node(gone[2]), &name, &["RUNNING"])?;
        ensure!(detail["summary"]["retries"]["total"] == 0, "{detail:#}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_virtual_cluster_goes_on_without_most_of_its_voters() -> Result<()> {
    let Some(torn) = Torn::new().await? else {
        return Ok(());
    };
    let Torn {
        mut site,
        names,
        lost,
        other,
        gone,
    } = torn;
    let mut left = site.lan.nodes().iter().filter(|node| node.runs());
    let (first, second) = left.next().zip(left.next()).context("nobody is left")?;
    let refused = |node: &BareNode, arguments: &[&str]| -> Result<String> {
        let refused = node.muster(arguments)?;
        ensure!(!refused.status.success(), "{arguments:?} was not refused");
        Ok(String::from_utf8_lossy(&refused.stderr).into_owned())
    };
    let recover = ["cluster", "recover", "--vc"];
    // Until it is known who is gone, nothing is told. Then it is, with the command that does it.
    let begun = Instant::now();
    let told = loop {
        let told = first.prints(&[&recover[..], &[&lost]].concat());
        if told.is_ok() || begun.elapsed() > LIMIT {
            break told?;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    println!("it was told {:?} later how {lost} goes on", begun.elapsed());
    let begun = Instant::now();
    let why = refused(first, &[&recover[..], &[&other]].concat())?;
    ensure!(why.contains("nothing to recover"), "{why}");
    let why = refused(first, &[&recover[..], &["dog"]].concat())?;
    ensure!(
        why.contains("no virtual cluster is called \"dog\""),
        "{why}"
    );
    let plan = second.json(&[&recover[..], &[&lost]].concat())?;
    let missing = plan["missing"].as_array().into_iter().flatten();
    let missing: Vec<String> = missing
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    let gone_names: BTreeSet<_> = gone.iter().map(|it| site.node(*it).name()).collect();
    ensure!(
        gone_names.iter().eq(&BTreeSet::from_iter(missing.clone())) && plan["generation"] == 2,
        "{plan} for {gone_names:?}"
    );
    let command = format!("--vc {lost} --lost {}", missing.join(","));
    ensure!(told.contains(&command), "{told}");
    let two = missing[..2].join(",");
    let why = refused(first, &[&recover[..], &[&lost, "--lost", &two]].concat())?;
    ensure!(why.contains(&missing[2]), "{why}");
    let all = missing.join(",");
    first.prints(&[&recover[..], &[&lost, "--lost", &all]].concat())?;
    let extra = of(&lost);
    let short = Job {
        extra: &extra,
        ..Job::new("short", "true")
    };
    submit(second, &short)?;
    ends(first, "short")?;
    println!("{lost} went on {:?} later", begun.elapsed());
    // Whoever was lost comes back, all of them, and knows nothing of it.
    for number in gone {
        site.lan.node_mut(number).start()?;
    }
    let kept = |view: &View| {
        let led = &view.0["vcs"][lost.as_str()];
        voters(led).len() == 5 && led["leader"].is_string()
    };
    let all = Watch::new(&site.lan, 1..=7);
    all.each("five vote again", LIMIT, kept).await?;
    let late = Job {
        extra: &extra,
        ..Job::new("late", "true")
    };
    submit(site.node(gone[0]), &late)?;
    ends(site.node(gone[1]), "late")?;
    for name in names {
        let name = format!("on-{name}");
        let detail = waits(site.node(gone[2]), &name, &["RUNNING"])?;
        let attempt = &detail["summary"]["retries"]["total"];
        ensure!(attempt == 0, "{name} was started anew: {detail:#}");
    }
    Ok(())
}

/// A job of speech has two machines at once, and ends.
fn two_for_speech(site: &Site) -> Result<()> {
    let job = Job {
        gpu: 8,
        instances: 2,
        extra: "defaults: {virtualCluster: speech}",
        ..Job::new("promised", "sleep 2")
    };
    let begun = Instant::now();
    submit(site.node(3), &job)?;
    ends(site.node(1), "promised")?;
    println!("what was promised ended after {:?}", begun.elapsed());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_what_was_promised_is_had_in_a_flood_of_others_jobs() -> Result<()> {
    let Some(site) = Site::new(3).await? else {
        return Ok(());
    };
    let machine = machine(site.node(1))?;
    let text = promises(&machine, &[("speech", 2), ("vision", 1)]);
    let file = write(site.node(2), "shared.yaml", &text)?;
    site.node(2).prints(&["vc", "apply", &file])?;
    let oppo = format!("{VISION}\n{OPPORTUNISTIC}");
    let flood: Vec<_> = (1..=6).map(|number| format!("flood-{number}")).collect();
    for name in &flood {
        submit(site.node(1), &stays(name, &oppo, 1))?;
    }
    let runs = || -> Result<Vec<Value>> {
        let all = site.node(2).json(&["job", "list", "--state", "running"])?;
        Ok(all.as_array().cloned().unwrap_or_default())
    };
    let begun = Instant::now();
    while runs()?.len() < 3 {
        ensure!(begun.elapsed() < LIMIT, "{:#?}", runs()?);
        std::thread::sleep(Duration::from_millis(100));
    }
    // Both of speech's machines, at once; by the leader of its own.
    two_for_speech(&site)?;
    // Whoever gave way goes on, uncharged.
    let begun = Instant::now();
    while runs()?.len() < 3 {
        ensure!(begun.elapsed() < LIMIT, "{:#?}", runs()?);
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut gave_way = 0;
    for name in &flood {
        let detail = site.node(2).json(&["job", "show", name])?;
        let retries = &detail["summary"]["retries"];
        ensure!(retries["accountable"] == 0, "{detail:#}");
        gave_way += retries["total"].as_u64().unwrap_or_default();
    }
    ensure!(gave_way == 2, "{gave_way} gave way");
    Ok(())
}

/// Cells change hands between virtual clusters: what runs on them without a promise gives way, but only for
/// who waits.
#[tokio::test(flavor = "multi_thread")]
async fn containerd_who_lost_a_promise_gives_way_to_who_has_it_and_waits() -> Result<()> {
    let Some(site) = Site::new(3).await? else {
        return Ok(());
    };
    let machine = machine(site.node(1))?;
    let describe = |base: &str, vcs: &[(&str, u32)]| -> Result<()> {
        let file = write(site.node(2), "shared.yaml", &promises(&machine, vcs))?;
        let apply = ["vc", "apply", &file, "--yes", "--base", base];
        site.node(2).prints(&apply)?;
        Ok(())
    };
    describe("0", &[("speech", 1), ("vision", 2)])?;
    for name in ["one", "two"] {
        submit(site.node(1), &stays(name, VISION, 1))?;
        waits(site.node(3), name, &["RUNNING"])?;
    }
    describe("1", &[("speech", 2), ("vision", 1)])?;
    // Nobody waits for it: both go on, and whose they are is told.
    let lacking = || -> Result<bool> {
        let speech = site.node(3).json(&["vc", "show", "speech"])?;
        Ok(speech.to_string().contains("not bound to it yet"))
    };
    let begun = Instant::now();
    while !lacking()? {
        ensure!(begun.elapsed() < LIMIT, "nothing is said to be lacking");
        std::thread::sleep(Duration::from_millis(200));
    }
    let retries = |name: &str| -> Result<Value> {
        let detail = site.node(2).json(&["job", "show", name])?;
        Ok(detail["summary"]["retries"].clone())
    };
    for name in ["one", "two"] {
        ensure!(retries(name)?["total"] == 0, "{name} gave way for nobody");
    }
    two_for_speech(&site)?;
    let (one, two) = (retries("one")?, retries("two")?);
    let total = |it: &Value| it["total"].as_u64().unwrap_or_default();
    ensure!(total(&one) + total(&two) == 1, "{one} and {two}");
    for it in [one, two] {
        ensure!(it["accountable"] == 0, "{it}");
    }
    ensure!(!lacking()?, "speech lacks something still");
    Ok(())
}
