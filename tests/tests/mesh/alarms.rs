//! What members tell of a machine that is lost and comes back, as their alarms have it.

use std::time::Instant;

use anyhow::{Result, ensure};
use muster_tests::client::Client;
use muster_tests::net::View;
use serde_json::Value;

use super::cluster_group::{leading, voters};
use super::{LIMIT, everywhere, united};

/// Reads the alarms of one member.
struct Reader {
    client: Client,
    boot: String,
    last: u64,
    /// All that it has read.
    read: Vec<Value>,
}

impl Reader {
    /// Begins with what comes next.
    async fn new(client: Client) -> Result<Self> {
        let answer = client.get("/api/muster/v1/alarms").await?;
        Ok(Self {
            boot: answer["boot"].as_str().unwrap_or_default().to_owned(),
            last: answer["last"].as_u64().unwrap_or_default(),
            client,
            read: Vec::new(),
        })
    }

    /// What came since; the answer.
    async fn read(&mut self) -> Result<Value> {
        let Self { boot, last, .. } = self;
        let path = format!("/api/muster/v1/alarms?after={last}&boot={boot}");
        let answer = self.client.get(&path).await?;
        ensure!(answer["dropped"] == false, "{answer:#}");
        self.last = answer["last"].as_u64().unwrap_or_default();
        self.read
            .extend(answer["alarms"].as_array().cloned().unwrap_or_default());
        Ok(answer)
    }

    /// The states that alarms of this kind and about this were in, in order.
    fn states(&self, kind: &str, subject: Option<&str>) -> Vec<&str> {
        let read = self.read.iter();
        let meant =
            read.filter(|it| it["kind"] == kind && it["subject"]["name"].as_str() == subject);
        meant.filter_map(|it| it["state"].as_str()).collect()
    }

    /// Reads until that is so.
    async fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<()> {
        let begun = Instant::now();
        while !is_so(self) {
            ensure!(begun.elapsed() < LIMIT, "{what}: {:#?}", self.read);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            self.read().await?;
        }
        println!("{what} after {:?}", begun.elapsed());
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_member_is_raised_once_and_cleared_once() -> Result<()> {
    let Some(mut lan) = united(5).await? else {
        return Ok(());
    };
    let all = |view: &View| voters(view).len() == 5;
    everywhere(&lan).each("all vote", LIMIT, all).await?;
    let token = lan.node(1).client().await?.token().to_owned();
    let lost = leading(&lan, 0).await?;
    let name = lan.node(lost).name();
    let asked = lost % 5 + 1;
    let client = lan.node(asked).visitor().with_token(&token);
    let mut reader = Reader::new(client.clone()).await?;

    lan.node_mut(lost).kill()?;
    let is_raised = |it: &Reader| it.states("member_lost", Some(&name)) == ["raised"];
    reader.until("raised", is_raised).await?;
    let another_leads = |it: &Reader| it.states("leader_changed", None) == ["event"];
    reader.until("another leads", another_leads).await?;
    let shown = lan.node(asked).prints(&["cluster", "alarms"])?;
    ensure!(
        shown.contains(&format!("muster cluster expel {name}")),
        "{shown}"
    );

    lan.node_mut(lost).start()?;
    let is_cleared = |it: &Reader| it.states("member_lost", Some(&name)).contains(&"cleared");
    reader.until("cleared", is_cleared).await?;
    everywhere(&lan).agree(5, LIMIT).await?;
    let answer = reader.read().await?;
    let states = reader.states("member_lost", Some(&name));
    ensure!(states == ["raised", "cleared"], "{:#?}", reader.read);
    let standing = answer["standing"].as_array().into_iter().flatten();
    let mut standing = standing.filter(|it| it["kind"] == "member_lost");
    ensure!(standing.next().is_none(), "{answer:#}");

    // Numbers of an agent's earlier life hide nothing of this one.
    lan.node_mut(asked).stop()?;
    lan.node_mut(asked).start()?;
    let path = format!("/api/muster/v1/alarms?after=1&boot={}", reader.boot);
    let anew = client.get(&path).await?;
    ensure!(anew["boot"] != *reader.boot, "{anew:#}");
    let first = &anew["alarms"][0]["number"];
    ensure!(first.is_null() || *first == 1, "{anew:#}");
    Ok(())
}
