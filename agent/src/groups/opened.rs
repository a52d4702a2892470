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
    /// The virtual cluster that this node has for itself.
    pub(crate) vc: GroupId,
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
    let vc = name::own_vc(home.store);
    let found = store.load()?;
    whole(&found, vc).with_context(|| {
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
    let birth = Input::Birth {
        group: vc,
        homes: BTreeMap::from([(ReplicaId(1), home)]),
    };
    host.handle(now, birth, &mut outputs);
    Ok(Opened {
        started,
        host,
        outputs,
        disk: Disk::new(store),
        vc,
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

/// A group that has no other copies must be whole, or it would begin anew without anybody's word.
fn whole(found: &[Found], vc: GroupId) -> Result<()> {
    for found in found {
        match found {
            Found::Damaged(group, _, problem) if *group == vc => anyhow::bail!("{problem}"),
            Found::Gone(group, _) if *group == vc => anyhow::bail!("its copy was ended"),
            Found::Replica(_) | Found::Damaged(..) | Found::Gone(..) => {}
        }
    }
    Ok(())
}
