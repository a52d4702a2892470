//! The groups of this node, opened from disk.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use muster_consensus::{
    Found, GroupId, Home, Host, Input, LogStore, Options, Output, ReplicaId, StoreId,
};
use muster_gossip::member::MemberId;
use muster_model::time::Time;
use tokio::time::Instant;

use super::disk::Disk;
use super::machine::{Machine, Outcome};
use super::name;

/// Decides in which order copies lose patience with a silent leader: the same on all nodes.
const SEED: u64 = 0;

/// The groups of this node, opened from disk.
#[derive(Debug)]
pub(crate) struct Opened {
    /// When the host's clock was at 0.
    pub(crate) started: Instant,
    /// All groups.
    pub(crate) host: Host<Machine>,
    /// What is to be done about them now.
    pub(crate) outputs: Vec<Output<Outcome>>,
    /// Their log store.
    pub(crate) disk: Disk,
    /// The virtual cluster that this node has for itself, if it is in no cluster.
    pub(crate) own: Option<GroupId>,
}

/// Opens the groups in this file, and makes it if it is missing. `member` is this node's number in
/// its cluster, if it is in one.
///
/// # Errors
/// When the file cannot be used, or what nobody else has a copy of is damaged.
pub(crate) fn open(path: &Path, member: Option<MemberId>) -> Result<Opened> {
    let mut store = LogStore::open(path, StoreId(rand::random()))?;
    let home = Home {
        node: member.map_or(name::ALONE, name::node),
        store: store.id(),
    };
    let found = store.load()?;
    let own = own(&found, home.store);
    whole(&found, own).with_context(|| {
        format!(
            "the state of the virtual cluster in {} cannot be used; put a backup of the file \
             there, or remove it to begin without jobs",
            path.display()
        )
    })?;
    put_aside(path, &found);
    let (started, now) = (Instant::now(), Time::default());
    let mut outputs = Vec::new();
    let options = Options::new(home.node, home.store, SEED);
    let mut host = Host::open(now, options, found, Machine::of, &mut outputs);
    let own = member.is_none().then_some(own);
    if let Some(group) = own {
        let homes = BTreeMap::from([(ReplicaId(1), home)]);
        host.handle(now, Input::Birth { group, homes }, &mut outputs);
    }
    Ok(Opened {
        started,
        host,
        outputs,
        disk: Disk::new(store),
        own,
    })
}

/// A damaged copy is replaced by its group. Should there be no other one, what is left of it lies
/// beside the log.
fn put_aside(path: &Path, found: &[Found]) {
    for found in found {
        if let Found::Damaged(group, _, problem) = found {
            let aside = path.with_extension("damaged");
            let kept = std::fs::copy(path, &aside);
            tracing::error!(group = group.0, problem, aside = %aside.display(), kept = kept.is_ok(),
                "a copy of a group is damaged and ends");
        }
    }
}

/// The virtual cluster that is the node's own: the first whose copy here was not ended.
fn own(found: &[Found], store: StoreId) -> GroupId {
    let ended = |group: &GroupId| {
        let mut found = found.iter();
        found.any(|found| matches!(found, Found::Gone(gone, _) if gone == group))
    };
    let mut own = name::own_vcs(store);
    own.find(|group| !ended(group)).unwrap_or(GroupId(1))
}

/// A group that has no other copies must be whole, or it would begin anew without anybody's word.
fn whole(found: &[Found], own: GroupId) -> Result<()> {
    for found in found {
        match found {
            Found::Damaged(group, _, problem) if *group == own => anyhow::bail!("{problem}"),
            Found::Replica(_) | Found::Damaged(..) | Found::Gone(..) => {}
        }
    }
    Ok(())
}
