//! Sees to who has copies of the virtual clusters' logs, while they are led here.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use muster_consensus::GroupId;
use muster_control::groups::copies::{Place, Places};
use muster_gossip::Mesh;
use muster_gossip::join::Text;
use muster_gossip::net::driver::MeshHandle;
use muster_gossip::record::MemberState;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::accounts::Accounts;
use crate::groups::ClusterGroup;
use crate::mesh::routing;
use crate::vc::VcCopies;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// How long one change is waited for.
const CHANGE_LIMIT: Duration = Duration::from_secs(2);

/// Runs until the mesh ends.
pub(crate) async fn run(
    copies: VcCopies,
    mesh: MeshHandle,
    accounts: Accounts,
    cluster: ClusterGroup,
) {
    let mut pause = interval(PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pause.tick().await;
        let led = copies.led();
        if led.is_empty() {
            continue;
        }
        let drained = drained(&accounts);
        let affairs = cluster.id();
        let look = mesh.look(move |mesh| places(mesh, affairs, &drained));
        let Ok(places) = look.await else {
            return;
        };
        copies.seen(places);
        // At the same time, and one without a majority holds the others up no longer than this.
        let changes = led
            .iter()
            .map(|one| timeout(CHANGE_LIMIT, copies.see_to(one)));
        join_all(changes).await;
    }
}

/// Names of the members that admins want empty.
fn drained(accounts: &Accounts) -> BTreeSet<String> {
    let closed = accounts.closed().into_iter();
    let drained = closed.filter(|(_, word)| word.is_draining());
    drained.map(|(node, _)| node.to_string()).collect()
}

/// Every member, as the cluster signed it and the mesh sees it.
fn places(mesh: &Mesh, affairs: GroupId, drained: &BTreeSet<String>) -> Places {
    let voters = routing::voters(mesh, affairs);
    let place = |id| {
        let member = mesh.member(id)?;
        let admitted = member.body.state == MemberState::Admitted;
        let store = routing::store(mesh, id);
        let place = Place {
            rack: Text::try_from(member.body.rack.clone()).unwrap_or_default(),
            votes: member.body.votes,
            reach: mesh.reach(id),
            store: store.map(|store| store.id),
            copies: store.map_or(0, |store| store.copies),
            is_drained: drained.contains(&member.body.name),
            keeps_affairs: voters.contains(&id),
        };
        admitted.then_some((id, place))
    };
    mesh.members().filter_map(place).collect()
}
