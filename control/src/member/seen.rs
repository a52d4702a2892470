//! The members of the cluster, as this one sees them.

use std::collections::{BTreeMap, BTreeSet};

use muster_consensus::{GroupId, NodeId};
use muster_gossip::Mesh;
use muster_gossip::documents::KnownDocument;
use muster_gossip::join::Text;
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use muster_gossip::record::{AdmissionState, DocumentId, HeaderStage, RecordKey, ReplacementBody};
use muster_model::id;

use super::routing::{self, AdvertisedCopy, RoutingRecord};
use crate::cluster::{ClusterState, Lineage, is_marked};
use crate::groups::copies::{MemberPlace, MemberPlaces};
use crate::groups::name;

/// The members of the cluster, as one of them sees them by its mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembersSeen {
    /// The cluster.
    pub cluster: ClusterId,
    /// Every member, this one among them.
    pub members: BTreeMap<MemberId, MemberSeen>,
    /// The group that decides for the cluster, and those that did before it.
    pub lineage: Lineage,
    /// Documents whose newest version was withdrawn, or is rejected by a member.
    pub halted: BTreeMap<DocumentId, Halt>,
    /// Whether this member was expelled.
    pub is_expelled: bool,
    /// Whether another machine writes with this one's key.
    pub is_cloned: bool,
}

/// A version of a document that goes no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halt {
    /// The version.
    pub version: u64,
    /// The members that reject it.
    pub rejected_by: BTreeSet<MemberId>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSeen {
    /// The name of its node.
    pub name: String,
    /// Where it stands; empty if nobody said.
    pub rack: String,
    /// Whether it may vote.
    pub votes: bool,
    /// Whether it can be reached.
    pub reach: Reach,
    /// What it says of its copies of logs; none while nothing was heard.
    pub routing: Option<RoutingRecord>,
}

impl MembersSeen {
    /// As `mesh` sees the members of `cluster`.
    pub fn of(mesh: &Mesh, cluster: ClusterId) -> Self {
        let seen = |id| {
            let member = mesh.member(id)?;
            let routing = member.node.as_ref();
            let seen = MemberSeen {
                name: member.body.name.clone(),
                rack: member.body.rack.clone(),
                votes: member.body.votes,
                reach: member.reach,
                routing: routing.and_then(|node| RoutingRecord::decode(&node.payload)),
            };
            Some((id, seen))
        };
        Self {
            cluster,
            members: mesh.members().filter_map(seen).collect(),
            lineage: lineage(mesh, cluster),
            halted: halted(mesh),
            is_expelled: mesh
                .member(mesh.me())
                .is_some_and(|me| me.body.state == AdmissionState::Expelled),
            is_cloned: mesh.is_cloned(),
        }
    }

    /// The members but `me`, by the numbers that groups have for them, and whether each can be reached.
    pub fn reachable(&self, me: MemberId) -> BTreeMap<NodeId, bool> {
        let others = self.members.iter().filter(|(id, _)| **id != me);
        let seen = others.map(|(id, it)| (name::node(*id), it.reach != Reach::Unreachable));
        seen.collect()
    }

    /// The names of all nodes, with the numbers that groups have for them.
    pub fn names(&self) -> BTreeMap<id::NodeId, NodeId> {
        let named =
            |(id, seen): (&MemberId, &MemberSeen)| Some((seen.name.parse().ok()?, name::node(*id)));
        self.members.iter().filter_map(named).collect()
    }

    /// The racks that nodes stand in, as they were told when they joined; nodes without one are left out.
    pub fn racks(&self) -> BTreeMap<id::NodeId, String> {
        let told = self.members.values().filter(|seen| !seen.rack.is_empty());
        let racks = told.filter_map(|seen| Some((seen.name.parse().ok()?, seen.rack.clone())));
        racks.collect()
    }

    /// Members that say they have a copy of a group's log: the leader of the newest term first, and last those
    /// that cannot be reached.
    pub fn copies(&self, group: GroupId) -> Vec<(MemberId, AdvertisedCopy)> {
        let copy = |(id, seen): (&MemberId, &MemberSeen)| {
            let copies = &seen.routing.as_ref()?.copies;
            let copy = copies.iter().find(|copy| copy.group == group.0)?;
            Some((*id, copy.clone()))
        };
        let copies = self.members.iter().filter_map(copy).collect();
        routing::likeliest_first(copies, |id| self.is_away(id))
    }

    /// Members that say they have a copy of one of these groups.
    pub fn holders(&self, groups: &[u64]) -> BTreeSet<MemberId> {
        let has = |copy: &AdvertisedCopy| groups.contains(&copy.group);
        let holds = |seen: &MemberSeen| {
            let copies = seen.routing.iter().flat_map(|it| &it.copies);
            copies.into_iter().any(has)
        };
        let holders = self.members.iter().filter(|(_, seen)| holds(seen));
        holders.map(|(id, _)| *id).collect()
    }

    /// The members that vote in a group, as far as is heard.
    pub fn voters(&self, group: GroupId) -> BTreeSet<MemberId> {
        routing::voters_told(&self.copies(group), |id| self.is_away(id))
    }

    fn is_away(&self, member: MemberId) -> bool {
        let seen = self.members.get(&member);
        seen.is_none_or(|seen| seen.reach == Reach::Unreachable)
    }

    /// Where copies of a virtual cluster's log may lie. `drained`: the names of the members that admins want
    /// empty.
    pub(super) fn places(&self, drained: &BTreeSet<String>) -> MemberPlaces {
        let voters = self.voters(GroupId(self.lineage.group));
        let place = |(id, seen): (&MemberId, &MemberSeen)| {
            let place = MemberPlace {
                rack: Text::try_from(seen.rack.clone()).unwrap_or_default(),
                votes: seen.votes,
                is_drained: drained.contains(&seen.name),
                ..seen.place(voters.contains(id))
            };
            (*id, place)
        };
        self.members.iter().map(place).collect()
    }

    /// Where copies of the log of the cluster's group may lie: its state says who is a member. `voters`: the
    /// members whose copies vote.
    pub fn places_of(&self, state: &ClusterState, voters: &[MemberId]) -> MemberPlaces {
        let place = |(id, seen): (&MemberId, &MemberSeen)| {
            let member = state.admitted(*id)?;
            let place = MemberPlace {
                rack: member.rack.clone(),
                votes: member.votes,
                is_drained: member.is_drained(),
                ..seen.place(voters.contains(id))
            };
            Some((*id, place))
        };
        self.members.iter().filter_map(place).collect()
    }
}

impl MemberSeen {
    /// As far as the mesh alone knows.
    fn place(&self, votes_in_cluster_group: bool) -> MemberPlace {
        let store = self.routing.as_ref().map(RoutingRecord::log_store);
        MemberPlace {
            rack: Text::default(),
            votes: false,
            reach: self.reach,
            store: store.map(|store| store.id),
            copies: store.map_or(0, |store| store.copies),
            is_drained: false,
            votes_in_cluster_group,
        }
    }
}

/// The group that decides for the cluster and those that did before it, as far as this member has heard.
pub fn lineage(mesh: &Mesh, cluster: ClusterId) -> Lineage {
    let record = mesh.record(RecordKey::Replacement);
    let body: Option<ReplacementBody> = record.and_then(|record| record.body().ok());
    Lineage::of_cluster(cluster, body.as_ref())
}

/// The documents whose newest version goes no further.
fn halted(mesh: &Mesh) -> BTreeMap<DocumentId, Halt> {
    let halt = |(id, view): (DocumentId, KnownDocument)| {
        let rejects = |member: &MemberId| is_marked(&view.coverage.rejected, *member);
        let halt = Halt {
            version: view.header.version,
            rejected_by: mesh.members().filter(rejects).collect(),
        };
        let is_halted = view.header.stage == HeaderStage::Withdrawn || !halt.rejected_by.is_empty();
        is_halted.then_some((id, halt))
    };
    mesh.documents().filter_map(halt).collect()
}
