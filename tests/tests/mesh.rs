//! Real agents in network namespaces, one cluster, and what may happen to them.

mod alarms;
mod alone;
mod clone;
mod cluster_group;
mod forming;
mod hostile;
mod impostor;
mod ipv6;
mod membership;
pub(crate) mod metrics;
mod nearby;
mod pages;
mod people;
mod ports;
mod recovery;
mod rules;
mod strangers;
mod tokens;
mod trouble;
mod users;

use std::time::Duration;

use anyhow::Result;
use muster_tests::net::{Lan, Watch, missing};

/// How long anything may take that takes seconds at most: machines that test are busy.
const LIMIT: Duration = Duration::from_secs(20);

/// A cluster of so many nodes that know the same; nothing where no network can be made.
async fn united(nodes: usize) -> Result<Option<Lan>> {
    if missing().is_some() {
        return Ok(None);
    }
    let mut lan = Lan::new(nodes)?;
    lan.unite().await?;
    Ok(Some(lan))
}

/// Looks at all nodes.
fn everywhere(lan: &Lan) -> Watch {
    Watch::new(lan, 1..=lan.nodes().len())
}

/// Looks at all nodes but one.
fn elsewhere(lan: &Lan, but: usize) -> Watch {
    Watch::new(lan, (1..=lan.nodes().len()).filter(|node| *node != but))
}
