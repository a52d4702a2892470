//! The virtual clusters that a node has for itself while it is in no cluster: a group of one copy for
//! each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use muster_consensus::{GroupId, Home, Host, Input, Output, ReplicaId, StoreId};
use muster_control::cluster::VCS_MAX;
use muster_model::id::VcName;
use muster_model::time::Time;

use super::machine::{Machine, Outcome};
use super::name;
use crate::key_file;

/// These virtual clusters, and all that this file names: what the configuration does not describe any
/// more may have jobs still. The file is brought up to date.
///
/// # Errors
/// When the file cannot be used.
pub(crate) fn named(path: &Path, configured: BTreeSet<VcName>) -> Result<BTreeSet<VcName>> {
    let known: BTreeSet<VcName> = match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
            format!(
                "{} does not list the virtual clusters that this node has had; put a backup of it \
                 there, or remove it: only those of cluster.file are served then",
                path.display()
            )
        })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeSet::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let all = &known | &configured;
    anyhow::ensure!(
        all.len() <= VCS_MAX,
        "cluster.file names virtual clusters beyond the {VCS_MAX} that a node has in its life; use names \
         again that {} lists, or take those out of it that have no jobs",
        path.display()
    );
    if all != known {
        let text = serde_json::to_vec(&all)?;
        key_file::write_private(path, &text)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(all)
}

/// The groups of these virtual clusters. They are born where they are not there yet.
pub(crate) fn bear(
    host: &mut Host<Machine>,
    (now, store): (Time, StoreId),
    vcs: &BTreeSet<VcName>,
    outputs: &mut Vec<Output<Outcome>>,
) -> BTreeMap<VcName, GroupId> {
    let home = Home {
        node: name::ALONE,
        store,
    };
    let bear = |vc: &VcName| {
        let own = name::own_vc(store, vc).find(|group| {
            let homes = BTreeMap::from([(ReplicaId(1), home)]);
            let group = *group;
            host.handle(now, Input::Birth { group, homes }, outputs);
            is_own(host, group, home)
        });
        Some((vc.clone(), own?))
    };
    vcs.iter().filter_map(bear).collect()
}

/// Whether it is here and nobody else has a copy. Copies of members that left the cluster before
/// count no more than one that ended here.
fn is_own(host: &Host<Machine>, group: GroupId, home: Home) -> bool {
    host.view(group).is_some_and(|view| {
        let is_here = view.membership.homes.get(&view.replica) == Some(&home);
        is_here && view.voters.iter().eq([&view.replica])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<VcName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn what_was_named_once_is_named_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("virtual-clusters.json");
        let two = names(&["a", "default"]);
        assert_eq!(named(&path, two.clone()).unwrap(), two);
        let three = names(&["a", "b", "default"]);
        assert_eq!(named(&path, names(&["b", "default"])).unwrap(), three);
        assert_eq!(named(&path, BTreeSet::new()).unwrap(), three);
    }

    #[test]
    fn a_file_that_is_damaged_is_no_missing_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("virtual-clusters.json");
        std::fs::write(&path, "[").unwrap();
        let error = named(&path, names(&["a"])).unwrap_err();
        assert!(error.to_string().contains("virtual-clusters.json"));
    }
}
