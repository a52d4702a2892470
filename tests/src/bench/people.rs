//! How soon all nodes know of people what changed at one of five: a token that is revoked is refused, and a
//! user who is added can log in. Times count from the request on; a token is tried every few milliseconds.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use hyper::{Method, StatusCode};
use muster_tests::client::Client;
use muster_tests::net::{Lan, View, Watch};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::sample::Sample;
use crate::unique;

const AGENTS: usize = 5;
/// How long a cluster may take until it is whole, or a change until it is known.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
const PASSWORD: &str = "correct horse";
const CHECK: &str = "/api/v2/tokens/check";
const P99_MS_MAX: f64 = 1000.0;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PeopleArguments {
    /// The `muster` binary.
    #[arg(long)]
    muster: PathBuf,
    /// How many tokens are revoked.
    #[arg(long, default_value_t = 100)]
    tokens: usize,
    /// How many users are added.
    #[arg(long, default_value_t = 40)]
    users: usize,
}

pub(crate) async fn run(arguments: &PeopleArguments) -> Result<Value> {
    let mut lan = Lan::running(&arguments.muster, AGENTS)?;
    lan.unite().await?;
    let all_vote = |view: &View| view.voters(None).len() == AGENTS;
    let all = Watch::new(&lan, 1..=AGENTS);
    all.each("all vote in the cluster", LIMIT, all_vote).await?;
    let nodes = AdminClients::new(&lan).await?;

    let mut revoked = Sample::new()?;
    for nth in 0..arguments.tokens {
        revoked.add(nodes.revoke(nth % AGENTS).await?);
    }
    let mut added = Sample::new()?;
    for nth in 0..arguments.users {
        added.add(nodes.add_user(nth % AGENTS).await?);
    }
    let met = [&revoked, &added]
        .iter()
        .all(|it| it.ms(0.99) <= P99_MS_MAX);
    Ok(json!({
        "bench": "people", "agents": AGENTS,
        "tokens": arguments.tokens, "revoked_p50_ms": revoked.ms(0.5),
        "revoked_p99_ms": revoked.ms(0.99), "revoked_ms": revoked.ms(1.0),
        "users": arguments.users, "added_p50_ms": added.ms(0.5),
        "added_p99_ms": added.ms(0.99), "added_ms": added.ms(1.0), "met": met,
    }))
}

/// The admin at each node.
struct AdminClients(Vec<Client>);

impl AdminClients {
    async fn new(lan: &Lan) -> Result<Self> {
        let admin = lan.node(1).client().await?;
        let nodes = lan.nodes().iter();
        let clients = nodes.map(|node| node.visitor().with_token(admin.token()));
        Ok(Self(clients.collect()))
    }

    /// Revokes a token at one node: how long until all refuse it, each of which took it before.
    async fn revoke(&self, at: usize) -> Result<Duration> {
        let user = unique("user");
        self.add(at, &user).await?;
        let login = logged_in(&self.0[(at + 1) % AGENTS], &user).await?;
        let holders: Vec<Client> = self
            .0
            .iter()
            .map(|node| node.clone().with_token(login.token()))
            .collect();
        let since = Instant::now();
        let taken = holders.iter().map(|it| answers(it, StatusCode::OK, since));
        try_join_all(taken).await?;
        let since = Instant::now();
        let path = format!("/api/v2/tokens/{}", login.token());
        ask(&holders[at], Method::DELETE, &path, String::new()).await?;
        let refused = holders
            .iter()
            .map(|it| answers(it, StatusCode::UNAUTHORIZED, since));
        slowest(try_join_all(refused).await?)
    }

    /// Adds a user at one node: how long until they have logged in at all.
    async fn add_user(&self, at: usize) -> Result<Duration> {
        let user = unique("user");
        let since = Instant::now();
        self.add(at, &user).await?;
        let comes = |node: &Client| {
            let (node, user) = (node.clone(), user.clone());
            async move {
                let client = logged_in(&node, &user).await?;
                answers(&client, StatusCode::OK, since).await
            }
        };
        slowest(try_join_all(self.0.iter().map(comes)).await?)
    }

    async fn add(&self, at: usize, user: &str) -> Result<()> {
        let body = json!({"username": user, "email": "", "password": PASSWORD});
        ask(&self.0[at], Method::POST, "/api/v2/users", body.to_string()).await
    }
}

fn slowest(times: Vec<Duration>) -> Result<Duration> {
    Ok(times.into_iter().max().unwrap_or_default())
}

/// A change that has to be made.
async fn ask(client: &Client, method: Method, path: &str, body: String) -> Result<()> {
    let asked = client.send(method, path, "application/json", body).await?;
    ensure!(asked.0.is_success(), "{path}: {} {}", asked.0, asked.1);
    Ok(())
}

/// The user, logged in at a node as soon as that takes them.
async fn logged_in(node: &Client, user: &str) -> Result<Client> {
    let begun = Instant::now();
    loop {
        match node.clone().with_token("").logged_in(user, PASSWORD).await {
            Ok(client) => return Ok(client),
            Err(error) => ensure!(begun.elapsed() < LIMIT, "{user}: {error:#}"),
        }
        sleep(LOOK).await;
    }
}

/// How long after `since` a node answers so to a token.
async fn answers(holder: &Client, wanted: StatusCode, since: Instant) -> Result<Duration> {
    loop {
        let asked = holder.send(Method::GET, CHECK, "application/json", String::new());
        let (status, text) = asked.await?;
        if status == wanted {
            return Ok(since.elapsed());
        }
        ensure!(since.elapsed() < LIMIT, "still {status}: {text}");
        sleep(LOOK).await;
    }
}
