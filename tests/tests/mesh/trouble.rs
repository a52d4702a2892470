//! Loss, cuts, pauses, crashes and moves: what the others see, and that it passes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use muster_tests::net::{View, Watch};
use serde_json::json;

use super::{LIMIT, elsewhere, everywhere, united};

const NODES: usize = 5;

fn nobody_is_unreachable(view: &View) -> bool {
    let mut members = view.members().iter();
    members.all(|member| member["reach"] != "unreachable")
}

#[tokio::test(flavor = "multi_thread")]
async fn loss_and_cuts_are_seen_and_heal() -> Result<()> {
    let Some(mut lan) = united(NODES).await? else {
        return Ok(());
    };
    let all = everywhere(&lan);
    lan.lose_everywhere(20)?;
    let bad = Duration::from_secs(15);
    all.always("20 % loss costs no member", bad, nobody_is_unreachable)
        .await?;
    lan.heal()?;
    println!("after loss: {:?}", all.agree(NODES, LIMIT).await?);

    lan.cut(2, 4)?;
    let link = json!([{"from": "n4", "to": "n2"}]);
    let seen = |view: &View| view.0["one_way"] == link;
    let time = all.each("n4 reaches n2 only", LIMIT, seen).await?;
    println!("one-way link seen on all after {time:?}");
    let shown = lan.node(1).json(&["cluster", "members"])?;
    assert_eq!(shown["one_way"], link, "{shown:#}");
    all.always(
        "no majority misses anybody",
        Duration::from_secs(4),
        nobody_is_unreachable,
    )
    .await?;
    lan.heal()?;
    println!("after the cut: {:?}", all.agree(NODES, LIMIT).await?);

    lan.cut_node(5)?;
    let gone = |view: &View| view.state("n5") == "unreachable" && view.alive() == NODES - 1;
    let rest = elsewhere(&lan, 5);
    let time = rest.each("n5 is unreachable", LIMIT, gone).await?;
    println!("cut off, unreachable on all after {time:?}");
    let alone = |view: &View| (1..NODES).all(|n| view.state(&format!("n{n}")) == "unreachable");
    let cut = Watch::new(&lan, [5]);
    cut.each("n5 reaches nobody", LIMIT, alone).await?;
    lan.node(1).refused(&["cluster", "status"], 1)?;
    lan.heal()?;
    println!("healed: {:?}", all.agree(NODES, LIMIT).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn halves_give_each_other_up_and_agree_again() -> Result<()> {
    let Some(mut lan) = united(NODES).await? else {
        return Ok(());
    };
    let all = everywhere(&lan);
    lan.split(3)?;
    let parted = |views: &[View]| {
        let (left, right) = views.split_at(3);
        left.iter().all(|view| view.alive() == 3) && right.iter().all(|view| view.alive() == 2)
    };
    all.all("halves see themselves only", LIMIT, parted).await?;
    // Each half goes on: what changes in one is news to the other later.
    lan.node(1).prints(&["cluster", "token", "create"])?;
    lan.heal()?;
    println!("halves healed: {:?}", all.agree(NODES, LIMIT).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stands_still_is_missed_and_comes_back() -> Result<()> {
    let Some(lan) = united(4).await? else {
        return Ok(());
    };
    let (all, rest) = (everywhere(&lan), elsewhere(&lan, 3));
    let before = rest.views().await?[0].incarnation("n3");
    let start = Instant::now();
    lan.node(3).pause()?;
    let suspected = |view: &View| view.state("n3") != "alive";
    let time = rest.each("n3 is suspect", LIMIT, suspected).await?;
    println!("paused, suspect on all after {time:?}");
    let gone = |view: &View| view.state("n3") == "unreachable" && view.alive() == 3;
    rest.each("n3 is unreachable", LIMIT, gone).await?;
    println!("paused, unreachable on all after {:?}", start.elapsed());
    let still = Duration::from_secs(30).saturating_sub(start.elapsed());
    rest.always("n3 stays unreachable", still, gone).await?;
    lan.node(3).resume()?;
    println!("resumed: {:?}", all.agree(4, LIMIT).await?);
    let after = rest.views().await?[0].incarnation("n3");
    println!("incarnation {before}, then {after}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_moved_nodes_are_alive_again() -> Result<()> {
    let Some(mut lan) = united(NODES).await? else {
        return Ok(());
    };
    let all = everywhere(&lan);
    for victim in [3, 1] {
        let name = lan.node(victim).name();
        let rest = elsewhere(&lan, victim);
        let before = rest.views().await?[0].incarnation(&name);
        lan.node_mut(victim).kill()?;
        let suspected = |view: &View| view.state(&name) != "alive";
        let time = rest.each("the dead is suspect", LIMIT, suspected).await?;
        println!("{name} killed, suspect on all after {time:?}");
        lan.node_mut(victim).start()?;
        let anew = |view: &View| view.state(&name) == "alive" && view.incarnation(&name) > before;
        let time = all.each("it starts anew", LIMIT, anew).await?;
        println!("{name} started, alive on all after {time:?}");
        all.agree(NODES, LIMIT).await?;
    }
    lan.move_address(4)?;
    let address = format!("{}:7740", lan.node(4).address());
    let found = |view: &View| {
        let addresses = &view.member("n4")["addresses"];
        let mut addresses = addresses.as_array().into_iter().flatten();
        addresses.any(|one| one == address.as_str()) && view.state("n4") == "alive"
    };
    let time = all.each("n4 is known where it is", LIMIT, found).await?;
    println!("n4 moved, known on all after {time:?}");
    all.agree(NODES, LIMIT).await?;
    let table = lan.node(1).prints(&["cluster", "members"])?;
    ensure!(table.contains(&address), "{table}");
    Ok(())
}

/// An engine that takes calls and answers none, as a containerd that hangs: it is asked every 5 s,
/// and after 15 s without an answer the agent says that it is stuck.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_engine_hangs_says_so_and_is_suspect() -> Result<()> {
    let Some(lan) = united(3).await? else {
        return Ok(());
    };
    let all = everywhere(&lan);
    let socket = lan.node(2).home().join("no-containerd.sock");
    let engine = std::os::unix::net::UnixListener::bind(&socket)?;
    let stuck = |view: &View| {
        let why = view.member("n2")["why"].to_string();
        view.state("n2") == "suspect" && why.contains("its agent is stuck")
    };
    let time = all.each("n2 is stuck", 3 * LIMIT, stuck).await?;
    println!("stuck engine, suspect on all after {time:?}");
    let table = lan.node(1).prints(&["cluster", "members"])?;
    ensure!(table.contains("suspect for"), "{table}");
    ensure!(
        table.contains("no task can start: it gave no answer"),
        "{table}"
    );
    drop(engine);
    std::fs::remove_file(&socket)?;
    println!("engine away: {:?}", all.agree(3, LIMIT).await?);
    Ok(())
}
