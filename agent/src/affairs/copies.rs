//! Where copies of the group that decides for the cluster lie, and may lie.

use muster_control::groups::copies::{Places, voters_of};
use muster_control::groups::name;
use muster_control::request::Failure;
use muster_gossip::member::MemberId;

use super::Affairs;

impl Affairs {
    /// Where copies may lie: the group says who is a member, and the mesh how each is.
    pub(super) async fn places(&self) -> Places {
        let seen = self.members.seen().await;
        let look = self.group.look(move |state, standing| {
            let voters = voters_of(&standing.view);
            seen.map(|seen| seen.places_of(state, &voters))
        });
        look.await.ok().flatten().flatten().unwrap_or_default()
    }

    /// Takes a member's copy away, for it is about to go.
    pub(super) async fn give_up(&self, member: MemberId) -> Result<(), Failure> {
        let groups = self.group.groups();
        groups.give_up(self.group.id(), member).await
    }

    /// Members whose copies of the group vote, as far as it is known here.
    pub(super) async fn voters(&self) -> Result<Vec<MemberId>, Failure> {
        let look = self.group.look(|_, standing| voters_of(&standing.view));
        let found = look.await?;
        found.ok_or_else(|| Failure::unavailable("no copy of the group is here"))
    }

    /// Members that have copies of the group, as far as it is known here.
    pub(super) async fn holders(&self) -> Result<Vec<MemberId>, Failure> {
        let look = self.group.look(|_, standing| {
            let homes = standing.view.membership.homes.values();
            homes.filter_map(|home| name::member(home.node)).collect()
        });
        Ok(look.await?.unwrap_or_default())
    }
}
