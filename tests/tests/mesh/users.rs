//! One set of users: who logs in at one node is known at all of them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hyper::{Method, StatusCode};
use muster_tests::client::Client;
use muster_tests::net::{Lan, View};

use super::cluster_group::{leading, voters};
use super::{LIMIT, elsewhere, everywhere, united};

const CHECK: &str = "/api/v2/tokens/check";
/// How soon a token that was revoked is refused by all.
const REVOKED_WITHIN: Duration = Duration::from_secs(2);

/// The password of the node's own admin.
fn password(lan: &Lan, node: usize) -> Result<String> {
    let path = lan.node(node).home().join("state/admin-password");
    Ok(std::fs::read_to_string(path)?.trim().to_owned())
}

/// The cluster's admin, logged in at a node. The first one founded it.
pub(super) async fn admin(lan: &Lan, node: usize) -> Result<Client> {
    let password = password(lan, 1)?;
    lan.node(node).visitor().logged_in("admin", &password).await
}

/// The same with a token of its own: two logins in one second give the same one.
async fn another(lan: &Lan, node: usize, first: &Client) -> Result<Client> {
    loop {
        let client = admin(lan, node).await?;
        if client.token() != first.token() {
            return Ok(client);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn request(client: &Client, method: Method, path: &str) -> Result<(StatusCode, String)> {
    let asked = client.send(method, path, "application/json", String::new());
    asked.await
}

/// What a node says to this token.
async fn check(lan: &Lan, node: usize, token: &str) -> Result<StatusCode> {
    let client = lan.node(node).visitor().with_token(token);
    Ok(request(&client, Method::GET, CHECK).await?.0)
}

/// Waits until a node refuses the token.
async fn refused(lan: &Lan, node: usize, token: &str, limit: Duration) -> Result<Duration> {
    let start = Instant::now();
    loop {
        match check(lan, node, token).await? {
            StatusCode::UNAUTHORIZED => return Ok(start.elapsed()),
            status => ensure!(start.elapsed() < limit, "n{node} still says {status}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn application_token(client: &Client) -> Result<String> {
    let (status, text) = request(client, Method::POST, "/api/v2/tokens/application").await?;
    ensure!(status == StatusCode::OK, "{status}: {text}");
    let answer: serde_json::Value = serde_json::from_str(&text)?;
    Ok(answer["token"].as_str().context("no token")?.to_owned())
}

/// Three nodes that all vote.
async fn three() -> Result<Option<Lan>> {
    let Some(lan) = united(3).await? else {
        return Ok(None);
    };
    let three = |view: &View| voters(view).len() == 3;
    everywhere(&lan).each("three vote", LIMIT, three).await?;
    Ok(Some(lan))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_login_is_good_everywhere_until_it_is_revoked() -> Result<()> {
    let Some(lan) = three().await? else {
        return Ok(());
    };
    let client = admin(&lan, 2).await?;
    for node in 1..=3 {
        let status = check(&lan, node, client.token()).await?;
        ensure!(status == StatusCode::OK, "n{node}: {status}");
    }
    let own = password(&lan, 3)?;
    let wrong = lan.node(3).visitor().logged_in("admin", &own).await;
    let wrong = wrong.err().context("a password of before")?.to_string();
    ensure!(wrong.contains("400"), "{wrong}");
    // Tokens are listed and revoked anywhere.
    let other = another(&lan, 1, &client).await?;
    let listed = other.text("/api/v2/tokens").await?;
    ensure!(listed.contains(client.token()), "{listed}");
    let path = format!("/api/v2/tokens/{}", client.token());
    let (status, text) = request(&other, Method::DELETE, &path).await?;
    ensure!(status == StatusCode::OK, "{status}: {text}");
    let here = check(&lan, 1, client.token()).await?;
    ensure!(
        here == StatusCode::UNAUTHORIZED,
        "where it was revoked: {here}"
    );
    for node in [3, 2] {
        let took = refused(&lan, node, client.token(), REVOKED_WITHIN).await?;
        println!("n{node} refuses a revoked token after {took:?}");
    }
    // Who leaves has its own users again, and none of the cluster's.
    lan.node(3).prints(&["cluster", "leave"])?;
    lan.node(3).visitor().logged_in("admin", &own).await?;
    let theirs = check(&lan, 3, other.token()).await?;
    ensure!(
        theirs == StatusCode::UNAUTHORIZED,
        "after leaving: {theirs}"
    );
    let still = check(&lan, 2, other.token()).await?;
    ensure!(still == StatusCode::OK, "the others: {still}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_founder_keeps_its_logins() -> Result<()> {
    if muster_tests::net::missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(2)?;
    lan.start()?;
    let up = |view: &View| view.alive() == 1;
    everywhere(&lan).each("up", LIMIT, up).await?;
    let before = admin(&lan, 1).await?;
    let token = lan.found(1)?;
    let status = check(&lan, 1, before.token()).await?;
    ensure!(status == StatusCode::OK, "at the founder: {status}");
    lan.join(&[2], &token)?;
    // What the join brought is enough: nobody has to be asked.
    lan.node_mut(1).kill()?;
    let status = check(&lan, 2, before.token()).await?;
    ensure!(status == StatusCode::OK, "at who joined: {status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_stay_good_with_nobody_to_ask() -> Result<()> {
    let Some(mut lan) = three().await? else {
        return Ok(());
    };
    let token = application_token(&admin(&lan, 1).await?).await?;
    let status = check(&lan, 3, &token).await?;
    ensure!(status == StatusCode::OK, "at once: {status}");
    for node in [1, 2, 3] {
        lan.node_mut(node).kill()?;
    }
    lan.node_mut(3).start()?;
    let status = check(&lan, 3, &token).await?;
    ensure!(status == StatusCode::OK, "alone after a restart: {status}");
    let start = Instant::now();
    let failed = admin(&lan, 3).await.err().context("nobody to ask")?;
    let text = failed.to_string();
    println!("a login is refused after {:?}: {text}", start.elapsed());
    ensure!(text.contains("503") && text.contains("voters"), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_go_on_when_the_leader_is_lost() -> Result<()> {
    let Some(mut lan) = three().await? else {
        return Ok(());
    };
    let first = leading(&lan, 0).await?;
    let asked = if first == 2 { 3 } else { 2 };
    let before = admin(&lan, asked).await?;
    let password = password(&lan, 1)?;
    lan.node_mut(first).kill()?;
    let start = Instant::now();
    let visitor = lan.node(asked).visitor();
    let client = visitor.logged_in("admin", &password).await?;
    println!("a login {:?} after the leader was killed", start.elapsed());
    ensure!(start.elapsed() < Duration::from_secs(10), "too late");
    let rest = elsewhere(&lan, first);
    let led = |view: &View| view.0["leadership"]["leader"].is_string();
    rest.each("somebody leads", LIMIT, led).await?;
    for node in (1..=3).filter(|node| *node != first) {
        for token in [before.token(), client.token()] {
            let status = check(&lan, node, token).await?;
            ensure!(status == StatusCode::OK, "n{node}: {status}");
        }
    }
    Ok(())
}
