//! A cluster that runs jobs: real agents in network namespaces, each with a containerd namespace
//! of its own.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::home::{self, AgentHome};
use crate::net::{self, BareNode, Lan, View, Watch};

/// Nodes that are one cluster, and the container engine under all of them. Dropped in this order.
#[derive(Debug)]
pub struct Site {
    /// The nodes.
    pub lan: Lan,
    /// Where their containers are made.
    pub engine: AgentHome,
}

impl Site {
    /// So many nodes of one cluster; nothing where that cannot be.
    ///
    /// # Errors
    /// When one does not come up, or they do not become one in time.
    pub async fn new(nodes: usize) -> Result<Option<Self>> {
        let Some(mut site) = Self::apart(nodes)? else {
            return Ok(None);
        };
        site.lan.unite().await?;
        Ok(Some(site))
    }

    /// The same, of another build; nothing where that cannot be.
    ///
    /// # Errors
    /// As [`Site::new`].
    pub async fn running(muster: &Path, nodes: usize) -> Result<Option<Self>> {
        if is_missing() {
            return Ok(None);
        }
        let mut site = Self::of(Lan::running(muster, nodes)?, |_| Ok(()))?;
        site.lan.unite().await?;
        Ok(Some(site))
    }

    /// So many nodes with the image `muster/busybox`, each on its own; nothing where that cannot
    /// be.
    ///
    /// # Errors
    /// When one does not come up.
    pub fn apart(nodes: usize) -> Result<Option<Self>> {
        Self::prepared(nodes, |_| Ok(()))
    }

    /// The same, with something done to every node before its agent starts.
    ///
    /// # Errors
    /// When that fails, or one does not come up.
    pub fn prepared(
        nodes: usize,
        prepare: impl Fn(&mut BareNode) -> Result<()>,
    ) -> Result<Option<Self>> {
        if is_missing() {
            return Ok(None);
        }
        Self::of(Lan::new(nodes)?, prepare).map(Some)
    }

    fn of(mut lan: Lan, prepare: impl Fn(&mut BareNode) -> Result<()>) -> Result<Self> {
        let engine = AgentHome::new("")?;
        for number in 1..=lan.nodes().len() {
            lan.node(number).equip(&engine)?;
            prepare(lan.node_mut(number))?;
        }
        lan.start()?;
        let archive = engine.busybox()?;
        for node in lan.nodes() {
            node.prints(&["image", "import", &archive.to_string_lossy()])?;
        }
        Ok(Self { lan, engine })
    }

    /// Waits until as many nodes vote in the virtual cluster `default` as ever will: five, or three
    /// where the site has fewer than five. A test that stops a node earlier may stop half of the
    /// voters with it, after which nothing is decided.
    ///
    /// # Errors
    /// When `limit` has passed.
    pub async fn all_vote(&self, limit: Duration) -> Result<()> {
        let nodes = self.lan.nodes().len();
        let voters = if nodes < 5 { nodes.min(3) } else { 5 };
        let all = Watch::new(&self.lan, 1..=nodes);
        let vote = |view: &View| {
            let led = &view.0["vcs"]["default"]["leader"];
            led.is_string() && view.voters(Some("default")).len() == voters
        };
        all.each("all vote in the virtual cluster", limit, vote)
            .await?;
        Ok(())
    }

    /// The node with this number, from 1.
    pub fn node(&self, number: usize) -> &BareNode {
        self.lan.node(number)
    }
}

fn is_missing() -> bool {
    home::missing().or_else(net::missing).is_some()
}

/// What each node's tasks wrote that say `mark`, with the node's number.
pub fn said(lan: &Lan, mark: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for node in lan.nodes() {
        let tasks = std::fs::read_dir(node.home().join("state/tasks"));
        for task in tasks.into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(task.path().join("log/stdout"));
            let text = text.unwrap_or_default();
            let lines = text.lines().filter(|line| line.contains(mark));
            found.extend(lines.map(|line| (node.number(), line.to_owned())));
        }
    }
    found
}
