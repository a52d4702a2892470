//! Nodes that become one cluster, as an administrator makes them one.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::{Lan, Watch};

/// How long a cluster may take to form on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

impl Lan {
    /// Makes a node the founder of a cluster, and gives a token that admits all others.
    ///
    /// # Errors
    /// When it refuses.
    pub fn found(&self, founder: usize) -> Result<String> {
        self.node(founder)
            .prints(&["cluster", "init", "--name", "lab"])?;
        let uses = self.nodes().len().to_string();
        self.token(founder, &["--uses", &uses])
    }

    /// Has a node make a token.
    ///
    /// # Errors
    /// When it refuses.
    pub fn token(&self, member: usize, options: &[&str]) -> Result<String> {
        let create = [&["cluster", "token", "create"], options].concat();
        let created = self.node(member).json(&create)?;
        Ok(created["text"].as_str().context("no token")?.to_owned())
    }

    /// Has nodes join at the first one's address, all at once.
    ///
    /// # Errors
    /// When one is refused.
    pub fn join(&self, numbers: &[usize], token: &str) -> Result<()> {
        let address = self.node(1).address().to_string();
        let join = ["cluster", "join", &address, token];
        std::thread::scope(|scope| {
            let nodes = numbers.iter().map(|number| self.node(*number));
            let joins: Vec<_> = nodes
                .map(|node| scope.spawn(move || node.prints(&join)))
                .collect();
            for join in joins {
                join.join()
                    .map_err(|_| anyhow::anyhow!("a join panicked"))??;
            }
            Ok(())
        })
    }

    /// Starts every node and makes one cluster of them, founded by the first.
    ///
    /// # Errors
    /// When it does not form in time.
    pub async fn unite(&mut self) -> Result<()> {
        self.start()?;
        let token = self.found(1)?;
        let members = self.nodes().len();
        let others: Vec<usize> = (2..=members).collect();
        self.join(&others, &token)?;
        Watch::new(self, 1..=members).agree(members, LIMIT).await?;
        Ok(())
    }
}
