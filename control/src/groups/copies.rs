//! Who is to have copies of a group: its leader sees to it, one joint change after the other.

use std::collections::{BTreeMap, BTreeSet};

use muster_consensus::{GroupId, GroupView, ReplicaChange, ReplicaHome, ReplicaId, StoreId};
use muster_gossip::join::Text;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use muster_model::time::Time;

use super::input::GroupStanding;
use super::name::{self, GroupKind};
use crate::cluster::voters::{self, Advice, Condition, CopyCandidate, GroupCopy, WantedCopies};

/// Voters of a group, at most.
pub const VOTERS_MAX: usize = 5;
/// Who has so many copies of logs, the cluster's own among them, gets no other: beyond it the heartbeats
/// of groups cost more than a node has for them.
pub const COPIES_MAX: usize = 64;

/// A member that may get a copy.
#[derive(Clone, Debug)]
pub struct MemberPlace {
    /// Where it stands; empty if nobody said.
    pub rack: Text<64>,
    /// Whether it may vote.
    pub votes: bool,
    /// Whether it can be reached.
    pub reach: Reach,
    /// Its log store, if it said which.
    pub store: Option<StoreId>,
    /// How many copies of logs it says it has.
    pub copies: usize,
    /// Whether an admin wants it empty.
    pub is_drained: bool,
    /// Whether it votes in the cluster group.
    pub votes_in_cluster_group: bool,
}

impl MemberPlace {
    /// Whether it can take another copy: it is known where to, and there is room.
    pub const fn has_room(&self) -> bool {
        self.store.is_some() && self.copies < COPIES_MAX
    }
}

/// Every member that is one still.
pub type MemberPlaces = BTreeMap<MemberId, MemberPlace>;

/// Since when members are seen as they are.
#[derive(Debug, Default)]
pub struct ReachHistory(BTreeMap<MemberId, (Reach, Time)>);

impl ReachHistory {
    /// Members are seen so now.
    pub fn update(&mut self, now: Time, places: &MemberPlaces) {
        self.0.retain(|member, _| places.contains_key(member));
        for (member, place) in places {
            let seen = self.0.entry(*member).or_insert((place.reach, now));
            if seen.0 != place.reach {
                *seen = (place.reach, now);
            }
        }
    }

    /// Who may have copies, but for those that are about to go.
    pub fn candidates(
        &self,
        now: Time,
        places: &MemberPlaces,
        going: &BTreeSet<MemberId>,
    ) -> Vec<CopyCandidate> {
        let staying = places.iter().filter(|(member, _)| !going.contains(member));
        let candidate = |(member, place): (&MemberId, &MemberPlace)| CopyCandidate {
            member: *member,
            rack: place.rack.clone(),
            reach: place.reach,
            since_ms: self.age_ms(now, *member),
            votes: place.votes,
            has_store: place.has_room(),
            is_drained: place.is_drained,
            votes_in_cluster_group: place.votes_in_cluster_group,
        };
        staying.map(candidate).collect()
    }

    /// For how many milliseconds a member is seen as it is.
    fn age_ms(&self, now: Time, member: MemberId) -> u64 {
        let seen = self.0.get(&member);
        seen.map_or(0, |(_, since)| now.micros_since(*since) / 1_000)
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// Copies change, all at once.
    Change(Vec<ReplicaChange>),
    /// The leader itself goes: somebody else leads first.
    HandOver(ReplicaId),
}

/// What the leader of a group is to do about its copies; none if they are as they should be.
pub fn next(
    standing: &GroupStanding,
    candidates: &[CopyCandidate],
    places: &MemberPlaces,
    group: GroupId,
) -> Option<CopyStep> {
    let wanted = WantedCopies {
        group: group.0,
        voters_max: VOTERS_MAX,
        apart: name::kind(group) == GroupKind::Vc,
    };
    let Advice(advice) = voters::advise(&wanted, candidates, &copies(standing, places))?;
    let mine = standing.view.replica;
    let changes = changes(&advice, standing, places);
    if changes.contains(&ReplicaChange::Remove(mine)) {
        let current = standing.view.current.iter();
        let others = current.filter(|id| **id != mine && standing.view.voters.contains(id));
        // Who is to go soon would have to hand it over again.
        if let Some(other) = others.min_by_key(|id| is_drained(**id, standing, places)) {
            return Some(CopyStep::HandOver(*other));
        }
    }
    Some(CopyStep::Change(changes))
}

/// The members whose copies vote, as a copy knows it.
pub fn voters_of(view: &GroupView) -> Vec<MemberId> {
    let homes = view.membership.homes.iter();
    let voters = homes.filter(|(replica, _)| view.voters.contains(replica));
    let members = voters.filter_map(|(_, home)| name::member(home.node));
    members.collect()
}

fn is_drained(replica: ReplicaId, standing: &GroupStanding, places: &MemberPlaces) -> bool {
    let home = standing.view.membership.homes.get(&replica);
    let member = home.and_then(|home| name::member(home.node));
    let place = member.and_then(|member| places.get(&member));
    place.is_some_and(|place| place.is_drained)
}

fn copies(standing: &GroupStanding, places: &MemberPlaces) -> Vec<GroupCopy> {
    let view = &standing.view;
    let copy = |(id, home): (&ReplicaId, &ReplicaHome)| {
        let member = name::member(home.node)?;
        let store = places.get(&member).and_then(|place| place.store);
        let other_store = store.is_some_and(|now| now != home.store);
        let condition = if standing.lost.contains(id) || other_store {
            Condition::Lost
        } else if view.current.contains(id) {
            Condition::CaughtUp
        } else {
            Condition::Behind
        };
        Some(GroupCopy {
            member,
            votes: view.voters.contains(id),
            condition,
            leads: *id == view.replica,
        })
    };
    view.membership.homes.iter().filter_map(copy).collect()
}

/// The advice in the group's own words.
fn changes(
    advice: &[voters::CopyChange],
    standing: &GroupStanding,
    places: &MemberPlaces,
) -> Vec<ReplicaChange> {
    let membership = &standing.view.membership;
    let replica = |member: MemberId| {
        let mut homes = membership.homes.iter();
        let found = homes.find(|(_, home)| home.node == name::node(member));
        found.map(|(id, _)| *id)
    };
    let mut fresh = (membership.next.0..).map(ReplicaId);
    let change = |change: &voters::CopyChange| match *change {
        voters::CopyChange::Add(member) => {
            let home = ReplicaHome {
                node: name::node(member),
                store: places.get(&member)?.store?,
            };
            Some(ReplicaChange::Add(fresh.next()?, home))
        }
        voters::CopyChange::Promote(member) => replica(member).map(ReplicaChange::Promote),
        voters::CopyChange::Demote(member) => replica(member).map(ReplicaChange::Demote),
        voters::CopyChange::Remove(member) => replica(member).map(ReplicaChange::Remove),
    };
    advice.iter().filter_map(change).collect()
}
