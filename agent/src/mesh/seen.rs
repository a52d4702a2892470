//! Tells the core of this member how the mesh sees the members of the cluster.

use std::time::Duration;

use muster_control::cluster::Lineage;
use muster_control::member::MembersSeen;
use muster_gossip::key::ClusterId;
use muster_gossip::mesh::MeshEvent;
use muster_gossip::net::driver::MeshHandle;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::groups::Groups;

/// What members say of themselves is told at most so often: of a thousand, one always has news.
const PAUSE: Duration = Duration::from_millis(500);
/// The mesh is looked at after this even when nothing was heard: it does not tell what this node says of itself.
const REGULAR: Duration = Duration::from_secs(5);

/// Tells what is new, until the mesh ends. `lineage`: which group decides for the cluster, for all others.
pub(super) async fn run(
    (mesh, cluster): (MeshHandle, ClusterId),
    groups: Groups,
    lineage: watch::Sender<Lineage>,
) {
    let mut events = mesh.events();
    let mut before = None;
    loop {
        let looked = Instant::now();
        let Ok(seen) = mesh.look(move |mesh| MembersSeen::of(mesh, cluster)).await else {
            return;
        };
        if before.as_ref() != Some(&seen) {
            if groups.seen(seen.clone()).await.is_err() {
                return;
            }
            lineage.send_if_modified(|known| {
                let is_news = *known != seen.lineage;
                known.clone_from(&seen.lineage);
                is_news
            });
            before = Some(seen);
        }
        let news = news(&mut events, looked + PAUSE);
        if timeout_at(looked + REGULAR, news).await == Ok(None) {
            return;
        }
    }
}

/// Waits until there is news: at once if it is that a member can be reached or not, else not before `soonest`.
/// None once the mesh has ended.
async fn news(events: &mut Receiver<MeshEvent>, soonest: Instant) -> Option<()> {
    loop {
        match events.recv().await {
            Ok(MeshEvent::Node(_)) => break,
            event if is_urgent(&event) => return Some(()),
            Err(RecvError::Closed) => return None,
            _ => {}
        }
    }
    let urgent = async {
        loop {
            match events.recv().await {
                Err(RecvError::Closed) => return None,
                event if is_urgent(&event) => return Some(()),
                _ => {}
            }
        }
    };
    timeout_at(soonest, urgent).await.unwrap_or(Some(()))
}

const fn is_urgent(event: &Result<MeshEvent, RecvError>) -> bool {
    matches!(
        event,
        Ok(MeshEvent::Reach { .. }
            | MeshEvent::Members
            | MeshEvent::Replacement
            | MeshEvent::Cloned)
            | Err(RecvError::Lagged(_))
    )
}
