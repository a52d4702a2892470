//! The failure rules as a document of the cluster.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hyper::{Method, StatusCode};
use muster_tests::client::Client;
use muster_tests::net::{BareNode, Lan, View, Watch, missing};
use serde_json::{Value, json};

use super::people::logged_in;
use super::{LIMIT, elsewhere, everywhere};

/// So short that a test can wait for it.
const SOAK: &str = "documents: {soak_s: 1}\n";

/// Rules that differ by one word.
pub(super) fn rules(word: &str) -> String {
    let pattern = "{runtimeContainerPatterns: [{exitCode: 77}]}";
    format!("spec:\n- {{code: 230, phrase: {word}, pattern: {pattern}}}\n")
}

/// Writes the rules and has the node apply them, with these options.
fn apply(node: &BareNode, text: &str, options: &[&str]) -> Result<std::process::Output> {
    let file = node.home().join("rules.yaml");
    std::fs::write(&file, text)?;
    let file = file.to_string_lossy();
    node.muster(&[&["rules", "apply", &file], options].concat())
}

pub(super) fn applied(node: &BareNode, text: &str, options: &[&str]) -> Result<String> {
    let output = apply(node, text, options)?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{error}");
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

pub(super) fn document(view: &View) -> &Value {
    named(view, "failure-rules")
}

fn named<'a>(view: &'a View, name: &str) -> &'a Value {
    let documents = view.0["documents"].as_array().into_iter().flatten();
    let mut found = documents.filter(|one| one["name"] == name);
    found.next().unwrap_or(&Value::Null)
}

/// Whether this version is in force here and known to be on all.
fn in_force(view: &View, version: u64, members: u64) -> bool {
    let document = document(view);
    document["newest"]["version"] == version
        && document["newest"]["stage"] == "active"
        && document["here"]["active"] == version
        && document["coverage"]["active"] == members
}

async fn short_soak(nodes: usize) -> Result<Option<Lan>> {
    if missing().is_some() {
        return Ok(None);
    }
    let mut lan = Lan::new(nodes)?;
    lan.unite().await?;
    let file = lan.node(1).home().join("policy.yaml");
    std::fs::write(&file, SOAK)?;
    lan.node(1)
        .prints(&["policy", "apply", &file.to_string_lossy()])?;
    let soak = |view: &View| {
        let policy = named(view, "policy");
        policy["here"]["active"] == 1
    };
    everywhere(&lan).each("the policy", LIMIT, soak).await?;
    Ok(Some(lan))
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_go_everywhere_in_steps_and_back() -> Result<()> {
    let Some(lan) = short_soak(4).await? else {
        return Ok(());
    };
    let all = everywhere(&lan);
    // At a member that orders nothing itself.
    assert_eq!(applied(lan.node(3), &rules("First"), &[])?, "version 1");
    let valid = |view: &View| document(view)["coverage"]["valid"] == 4;
    let time = all.each("valid on all", LIMIT, valid).await?;
    println!("version 1 valid on all after {time:?}");
    let time = all
        .each("active on all", LIMIT, |view| in_force(view, 1, 4))
        .await?;
    println!("version 1 in force on all after {time:?}");
    for node in lan.nodes() {
        let status = node.prints(&["rules", "status"])?;
        ensure!(status.contains("version 1: 4 of 4"), "{status}");
        let shown = node.prints(&["rules", "show"])?;
        ensure!(shown.contains("First"), "{shown}");
    }
    let second = ["--now", "--base", "1"];
    assert_eq!(
        applied(lan.node(2), &rules("Second"), &second)?,
        "version 2"
    );
    all.each("2 is in force", LIMIT, |view| in_force(view, 2, 4))
        .await?;
    let back = lan.node(4).prints(&["rules", "rollback", "1"])?;
    assert_eq!(back.trim(), "version 3");
    all.each("3 is in force", LIMIT, |view| in_force(view, 3, 4))
        .await?;
    let shown = lan.node(1).prints(&["rules", "show"])?;
    ensure!(
        shown.contains("First") && !shown.contains("Second"),
        "{shown}"
    );
    let history = lan.node(2).json(&["rules", "history"])?;
    let versions: Vec<_> = history.as_array().context("history")?.iter().collect();
    assert_eq!(versions.len(), 3, "{history:#}");
    assert_eq!(versions[1]["forced"], true, "{history:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_and_conflicting_rules_are_refused() -> Result<()> {
    let Some(lan) = short_soak(3).await? else {
        return Ok(());
    };
    let all = everywhere(&lan);
    let broken = rules("Broken").replace("77", "many");
    let output = apply(lan.node(2), &broken, &[])?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    ensure!(
        text.contains("exitCode") && text.contains("rules.yaml"),
        "{text}"
    );
    let output = apply(lan.node(2), "spec:\n- code: [1\n  phrase\n", &[])?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    ensure!(text.contains("line"), "{text}");
    // Past the command line's own check, the agent's holds.
    let client = super::users::admin(&lan, 2).await?;
    let put = |base: u64, text: String| {
        let path = format!("/api/muster/v1/documents/failure-rules?base={base}&now=true");
        let client = client.clone();
        async move { client.send(Method::PUT, &path, "text/yaml", text).await }
    };
    let (status, text) = put(0, broken).await?;
    assert_eq!(status.as_u16(), 400, "{text}");
    ensure!(text.contains("exitCode"), "{text}");

    // Two edits of the same version, at two nodes at once: one of them is told.
    let (one, two) = tokio::try_join!(put(0, rules("One")), put(0, rules("Two")))?;
    let mut codes = [one.0.as_u16(), two.0.as_u16()];
    codes.sort_unstable();
    assert_eq!(codes, [200, 409], "{one:?} {two:?}");
    all.each("1 is in force", LIMIT, |view| in_force(view, 1, 3))
        .await?;
    let stale = apply(lan.node(3), &rules("Stale"), &["--base", "0"])?;
    let text = String::from_utf8_lossy(&stale.stderr).into_owned();
    assert_eq!(stale.status.code(), Some(4), "{text}");
    ensure!(text.contains("version 1") || text.contains('1'), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_slept_through_versions_catches_up() -> Result<()> {
    let Some(mut lan) = short_soak(3).await? else {
        return Ok(());
    };
    lan.node_mut(3).stop()?;
    let awake = elsewhere(&lan, 3);
    let gone = |view: &View| view.state("n3") == "unreachable";
    awake.each("n3 is unreachable", LIMIT, gone).await?;
    for version in 1..=3_u64 {
        let base = (version - 1).to_string();
        let text = rules(&format!("Version{version}"));
        applied(lan.node(2), &text, &["--now", "--base", &base])?;
        let known = |view: &View| in_force(view, version, 2);
        awake.each("in force on who is awake", LIMIT, known).await?;
    }
    let status = lan.node(1).prints(&["rules", "status"])?;
    ensure!(
        status.contains("2 of 3") && status.contains("unreachable: n3"),
        "{status}"
    );
    lan.node_mut(3).start()?;
    let late = Watch::new(&lan, [3]);
    let time = late
        .each("it catches up", LIMIT, |view| in_force(view, 3, 3))
        .await?;
    println!("three versions later: caught up after {time:?}");
    let all = everywhere(&lan);
    all.each("all know it", LIMIT, |view| in_force(view, 3, 3))
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_outlive_a_restart() -> Result<()> {
    let Some(mut lan) = short_soak(2).await? else {
        return Ok(());
    };
    applied(lan.node(1), &rules("Kept"), &["--now"])?;
    let all = everywhere(&lan);
    all.each("in force", LIMIT, |view| in_force(view, 1, 2))
        .await?;
    // Alone, and from its own disk.
    lan.stop()?;
    lan.node_mut(2).start()?;
    let alone = Watch::new(&lan, [2]);
    let kept = |view: &View| document(view)["here"]["active"] == 1;
    alone.each("in force from the disk", LIMIT, kept).await?;
    let shown = lan.node(2).prints(&["rules", "show"])?;
    ensure!(shown.contains("Kept"), "{shown}");
    Ok(())
}

/// Has an administrator change something of people.
async fn change(admin: &Client, method: Method, path: &str, body: Value) -> Result<()> {
    let sent = admin.send(method, path, "application/json", body.to_string());
    let (status, text) = sent.await?;
    ensure!(status.is_success(), "{path}: {status} {text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_former_admin_sends_again_changes_no_rules() -> Result<()> {
    let Some(lan) = short_soak(3).await? else {
        return Ok(());
    };
    let all = everywhere(&lan);
    let root = super::users::admin(&lan, 1).await?;
    let user = json!({"username": "eve", "email": "", "password": "correct horse", "admin": true});
    change(&root, Method::POST, "/api/v2/users", user).await?;
    let (login, _) = logged_in(&lan, 2, "eve", "correct horse").await?;
    let eve = |node: usize| lan.node(node).visitor().with_token(login.token());
    let put = |node: usize, base: u64| {
        let path = format!("/api/muster/v1/documents/failure-rules?base={base}&now=true");
        let client = eve(node);
        async move {
            let text = rules("Eve");
            client.send(Method::PUT, &path, "text/yaml", text).await
        }
    };
    let (status, text) = put(2, 0).await?;
    ensure!(status.is_success(), "{status} {text}");
    all.each("1 is in force", LIMIT, |view| in_force(view, 1, 3))
        .await?;
    let demoted = json!({"admin": false});
    change(&root, Method::PUT, "/api/v2/users/eve/admin", demoted).await?;
    for node in 1..=3 {
        let begun = Instant::now();
        let client = eve(node);
        while client.text("/api/muster/v1/audit?limit=1").await.is_ok() {
            ensure!(begun.elapsed() < LIMIT, "n{node} takes her for an admin");
        }
        // The same request, and the one that would come next.
        for base in [0, 1] {
            let (status, text) = put(node, base).await?;
            assert_eq!(status, StatusCode::FORBIDDEN, "n{node}: {text}");
        }
    }
    let history = lan.node(3).json(&["rules", "history"])?;
    assert_eq!(
        history.as_array().context("history")?.len(),
        1,
        "{history:#}"
    );
    Ok(())
}
