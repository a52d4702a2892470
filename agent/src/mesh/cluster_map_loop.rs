//! The loop that keeps a member's users and keys up to date: it asks whoever leads at the start,
//! when somebody tells of a newer version, and now and then.

use std::sync::Arc;
use std::time::Duration;

use muster_gossip::mesh::MeshEvent;
use muster_gossip::net::driver::MeshHandle;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::{Instant, sleep, sleep_until};

use super::cluster_map::{ClusterMapClient, newest};
use crate::groups::Groups;

/// How often the leader is asked where nobody tells of anything newer.
const REGULAR: Duration = Duration::from_secs(60);
/// Pause between two questions, and before one that came to nothing is asked again.
const PAUSE: Duration = Duration::from_millis(250);
/// The members of a cluster ask over so long a time, for each of them, not all in one moment.
const SPREAD_PER_MEMBER: Duration = Duration::from_millis(1);
/// But never over longer than this.
const SPREAD_MAX: Duration = Duration::from_millis(500);

/// Runs until the mesh ends.
pub(crate) async fn run(cluster_maps: Arc<ClusterMapClient>, mesh: MeshHandle, groups: Groups) {
    let mut events = mesh.events();
    let mut led = groups.led();
    loop {
        let asked = Instant::now();
        let rest = match cluster_maps.refresh(asked).await {
            Ok(()) => REGULAR,
            Err(error) => {
                tracing::debug!(%error, "the cluster's users and keys are not told now");
                PAUSE
            }
        };
        sleep_until(asked + PAUSE).await;
        tokio::select! {
            () = sleep_until(asked + rest) => {}
            () = cluster_maps.rung() => {}
            Ok(()) = led.changed() => {}
            heard = newer(&cluster_maps, &mesh, &mut events) => match heard {
                Some(members) => sleep(spread(members)).await,
                None => return,
            },
        }
    }
}

/// Waits until somebody tells of a newer version: how many members there are, none once the mesh
/// has ended.
async fn newer(
    cluster_maps: &ClusterMapClient,
    mesh: &MeshHandle,
    events: &mut Receiver<MeshEvent>,
) -> Option<usize> {
    let mut who = None;
    loop {
        let look = mesh.look(move |mesh| (newest(mesh, who), mesh.members().count()));
        let (told, members) = look.await.ok()?;
        if told > cluster_maps.version() {
            return Some(members);
        }
        who = loop {
            match events.recv().await {
                Ok(MeshEvent::Node(member)) => break Some(member),
                Err(RecvError::Lagged(_)) => break None,
                Ok(_) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

/// A random time within which all members ask.
fn spread(members: usize) -> Duration {
    let members = u32::try_from(members).unwrap_or(u32::MAX);
    let whole = SPREAD_PER_MEMBER.saturating_mul(members).min(SPREAD_MAX);
    whole.mul_f64(rand::random())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_ask_at_once_and_many_within_a_bound() {
        for (members, bound) in [(1, 1), (3, 3), (100_000, 500)] {
            assert!(spread(members) <= Duration::from_millis(bound));
        }
    }
}
