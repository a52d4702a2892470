//! The mesh as nodes show it to everybody, and waiting for it to be as it should.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::future::join_all;
use serde_json::Value;

use super::Lan;
use crate::client::Client;

/// How long one look may take: an agent that was stopped never answers.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// What a node shows of the mesh.
#[derive(Clone, Debug)]
pub struct View(pub Value);

impl View {
    /// The voters that count now: of the list of jobs of this virtual cluster, or of the cluster state.
    pub fn voters(&self, vc: Option<&str>) -> Vec<&str> {
        let led = vc.map_or(&self.0["leadership"], |vc| &self.0["vcs"][vc]);
        let names = |field: &str| led[field].as_array().map_or(&[][..], Vec::as_slice);
        let away = names("away");
        let there = names("voters").iter().filter(|voter| !away.contains(voter));
        let mut there: Vec<_> = there.filter_map(Value::as_str).collect();
        there.sort_unstable();
        there
    }

    /// The member with this name, `Null` if there is none.
    pub fn member(&self, name: &str) -> &Value {
        let mut members = self.members().iter();
        let found = members.find(|member| member["name"] == name);
        found.unwrap_or(&Value::Null)
    }

    /// Everybody who was ever admitted.
    pub fn members(&self) -> &[Value] {
        self.0["members"].as_array().map_or(&[], Vec::as_slice)
    }

    /// `alive`, `suspect`, `unreachable`, `left`, `expelled`, or nothing for who is no member.
    pub fn state(&self, name: &str) -> &str {
        let member = self.member(name);
        let state = member["state"].as_str().unwrap_or_default();
        match state {
            "admitted" => member["reach"].as_str().unwrap_or_default(),
            _ => state,
        }
    }

    /// How many are members and alive.
    pub fn alive(&self) -> usize {
        let alive = |member: &&Value| member["state"] == "admitted" && member["reach"] == "alive";
        self.members().iter().filter(alive).count()
    }

    /// The digest of all records.
    pub fn digest(&self) -> &str {
        self.0["digest"].as_str().unwrap_or_default()
    }

    /// The start of the agent of the member with this name.
    pub fn incarnation(&self, name: &str) -> u64 {
        self.member(name)["incarnation"].as_u64().unwrap_or(0)
    }

    /// The sum of the counters whose names contain this.
    pub fn counters(&self, part: &str) -> u64 {
        let counters = self.0["counters"].as_object().into_iter().flatten();
        let named = counters.filter(|(name, _)| name.contains(part));
        named.filter_map(|(_, count)| count.as_u64()).sum()
    }

    /// What strangers were denied, as far as it was counted.
    pub fn strangers(&self) -> u64 {
        let parts = [
            "limited",
            "not_quic",
            "strangers",
            "bad_",
            "handshake_failed",
            "join_refused",
        ];
        parts.iter().map(|part| self.counters(part)).sum()
    }

    /// One line for a person who looks into a failure.
    pub fn summary(&self) -> String {
        let member = |member: &Value| {
            let name = member["name"].as_str().unwrap_or_default();
            format!("{name}={} {}", self.state(name), member["why"])
        };
        let members: Vec<String> = self.members().iter().map(member).collect();
        let Self(view) = self;
        format!(
            "{} {} islands {} one-way {} cloned {}",
            members.join(", "),
            self.digest(),
            view["islands"],
            view["one_way"],
            view["cloned"]
        )
    }
}

/// Looks at several nodes, again and again.
#[derive(Clone, Debug)]
pub struct Watch {
    nodes: Vec<(String, Client)>,
    pause: Duration,
}

impl Watch {
    /// Looks at the nodes with these numbers.
    pub fn new(lan: &Lan, numbers: impl IntoIterator<Item = usize>) -> Self {
        let numbers = numbers.into_iter();
        let nodes = numbers.map(|number| lan.node(number));
        let nodes: Vec<_> = nodes.map(|node| (node.name(), node.visitor())).collect();
        // What looking costs is taken from those looked at.
        let pause = Duration::from_millis(10) * u32::try_from(nodes.len()).unwrap_or(1);
        Self { nodes, pause }
    }

    /// What each shows now.
    ///
    /// # Errors
    /// When one does not answer.
    pub async fn views(&self) -> Result<Vec<View>> {
        let looks = self.nodes.iter().map(|(name, client)| look(name, client));
        join_all(looks).await.into_iter().collect()
    }

    /// Waits until each of them has shown what is wanted, and gives how long the last one took.
    ///
    /// # Errors
    /// When `limit` has passed, with what was shown last by the one that did not.
    pub async fn each(
        &self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&View) -> bool,
    ) -> Result<Duration> {
        let start = Instant::now();
        let waits = self.nodes.iter().map(|(name, client)| {
            let wanted = &wanted;
            async move {
                loop {
                    let view = look(name, client).await;
                    if view.as_ref().is_ok_and(wanted) {
                        return Ok(start.elapsed());
                    }
                    if start.elapsed() > limit {
                        bail!("{what}: not within {limit:?}; {name} shows {}", said(&view));
                    }
                    tokio::time::sleep(self.pause).await;
                }
            }
        });
        let times: Result<Vec<Duration>> = join_all(waits).await.into_iter().collect();
        Ok(times?.into_iter().max().unwrap_or_default())
    }

    /// Waits until all of them show at one time what is wanted.
    ///
    /// # Errors
    /// When `limit` has passed, with what was shown last.
    pub async fn all(
        &self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&[View]) -> bool,
    ) -> Result<Duration> {
        let start = Instant::now();
        self.seen(what, limit, wanted).await?;
        Ok(start.elapsed())
    }

    /// Waits until all of them show at one time what is wanted, and gives what they showed then: at
    /// another look it may be gone.
    ///
    /// # Errors
    /// As [`Watch::all`].
    pub async fn seen(
        &self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&[View]) -> bool,
    ) -> Result<Vec<View>> {
        let start = Instant::now();
        loop {
            let views = self.views().await;
            if views.as_ref().is_ok_and(|views| wanted(views)) {
                return views;
            }
            if start.elapsed() > limit {
                let shown = views.map(|views| views.iter().map(View::summary).collect());
                let shown: Vec<String> = shown?;
                bail!("{what}: not within {limit:?}: {}", shown.join("\n"));
            }
            tokio::time::sleep(self.pause).await;
        }
    }

    /// Waits until all know the same, and all of these many members are alive.
    ///
    /// # Errors
    /// As [`Watch::all`].
    pub async fn agree(&self, alive: usize, limit: Duration) -> Result<Duration> {
        let what = format!("{alive} alive and one digest");
        let agreed = |views: &[View]| {
            let mut pairs = views.windows(2);
            let same = pairs.all(|pair| pair[0].digest() == pair[1].digest());
            same && views.iter().all(|view| view.alive() == alive)
        };
        self.all(&what, limit, agreed).await
    }

    /// Looks for this long: what is wanted must be shown by all of them all the time.
    ///
    /// # Errors
    /// When one shows something else, with that.
    pub async fn always(
        &self,
        what: &str,
        time: Duration,
        wanted: impl Fn(&View) -> bool,
    ) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < time {
            let views = self.views().await?;
            if let Some(other) = views.iter().find(|view| !wanted(view)) {
                bail!(
                    "{what}: not after {:?}: {}",
                    start.elapsed(),
                    other.summary()
                );
            }
            tokio::time::sleep(self.pause).await;
        }
        Ok(())
    }
}

fn said(view: &Result<View>) -> String {
    match view {
        Ok(view) => view.summary(),
        Err(error) => format!("nothing: {error:#}"),
    }
}

async fn look(name: &str, client: &Client) -> Result<View> {
    let look = tokio::time::timeout(LOOK_LIMIT, client.get("/status.json"));
    let mut status = look.await.with_context(|| format!("{name} is silent"))??;
    Ok(View(status["mesh"].take()))
}
