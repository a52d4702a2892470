//! The virtual clusters that a node has for itself while it is in no cluster: a group of one copy for
//! each.

use std::collections::{BTreeMap, BTreeSet};

use muster_consensus::{GroupId, Home, Host, Input, Output, ReplicaId, StoreId};
use muster_model::id::VcName;
use muster_model::time::Time;

use super::machine::{Machine, Outcome};
use super::name;

/// The groups of these virtual clusters. They are born where they are not there yet.
pub fn bear(
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
