//! A cluster forms, and shows itself.

use std::time::{Duration, Instant};

use anyhow::Result;
use muster_tests::net::{Lan, View, Watch, missing};

use super::{LIMIT, everywhere};

const NODES: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn five_agents_become_one_cluster() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(NODES)?;
    lan.start()?;
    let token = lan.found(1)?;
    for joining in 2..=NODES {
        let start = Instant::now();
        lan.join(&[joining], &token)?;
        let name = lan.node(joining).name();
        let watch = Watch::new(&lan, 1..=joining);
        let seen = |view: &View| view.alive() == joining && view.state(&name) == "alive";
        watch.each("who joined is alive", LIMIT, seen).await?;
        println!("{name}: visible on all after {:?}", start.elapsed());
    }
    let agreed = everywhere(&lan).agree(NODES, LIMIT).await?;
    println!("one digest after {agreed:?}");
    for node in lan.nodes() {
        let members = node.json(&["cluster", "members"])?;
        let shown = View(members);
        assert_eq!(shown.alive(), NODES, "{}", shown.0);
        assert_eq!(shown.0["one_way"], serde_json::json!([]), "{}", shown.0);
        // Exits with 0: all is well.
        let page = node.prints(&["cluster", "status"])?;
        assert!(page.contains("5: 5 alive"), "{page}");
        let table = node.prints(&["cluster", "members"])?;
        for other in lan.nodes() {
            assert!(table.contains(&other.address().to_string()), "{table}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_founder_keeps_its_cluster_and_admits_after_a_restart() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(3)?;
    lan.start()?;
    let token = lan.found(1)?;
    lan.join(&[2], &token)?;
    let before = lan.node(1).json(&["cluster", "status"])?;
    lan.node_mut(1).kill()?;
    lan.node_mut(1).start()?;
    // For a moment nobody leads its virtual clusters, which the command finds wrong.
    let started = Instant::now();
    let after = loop {
        match lan.node(1).json(&["cluster", "status"]) {
            Ok(after) => break after,
            Err(error) if started.elapsed() > LIMIT => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    assert_eq!(before["cluster"], after["cluster"]);
    lan.join(&[3], &token)?;
    everywhere(&lan).agree(3, LIMIT).await?;
    Ok(())
}
