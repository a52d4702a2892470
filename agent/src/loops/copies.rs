//! Sees to who has copies of the virtual cluster's log, while it is led here.

use std::sync::PoisonError;
use std::time::Duration;

use muster_gossip::Mesh;
use muster_gossip::join::Text;
use muster_gossip::net::driver::MeshHandle;
use muster_gossip::record::MemberState;
use tokio::time::{MissedTickBehavior, interval};

use crate::groups::copies::{Place, Places};
use crate::mesh::told;
use crate::vc::VcCopies;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs until the mesh ends.
pub(crate) async fn run(copies: VcCopies, mesh: MeshHandle) {
    let mut pause = interval(PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pause.tick().await;
        if !copies.copies.leads() {
            copies.copies.begin_to_watch();
            continue;
        }
        let Ok(places) = mesh.look(places).await else {
            return;
        };
        *copies.places.lock().unwrap_or_else(PoisonError::into_inner) = places;
        copies.see_to().await;
    }
}

/// Every member, as the cluster signed it and the mesh sees it.
fn places(mesh: &Mesh) -> Places {
    let place = |id| {
        let member = mesh.member(id)?;
        let admitted = member.body.state == MemberState::Admitted;
        let place = Place {
            rack: Text::try_from(member.body.rack.clone()).unwrap_or_default(),
            votes: member.body.votes,
            reach: mesh.reach(id),
            store: told::store(mesh, id),
        };
        admitted.then_some((id, place))
    };
    mesh.members().filter_map(place).collect()
}
