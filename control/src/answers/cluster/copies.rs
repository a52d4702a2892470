//! Where copies of the group that decides for the cluster lie, and may lie.

use muster_gossip::member::MemberId;

use super::ClusterService;
use crate::answers::port::MemberPort;
use crate::answers::vc::give_up;
use crate::groups::copies::{MemberPlaces, voters_of};
use crate::groups::name;
use crate::member::MembersSeen;
use crate::request::RequestFailure;

impl<P: MemberPort> ClusterService<P> {
    /// Where copies may lie: the group says who is a member, and the mesh how each is.
    pub(super) async fn places(&self) -> MemberPlaces {
        let seen = self.seen().await;
        let look = self.look(move |state, standing| {
            let voters = voters_of(&standing.view);
            seen.map(|seen| seen.places_of(state, &voters))
        });
        look.await.ok().flatten().flatten().unwrap_or_default()
    }

    /// The members as the mesh shows them; none once that has ended.
    pub(super) async fn seen(&self) -> Option<MembersSeen> {
        let cluster = self.cluster;
        let look = self.port.mesh(move |mesh| MembersSeen::of(mesh, cluster));
        look.await
    }

    /// Takes a member's copy away, for it is about to go.
    pub(super) async fn give_up(&self, member: MemberId) -> Result<(), RequestFailure> {
        give_up(self.copies(), self.group(), member).await
    }

    /// Members whose copies of the group vote, as far as it is known here.
    pub(super) async fn voters(&self) -> Result<Vec<MemberId>, RequestFailure> {
        let look = self.look(|_, standing| voters_of(&standing.view));
        let found = look.await?;
        found.ok_or_else(|| RequestFailure::unavailable("no copy of the group is here"))
    }

    /// Members that have copies of the group, as far as it is known here.
    pub(super) async fn holders(&self) -> Result<Vec<MemberId>, RequestFailure> {
        let look = self.look(|_, standing| {
            let homes = standing.view.membership.homes.values();
            homes.filter_map(|home| name::member(home.node)).collect()
        });
        Ok(look.await?.unwrap_or_default())
    }
}
