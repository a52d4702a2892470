//! New virtual clusters: each begins with a log of its own, copied to several members from the first
//! entry on.

use std::collections::BTreeSet;

use muster_consensus::GroupId;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use muster_gossip::record::DocumentId;
use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::{self, VcName};
use muster_placement::description;

use super::ClusterService;
use crate::answers::port::{CopiesPort as _, MemberPort};
use crate::cluster::voters::{self, CopyCandidate, WantedCopies};
use crate::cluster::{CopyHome, DESCRIPTION, VcCreation};
use crate::groups::copies::{COPIES_MAX, MemberPlace, MemberPlaces, VOTERS_MAX};
use crate::groups::{GENERATION, name};
use crate::request::RequestFailure;

/// The virtual cluster of a cluster that nobody described.
const DEFAULT_VC: &str = "default";

impl<P: MemberPort> ClusterService<P> {
    /// The virtual clusters that a description names and that there are not yet; none of another
    /// document.
    pub(super) async fn creations(
        &self,
        document: DocumentId,
        text: &[u8],
    ) -> Result<Vec<VcCreation>, RequestFailure> {
        if document != DESCRIPTION {
            return Ok(Vec::new());
        }
        let text = String::from_utf8_lossy(text);
        let spec = description::read(&text).map_err(|problems| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            RequestFailure::invalid(lines.join("; "))
        })?;
        let named = named_vcs(&spec).map_err(|error| RequestFailure::invalid(error.to_string()))?;
        let known = self.read(|state| {
            let known = state.vcs().map(|creation| creation.vc.clone());
            known.collect::<BTreeSet<_>>()
        });
        let known = known.await?;
        let mut places = self.places_with_me().await?;
        let new = named.into_iter().filter(|vc| !known.contains(vc));
        new.map(|vc| {
            let group = name::new_vc(self.random());
            creation((vc, group), self.me, &mut places)
        })
        .collect()
    }

    /// Who may have copies. This node may although the others have not heard of its disk yet.
    async fn places_with_me(&self) -> Result<MemberPlaces, RequestFailure> {
        let mut places = self.places().await;
        let store = self.copies().store().await?;
        let me = places.entry(self.me).or_insert_with(|| MemberPlace {
            rack: muster_gossip::join::Text::default(),
            votes: true,
            reach: Reach::Alive,
            store: None,
            copies: 0,
            is_drained: false,
            votes_in_cluster_group: true,
        });
        me.store = Some(store);
        Ok(places)
    }
}

/// The virtual clusters that a description names; the first one, where it names none.
///
/// # Errors
/// None as long as `DEFAULT_VC` is a name.
pub fn named_vcs(spec: &ClusterSpec) -> Result<Vec<VcName>, id::InvalidName> {
    match spec.virtual_clusters.is_empty() {
        true => Ok(vec![DEFAULT_VC.parse()?]),
        false => Ok(spec.virtual_clusters.keys().cloned().collect()),
    }
}

/// One with a new group, on the best places. Where one machine has to do, it is whoever proposes it if that
/// has room: it is there, and knows its disk. They have a copy more then.
fn creation(
    (vc, group): (VcName, GroupId),
    me: MemberId,
    places: &mut MemberPlaces,
) -> Result<VcCreation, RequestFailure> {
    let group = group.0;
    let wanted = WantedCopies {
        group,
        voters_max: VOTERS_MAX,
        apart: true,
    };
    let candidates: Vec<_> = places.iter().map(candidate).collect();
    let mut first = voters::first(&wanted, &candidates);
    let is_there = |place: &MemberPlace| place.votes && place.has_room();
    if first.len() == 1 && places.get(&me).is_some_and(is_there) {
        first = vec![me];
    }
    let mut homes = Vec::new();
    for member in first {
        if let Some(place) = places.get_mut(&member)
            && let Some(store) = place.store
        {
            place.copies += 1;
            let store = store.0;
            homes.push(CopyHome { member, store });
        }
    }
    if homes.is_empty() {
        return Err(RequestFailure::invalid(format!(
            "no member has room for the jobs of virtual cluster {vc}: each has {COPIES_MAX} logs at \
             most, and names that were used once keep theirs; use one of those again, or add machines"
        )));
    }
    Ok(VcCreation {
        vc,
        group,
        generation: GENERATION,
        homes,
        before: Vec::new(),
    })
}

fn candidate((member, place): (&MemberId, &MemberPlace)) -> CopyCandidate {
    CopyCandidate {
        member: *member,
        rack: place.rack.clone(),
        reach: place.reach,
        // Nobody has a seat that it could lose.
        since_ms: 0,
        votes: place.votes,
        has_store: place.has_room(),
        is_drained: place.is_drained,
        votes_in_cluster_group: place.votes_in_cluster_group,
    }
}

#[cfg(test)]
mod tests {
    use muster_consensus::StoreId;

    use super::*;

    fn places(members: u32, copies: usize) -> MemberPlaces {
        let place = |number: u32| {
            let place = MemberPlace {
                rack: "".parse().unwrap(),
                votes: true,
                reach: Reach::Alive,
                store: Some(StoreId(u64::from(number) + 100)),
                copies,
                is_drained: false,
                votes_in_cluster_group: number < 3,
            };
            (MemberId(number), place)
        };
        (0..members).map(place).collect()
    }

    fn homes(members: u32, me: u32, random: u64) -> Vec<u32> {
        let vc = ("prod".parse().unwrap(), GroupId(random));
        let born = creation(vc, MemberId(me), &mut places(members, 0));
        let homes = born.unwrap().homes.into_iter();
        homes.map(|home| home.member.0).collect()
    }

    #[test]
    fn one_alone_is_whoever_proposes_it() {
        for random in 0..8 {
            assert_eq!(homes(2, 1, random), [1]);
        }
    }

    #[test]
    fn who_votes_in_the_cluster_group_is_needed_only_where_others_are_too_few() {
        for random in 0..8 {
            let mut apart = homes(8, 0, random);
            apart.sort_unstable();
            assert_eq!(apart, [3, 4, 5, 6, 7]);
            let apart = homes(6, 0, random).into_iter().filter(|home| *home >= 3);
            assert_eq!(apart.count(), 3);
        }
    }

    #[test]
    fn a_virtual_cluster_begins_where_there_is_room() {
        let mut places = places(5, COPIES_MAX - 1);
        places.get_mut(&MemberId(3)).unwrap().copies = COPIES_MAX;
        let me = MemberId(4);
        let born = creation(("prod".parse().unwrap(), GroupId(1)), me, &mut places).unwrap();
        assert_eq!(born.homes.len(), 3);
        assert!(born.homes.iter().any(|home| home.member == me));
        for home in &born.homes {
            assert_ne!(home.member, MemberId(3));
            assert_eq!(home.store, u64::from(home.member.0) + 100);
        }
        // One has room still.
        let next = creation(("dev".parse().unwrap(), GroupId(2)), me, &mut places).unwrap();
        assert_eq!(next.homes.len(), 1);
        assert_ne!(next.group, born.group);
        let full = creation(("test".parse().unwrap(), GroupId(3)), me, &mut places).unwrap_err();
        assert!(full.to_string().contains("no member has room"), "{full}");
    }
}
