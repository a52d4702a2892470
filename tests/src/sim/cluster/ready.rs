//! When a cluster is ready for what a scenario does to it.

use muster_consensus::GroupId;

use super::Cluster;
use super::machine::Machine;
use crate::sim::world::World;

/// So many voters each group has before run leases are given.
const LEASE_VOTERS: usize = 3;

/// Whether every machine goes by the description, every virtual cluster is led, and run leases are given: those of
/// what is placed before that are none.
pub(super) fn is_ready(world: &World<Cluster>) -> bool {
    let cluster = &world.protocol;
    let given = |machine: &Machine| {
        let cluster_map = machine.process.as_ref();
        let cluster_map = cluster_map.and_then(|it| it.core.cluster_map());
        cluster_map.is_some_and(|it| it.vcs.len() == cluster.account.vcs.len())
    };
    let count = cluster.machines.len();
    let led = |group: &GroupId| {
        let leader = cluster.leader(*group).map(|node| &cluster.machines[node]);
        let process = leader.and_then(|machine| machine.process.as_ref());
        let view = process.and_then(|it| it.core.groups().host().view(*group));
        view.is_some_and(|view| view.voters.len() >= LEASE_VOTERS.min(count))
    };
    let hears = |node: usize| cluster.voters_heard(node) >= LEASE_VOTERS.min(count);
    cluster.machines.iter().all(given) && cluster.groups().iter().all(led) && (0..count).all(hears)
}
