//! Tells the groups' loop who the other members are, and which of them can be reached.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_consensus::NodeId;
use muster_control::groups::name;
use muster_gossip::Mesh;
use muster_gossip::mesh::{Event, Reach};
use muster_gossip::net::driver::MeshHandle;
use muster_model::id;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use super::routing;
use crate::groups::ClusterGroup;

/// It is told again after this even when nothing was heard to change.
const PAUSE: Duration = Duration::from_secs(5);

/// Tells again and again, until the mesh ends.
pub(super) async fn run(mesh: MeshHandle, cluster: ClusterGroup) {
    let mut events = mesh.events();
    loop {
        let group = cluster.id();
        let look = mesh.look(move |mesh| {
            (
                others(mesh),
                names(mesh),
                routing::voters(mesh, group).len(),
            )
        });
        let Ok((members, names, voters)) = look.await else {
            return;
        };
        let told = cluster.groups().others(members, names, (group, voters));
        if told.await.is_err() {
            return;
        }
        let changed = async {
            loop {
                match events.recv().await {
                    Ok(Event::Reach { .. } | Event::Members | Event::Succession) => return true,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return true,
                    Err(RecvError::Closed) => return false,
                }
            }
        };
        if timeout(PAUSE, changed).await == Ok(false) {
            return;
        }
    }
}

fn others(mesh: &Mesh) -> BTreeMap<NodeId, bool> {
    let others = mesh.members().filter(|id| *id != mesh.me());
    let seen = others.map(|id| (name::node(id), mesh.reach(id) != Reach::Unreachable));
    seen.collect()
}

fn names(mesh: &Mesh) -> BTreeMap<id::NodeId, NodeId> {
    let named = |member| {
        let name = mesh.member(member)?.body.name.parse().ok()?;
        Some((name, name::node(member)))
    };
    mesh.members().filter_map(named).collect()
}
