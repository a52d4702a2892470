//! Machines that have IPv6 and nothing else.

use anyhow::{Context as _, Result, ensure};
use muster_tests::net::{Lan, View, missing_ipv6};

use super::pages::{all_is_well, curl, examined};
use super::{LIMIT, elsewhere, everywhere};

#[tokio::test(flavor = "multi_thread")]
async fn machines_with_ipv6_alone_are_one_cluster() -> Result<()> {
    if missing_ipv6().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(3)?;
    lan.move_to_ipv6()?;
    for number in [1, 2] {
        lan.node(number)
            .configure("[http]\nlisten = \"[::]:7741\"\n")?;
    }
    lan.unite().await?;
    let all = everywhere(&lan);
    for view in all.views().await? {
        for number in 1..=3 {
            let addresses = &view.member(&format!("n{number}"))["addresses"];
            let expect = serde_json::json!([format!("[fd77::{number}]:7740")]);
            ensure!(*addresses == expect, "n{number}: {addresses}");
        }
    }
    let findings = all_is_well(lan.node(1), "2 members").await?;
    let port = |one: &&serde_json::Value| one["check"] == "port" && one["grade"] != "ok";
    ensure!(!findings.iter().any(|one| port(&one)), "{findings:#?}");
    // Node 2 shows itself to the others.
    let target = curl(lan.node(2), "/status.json")?;
    ensure!(target.contains("fd77::3"), "{target}");
    // Node 3 has a page that nobody else can see; its doctor says so.
    let findings = examined(lan.node(3))?;
    let closed = findings.iter().find(port).context("no warning")?;
    let remedy = closed["remedy"].as_str().unwrap_or_default();
    ensure!(remedy.contains("http.listen = \"[::]:7741\""), "{closed}");

    lan.node_mut(2).kill()?;
    let gone = |view: &View| view.state("n2") == "unreachable";
    elsewhere(&lan, 2).each("n2 is gone", LIMIT, gone).await?;
    lan.node_mut(2).start()?;
    all.agree(3, LIMIT).await?;
    Ok(())
}
