//! What nodes show of themselves, alone and together.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use muster_tests::net::{BareNode, Lan, missing};
use serde_json::Value;

use super::{LIMIT, everywhere};

/// Gets a page as people at a terminal do.
pub(super) fn curl(node: &BareNode, path: &str) -> Result<String> {
    let url = format!("https://{}{path}", SocketAddr::new(node.address(), 7741));
    let options = [
        "--insecure",
        "--silent",
        "--show-error",
        "--fail",
        "--max-time",
        "10",
    ];
    node.namespace()
        .run("curl", &[&options[..], &[&url]].concat(), "")
}

fn status(node: &BareNode) -> Result<Value> {
    let text = curl(node, "/status.json")?;
    serde_json::from_str(&text).with_context(|| text)
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_show_themselves_alone_and_together() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(3)?;
    lan.start()?;
    for node in lan.nodes() {
        let name = node.name();
        let shown = status(node)?;
        assert_eq!(shown["missing"], serde_json::json!([]), "{shown:#}");
        assert_eq!(shown["mesh"]["solo"], true, "{shown:#}");
        assert_eq!(shown["mesh"]["me"], name.as_str(), "{shown:#}");
        assert!(shown["health"]["checks"].is_array(), "{shown:#}");
        let page = curl(node, "/status")?;
        assert!(page.contains(&name) && page.contains("8"), "{page}");
        assert!(!page.contains("<script"), "{page}");
        assert!(curl(node, "/status.txt")?.contains(&name));
    }
    lan.unite().await?;
    for node in lan.nodes() {
        let shown = status(node)?;
        assert_eq!(shown["mesh"]["solo"], false, "{shown:#}");
        assert_eq!(shown["mesh"]["cluster"]["name"], "lab", "{shown:#}");
        let (page, text) = (curl(node, "/status")?, curl(node, "/status.txt")?);
        for other in lan.nodes() {
            for page in [&page, &text] {
                assert!(page.contains(&other.name()), "{page}");
                assert!(page.contains(&other.address().to_string()), "{page}");
            }
        }
        // What signs and admits is in no page.
        for secret in ["secret", "password", "private"] {
            assert!(!page.to_lowercase().contains(secret), "{page}");
        }
    }
    lan.node_mut(3).kill()?;
    let missed = |view: &muster_tests::net::View| view.state("n3") == "unreachable";
    let rest = super::elsewhere(&lan, 3);
    rest.each("the dead is unreachable", LIMIT, missed).await?;
    for number in [1, 2] {
        let page = curl(lan.node(number), "/status.txt")?;
        assert!(page.contains("unreachable"), "{page}");
    }
    lan.node_mut(3).start()?;
    everywhere(&lan).agree(3, LIMIT).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_looks_at_every_member_in_both_directions() -> Result<()> {
    let Some(mut lan) = super::united(3).await? else {
        return Ok(());
    };
    let findings = all_is_well(lan.node(1), "2 members").await?;
    // No container engine: that is trouble, and says what to do.
    let engine = findings.iter().find(|one| one["check"] == "engine");
    let engine = engine.context("engine")?;
    assert_eq!(engine["grade"], "fail", "{engine:#}");
    assert_ne!(engine["remedy"], "", "{engine:#}");
    lan.cut(2, 1)?;
    let bad = examined(lan.node(1))?;
    let reach = bad
        .iter()
        .find(|one| one["check"] == "reach" && one["subject"] == "n2");
    assert_ne!(reach.context("reach")?["grade"], "ok", "{bad:#?}");
    lan.node_mut(2).kill()?;
    lan.node(2).refused(&["doctor"], 3)?;
    Ok(())
}

/// Waits until the doctor finds that all is well with the way to so many members and back, and
/// gives all that it finds.
pub(super) async fn all_is_well(node: &BareNode, members: &str) -> Result<Vec<Value>> {
    // What was opened in order to join has to be closed before all may ask each other.
    let start = Instant::now();
    let findings = loop {
        let findings = examined(node)?;
        let reached = |one: &Value| one["check"] == "reach" && one["grade"] == "ok";
        let reached = findings.iter().find(|one| reached(one));
        if reached.is_some_and(|one| one["subject"] == members) || start.elapsed() > LIMIT {
            break findings;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    for check in ["reach", "back", "clock", "mtu"] {
        let finding = findings.iter().find(|one| one["check"] == check);
        let finding = finding.with_context(|| format!("{check}: {findings:#?}"))?;
        assert_eq!(finding["subject"], members, "{finding:#}");
        assert_eq!(finding["grade"], "ok", "{finding:#}");
    }
    Ok(findings)
}

/// What the doctor finds; the exit code must say whether any of it is trouble.
pub(super) fn examined(node: &BareNode) -> Result<Vec<Value>> {
    let output = node.muster(&["doctor", "-o", "json"])?;
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let trouble = findings.iter().any(|finding| finding["grade"] != "ok");
    assert_eq!(
        output.status.code(),
        Some(i32::from(trouble)),
        "{findings:#?}"
    );
    Ok(findings)
}
