//! One run: a cluster is made, attacked while it is used, healed, and judged.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::checker::check;
use super::clients::Clients;
use super::draft::{JobDraft, VCS};
use super::faults::harm::{Harm, heal};
use super::faults::{ScheduleRange, Strike, schedule};
use super::history::{ClientHistory, Mark};
use super::traffic::Traffic;
use super::{HarmKind, NemesisReport, findings, outputs, peace};
use crate::client::Client;
use crate::net::{BareNode, Lan, View, Watch};
use crate::promises::{machine, promises};
use crate::site::Site;
use crate::wall_clock::WallClock;

/// The disk of a node's state, in bytes.
const DISK_BYTES: u64 = 192 << 20;
/// How long the copies of the jobs' log may take to be made.
const FORMING: Duration = Duration::from_secs(90);
/// So many nodes keep the jobs when the attack begins.
const VOTERS: usize = 3;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// What all randomness comes from.
    pub seed: u64,
    /// How many nodes.
    pub nodes: usize,
    /// How long faults are made.
    pub length: Duration,
    /// How long one lasts at most.
    pub longest: Duration,
    /// Which faults.
    pub kinds: Vec<HarmKind>,
    /// Questions a second.
    pub rate: f64,
}

/// Does it, and gives what came of it with everything that this was judged by; nothing where no
/// such cluster can be made.
///
/// # Errors
/// When the cluster cannot be made. What goes wrong later is a violation.
pub async fn run(plan: &RunPlan) -> Result<Option<(NemesisReport, ClientHistory)>> {
    let Some(site) = form(plan).await? else {
        return Ok(None);
    };
    let clients = Arc::new(clients(&site.lan).await?);
    let kinds = possible(plan, &site.lan);
    let strikes = schedule(
        &ScheduleRange {
            nodes: plan.nodes,
            kinds: &kinds,
            length: plan.length,
            longest: plan.longest,
        },
        plan.seed,
    );
    let traffic = Traffic::new(clients.clone(), plan.nodes, plan.seed);
    let traffic = traffic.run(plan.length, plan.rate);
    let (attacked, drafts) = tokio::join!(attack(site, strikes), traffic);
    let (site, faults, mut trouble) = attacked?;
    eprintln!("everything is healed");
    let healed = Instant::now();
    trouble.extend(peace::settle(&site.lan, &clients, &drafts).await);
    let settled = healed.elapsed();
    let history = history(&site.lan, &clients, &drafts, trouble).await;
    let report = NemesisReport {
        seed: plan.seed,
        minutes: round(plan.length.as_secs_f64() / 60.0),
        settled_s: round(settled.as_secs_f64()),
        faults,
        violations: check(&history),
        ..NemesisReport::of(&history)
    };
    Ok(Some((report, history)))
}

/// Makes the cluster: every node has its state on a small disk, and a clock of its own where that
/// can be.
async fn form(plan: &RunPlan) -> Result<Option<Site>> {
    let clock = WallClock::library().filter(|_| plan.kinds.contains(&HarmKind::Clock));
    let full = plan.kinds.contains(&HarmKind::FullDisk);
    let prepared = Site::prepared(plan.nodes, |node| {
        if full {
            node.mount_state(DISK_BYTES)?;
        }
        clock.iter().try_for_each(|library| node.own_clock(library))
    });
    let Some(mut site) = prepared? else {
        return Ok(None);
    };
    site.lan.unite().await?;
    share(site.lan.node(1))?;
    let kept = |view: &View| {
        let mut vcs = VCS.iter();
        vcs.all(|(vc, _)| view.voters(Some(vc)).len() >= VOTERS.min(plan.nodes))
    };
    let all = Watch::new(&site.lan, 1..=plan.nodes);
    all.each("the jobs are kept by three", FORMING, kept)
        .await?;
    Ok(Some(site))
}

/// Promises machines to each virtual cluster.
fn share(node: &BareNode) -> Result<()> {
    let text = promises(&machine(node)?, &VCS);
    let file = node.home().join("shared.yaml");
    std::fs::write(&file, text)?;
    let file = file.to_string_lossy();
    node.prints(&["vc", "apply", &file, "--yes"])?;
    Ok(())
}

/// One client for each node, all logged in by the founder.
async fn clients(lan: &Lan) -> Result<Clients> {
    let token = lan.node(1).client().await?.token().to_owned();
    let nodes = lan.nodes().iter();
    let nodes: Vec<Client> = nodes
        .map(|node| node.visitor().with_token(&token))
        .collect();
    Ok(Clients::new(nodes))
}

/// The kinds of faults that can be made here; the others are told.
fn possible(plan: &RunPlan, lan: &Lan) -> Vec<HarmKind> {
    let can = |kind: &HarmKind| match kind {
        HarmKind::Delay => lan.delay(1, 0).is_ok(),
        HarmKind::Clock => lan.node(1).clock().is_ok(),
        _ => true,
    };
    let (can, cannot): (Vec<HarmKind>, Vec<HarmKind>) = plan.kinds.iter().copied().partition(can);
    for kind in cannot {
        eprintln!(
            "SKIPPED: faults of the kind {} cannot be made here",
            kind.name()
        );
    }
    can
}

type Attacked = (Site, BTreeMap<&'static str, u64>, Vec<String>);

/// Makes all the faults and heals them, on a thread that may wait. It ends early when nobody waits
/// for it any more, and takes everything down.
async fn attack(mut site: Site, strikes: Vec<Strike>) -> Result<Attacked> {
    let (_awaited, over) = mpsc::channel();
    let attack = move || {
        let faults = Harm::new(&mut site.lan, over).run(&strikes);
        let trouble = heal(&mut site.lan);
        (site, faults, trouble)
    };
    Ok(tokio::task::spawn_blocking(attack).await?)
}

async fn history(
    lan: &Lan,
    clients: &Clients,
    drafts: &BTreeMap<Mark, JobDraft>,
    trouble: Vec<String>,
) -> ClientHistory {
    let mut ending = findings::ending(lan, clients).await;
    ending.trouble.extend(trouble);
    let orders = drafts.iter().map(|(mark, draft)| (*mark, draft.order()));
    ClientHistory {
        orders: orders.collect(),
        operations: clients.operations(),
        runs: outputs::runs(lan),
        ending,
    }
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
