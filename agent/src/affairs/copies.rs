//! Who has copies of the group that settles the cluster's affairs.

use muster_control::groups::copies::{Place, Places, voters_of};
use muster_control::groups::name;
use muster_control::request::Failure;
use muster_gossip::member::MemberId;

use super::Affairs;

impl Affairs {
    /// Who is a member by the word of the group, and how the mesh sees it.
    pub(super) async fn places(&self) -> Places {
        let (sights, _) = self.members.sights().await;
        let stores = self.members.stores().await;
        let look = self.group.look(move |state, standing| {
            let voters = voters_of(&standing.view);
            let place = |(id, sight): (&MemberId, &muster_control::cluster::Sight)| {
                let member = state.admitted(*id)?;
                let store = stores.get(id);
                let place = Place {
                    rack: member.rack.clone(),
                    votes: member.votes,
                    reach: sight.reach,
                    store: store.map(|store| store.id),
                    copies: store.map_or(0, |store| store.copies),
                    is_drained: member.is_drained(),
                    keeps_affairs: voters.contains(id),
                };
                Some((*id, place))
            };
            sights.iter().filter_map(place).collect()
        });
        look.await.ok().flatten().unwrap_or_default()
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
