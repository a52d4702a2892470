//! The cluster's affairs are settled by another group from now on: the mesh has heard it.

use muster_control::cluster::Lineage;
use muster_gossip::Mesh;
use muster_gossip::key::ClusterId;
use muster_gossip::mesh::Event;
use muster_gossip::net::driver::MeshHandle;
use muster_gossip::record::{RecordKey, SuccessionBody};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use crate::groups::Groups;

/// Which group settles the cluster's affairs, and which did before it, as far as this node has heard.
pub(super) fn lineage(mesh: &Mesh, cluster: ClusterId) -> Lineage {
    let said = mesh.record(RecordKey::Succession);
    let said: Option<SuccessionBody> = said.and_then(|record| record.body().ok());
    Lineage::of_cluster(cluster, said.as_ref())
}

/// Goes by what the mesh hears of it, until the mesh ends.
pub(super) async fn run(
    (mesh, cluster): (MeshHandle, ClusterId),
    groups: Groups,
    known: watch::Sender<Lineage>,
) {
    let mut events = mesh.events();
    loop {
        let Ok(newest) = mesh.look(move |mesh| lineage(mesh, cluster)).await else {
            return;
        };
        let is_news = *known.borrow() != newest;
        if is_news && groups.succeeded(newest.clone()).await.is_err() {
            return;
        }
        if is_news {
            tracing::warn!(
                generation = newest.generation,
                "the cluster's affairs are settled by another group from now on"
            );
            known.send_replace(newest);
        }
        loop {
            match events.recv().await {
                Ok(Event::Succession) | Err(RecvError::Lagged(_)) => break,
                Ok(_) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }
}
