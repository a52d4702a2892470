//! The groups of this node, opened from disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use muster_consensus::{Found, GroupId, Host, LogStore, Options, Output, StoreId};
use muster_control::groups::{Machine, Outcome, name, own};
use muster_gossip::member::MemberId;
use muster_model::id::VcName;
use muster_model::time::Time;
use tokio::time::Instant;

use super::disk::Disk;

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
    /// The virtual clusters that this node has for itself, if it is in no cluster.
    pub(crate) own: BTreeMap<VcName, GroupId>,
}

/// Opens the groups in this file, and makes it if it is missing. `member` is this node's number in
/// its cluster, if it is in one; else it has these virtual clusters for itself.
///
/// # Errors
/// When the file cannot be used, or what nobody else has a copy of is damaged.
pub(crate) fn open(
    path: &Path,
    member: Option<MemberId>,
    vcs: &BTreeSet<VcName>,
) -> Result<Opened> {
    let mut store = LogStore::open(path, StoreId(rand::random()))?;
    let node = member.map_or(name::ALONE, name::node);
    let found = store.load()?;
    for vc in vcs {
        whole(&found, own(&found, store.id(), vc)).with_context(|| {
            format!(
                "the state of virtual cluster {vc} in {} cannot be used; put a backup of the file \
                 there, or remove it to begin without jobs",
                path.display()
            )
        })?;
    }
    put_aside(path, &found);
    let (started, now) = (Instant::now(), Time::default());
    let mut outputs = Vec::new();
    let options = Options::new(node, store.id(), SEED);
    let mut host = Host::open(now, options, found, Machine::of, &mut outputs);
    let own = match member {
        None => own::bear(&mut host, (now, store.id()), vcs, &mut outputs),
        Some(_) => BTreeMap::new(),
    };
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

/// The group of a virtual cluster that is the node's own: the first whose copy here was not ended.
fn own(found: &[Found], store: StoreId, vc: &VcName) -> GroupId {
    let ended = |group: &GroupId| {
        let mut found = found.iter();
        found.any(|found| matches!(found, Found::Gone(gone, _) if gone == group))
    };
    let mut own = name::own_vc(store, vc);
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
