//! Users and groups of a cluster of five: what is changed at one node holds at all of them, also after the
//! leader of the cluster is lost.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hyper::{Method, StatusCode};
use muster_tests::client::Client;
use muster_tests::job::Job;
use muster_tests::net::{Lan, View};
use serde_json::{Value, json};

use super::cluster_group::{leading, voters};
use super::users::admin;
use super::{LIMIT, elsewhere, everywhere, united};

const PASSWORD: &str = "correct horse";
/// How soon what was changed at one node holds at all.
const WITHIN: Duration = Duration::from_secs(2);

/// A request with a JSON body: its status and what was answered.
async fn ask(
    client: &Client,
    method: Method,
    path: &str,
    body: Value,
) -> Result<(StatusCode, String)> {
    let asked = client.send(method, path, "application/json", body.to_string());
    asked.await
}

/// A change that has to be made.
async fn change(client: &Client, method: Method, path: &str, body: Value) -> Result<()> {
    let (status, text) = ask(client, method.clone(), path, body).await?;
    ensure!(status.is_success(), "{method} {path}: {status} {text}");
    Ok(())
}

/// What becomes of a job that this client submits.
async fn submits(client: &Client, name: &str) -> Result<(StatusCode, String)> {
    let yaml = Job::new(name, "true").yaml();
    client
        .send(Method::POST, "/api/v2/jobs", "text/yaml", yaml)
        .await
}

/// Waits until a user can log in at a node, and says how long that took.
pub(super) async fn logged_in(
    lan: &Lan,
    node: usize,
    user: &str,
    password: &str,
) -> Result<(Client, Duration)> {
    let start = Instant::now();
    loop {
        match lan.node(node).visitor().logged_in(user, password).await {
            Ok(client) => return Ok((client, start.elapsed())),
            Err(error) => ensure!(start.elapsed() < LIMIT, "n{node}: {error:#}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a node refuses a token.
async fn refused(lan: &Lan, node: usize, token: &str) -> Result<()> {
    let start = Instant::now();
    let client = lan.node(node).visitor().with_token(token);
    loop {
        let (status, _) = ask(&client, Method::GET, "/api/v2/tokens/check", Value::Null).await?;
        if status == StatusCode::UNAUTHORIZED {
            return Ok(());
        }
        ensure!(start.elapsed() < WITHIN, "n{node} still says {status}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a client is answered so when it asks for the configuration of a job of ann's.
async fn is_shown(client: &Client, status: StatusCode) -> Result<()> {
    let start = Instant::now();
    loop {
        let asked = ask(
            client,
            Method::GET,
            "/api/v2/jobs/ann~ann1/config",
            Value::Null,
        );
        let (found, text) = asked.await?;
        if found == status {
            return Ok(());
        }
        ensure!(start.elapsed() < WITHIN, "{found}: {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// From now on jobs are shown to users of a group with their virtual cluster.
async fn shown_to_groups(admin: &Client) -> Result<()> {
    let text = "access: {jobs: group}".to_owned();
    let path = "/api/muster/v1/documents/policy?base=0";
    let (status, text) = admin.send(Method::PUT, path, "text/yaml", text).await?;
    ensure!(status.is_success(), "{status} {text}");
    Ok(())
}

/// Two groups, one of which may use the virtual cluster, with a user each; by an admin at a node.
async fn two_groups(admin: &Client) -> Result<()> {
    let acl = |vcs: &[&str]| json!({"acls": {"admin": false, "virtualClusters": vcs}});
    let group = |name: &str, vcs: &[&str]| json!({"groupname": name, "description": "", "externalName": "", "extension": acl(vcs)});
    change(
        admin,
        Method::POST,
        "/api/v2/groups",
        group("lab", &["default"]),
    )
    .await?;
    change(admin, Method::POST, "/api/v2/groups", group("guests", &[])).await?;
    // What everybody may use is nothing from now on.
    let data = json!({"patch": true, "data": {"groupname": "default", "extension": acl(&[])}});
    change(admin, Method::PUT, "/api/v2/groups", data).await?;
    for (name, group) in [("ann", "lab"), ("bob", "guests")] {
        let user = json!({"username": name, "email": "", "password": PASSWORD});
        change(admin, Method::POST, "/api/v2/users", user).await?;
        let path = format!("/api/v2/users/{name}/group");
        change(admin, Method::PUT, &path, json!({"groupname": group})).await?;
    }
    Ok(())
}

/// What was changed of users and groups, by which node, the oldest first. Logins are recorded besides.
async fn audit(client: &Client) -> Result<Vec<(String, String, String)>> {
    let log = client.get("/api/muster/v1/audit?limit=1000").await?;
    let records = log["records"].as_array().context("no records")?;
    let text = |record: &Value, key: &str| record[key].as_str().unwrap_or_default().to_owned();
    let shown = |record: &Value| {
        let node = text(&record["by"], "node");
        (text(record, "action"), text(record, "subject"), node)
    };
    let shown = records.iter().rev().map(shown);
    let changes = shown.filter(|(action, ..)| !action.starts_with("token."));
    Ok(changes.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn users_groups_and_audit_hold_on_all_nodes_with_a_leader_lost() -> Result<()> {
    let Some(mut lan) = united(5).await? else {
        return Ok(());
    };
    let five = |view: &View| voters(view).len() == 5;
    everywhere(&lan).each("five vote", LIMIT, five).await?;
    two_groups(&admin(&lan, 2).await?).await?;
    let (mut anns, mut bobs) = (Vec::new(), Vec::new());
    for node in 1..=5 {
        let (ann, took) = logged_in(&lan, node, "ann", PASSWORD).await?;
        println!("n{node} knows a new user after {took:?}");
        let (status, text) = submits(&ann, &format!("ann{node}")).await?;
        ensure!(status != StatusCode::FORBIDDEN, "n{node}: {status} {text}");
        let (bob, _) = logged_in(&lan, node, "bob", PASSWORD).await?;
        let (status, text) = submits(&bob, &format!("bob{node}")).await?;
        ensure!(status == StatusCode::FORBIDDEN, "n{node}: {status} {text}");
        ensure!(text.contains("no group of theirs"), "{text}");
        is_shown(&bob, StatusCode::OK).await?;
        anns.push(ann);
        bobs.push(bob);
    }
    shown_to_groups(&admin(&lan, 3).await?).await?;
    for bob in &bobs {
        is_shown(bob, StatusCode::FORBIDDEN).await?;
        let list = "/api/v2/jobs?username=ann";
        let (status, text) = ask(bob, Method::GET, list, Value::Null).await?;
        ensure!(status == StatusCode::FORBIDDEN, "{status} {text}");
    }
    is_shown(&anns[4], StatusCode::OK).await?;

    let lost = leading(&lan, 0).await?;
    lan.node_mut(lost).kill()?;
    let next = leading(&lan, lost).await?;
    let nodes: Vec<usize> = (1..=5).filter(|node| *node != lost).collect();
    let at = *nodes
        .iter()
        .find(|node| **node != next)
        .context("one node")?;
    let root = admin(&lan, at).await?;
    change(
        &root,
        Method::PUT,
        "/api/v2/users/bob/group",
        json!({"groupname": "lab"}),
    )
    .await?;
    let password = json!({"newPassword": "battery staple"});
    change(&root, Method::PUT, "/api/v2/users/ann/password", password).await?;
    for node in &nodes {
        // All of her logins are over.
        for ann in &anns {
            refused(&lan, *node, ann.token()).await?;
        }
        logged_in(&lan, *node, "ann", "battery staple").await?;
        let (bob, _) = logged_in(&lan, *node, "bob", PASSWORD).await?;
        let (status, text) = submits(&bob, &format!("again{node}")).await?;
        ensure!(status != StatusCode::FORBIDDEN, "n{node}: {status} {text}");
        is_shown(&bob, StatusCode::OK).await?;
    }
    let wrong = lan.node(at).visitor().logged_in("ann", PASSWORD).await;
    ensure!(wrong.is_err(), "the old password");

    let expect = [
        ("group.add", "lab"),
        ("group.add", "guests"),
        ("group.change", "default"),
        ("user.add", "ann"),
        ("user.change", "ann"),
        ("user.add", "bob"),
        ("user.change", "bob"),
        ("user.change", "bob"),
        ("user.change", "ann"),
    ];
    let found = audit(&root).await?;
    let short = |it: &(String, String, String)| (it.0.clone(), it.1.clone());
    let shown: Vec<_> = found.iter().map(short).collect();
    let wanted = expect.map(|(action, subject)| (action.to_owned(), subject.to_owned()));
    ensure!(shown == wanted, "{found:?}");
    let nodes_of: Vec<_> = found.iter().map(|it| it.2.as_str()).collect();
    let late = format!("n{at}");
    ensure!(nodes_of[0] == "n2" && nodes_of[8] == late, "{nodes_of:?}");

    // The one that was away knows all of it.
    lan.node_mut(lost).start()?;
    let five = |view: &View| view.alive() == 5;
    elsewhere(&lan, 0)
        .each("five are alive", LIMIT, five)
        .await?;
    logged_in(&lan, lost, "ann", "battery staple").await?;
    refused(&lan, lost, anns[0].token()).await?;
    Ok(())
}
