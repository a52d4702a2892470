//! One member of a cluster: its copies of groups, and what it does about them on its own.
//!
//! [`MemberCore`] decides which groups have copies here, who gets copies of those that are led here, which
//! nodes take no jobs, and what the member tells all others of its copies. It goes by three things: what the
//! mesh shows of the other members ([`MembersSeen`]), what the cluster told its members
//! ([`ClusterMap`]), and the groups themselves ([`GroupHost`]).
//! - [`seen`]: the members, as this one sees them.
//! - [`routing`]: what each member says of its copies.
//! - `copies`: which members have copies of the groups that are led here.
//! - [`alarms`]: what is wrong with the cluster, told when it begins and when it is over.
//!
//! # Driving it
//! The caller owns the transport, the disk and the clock. It gives [`MemberInput`]s, performs [`MemberOutput`]s in order, and
//! gives [`MemberInput::Tick`] when [`MemberCore::deadline`] has passed. `Output::Groups` is to be performed as
//! [`crate::groups`] says.

pub mod alarms;
mod copies;
mod input;
pub mod routing;
pub mod seen;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_consensus::{GroupId, NodeId, ReplicaHome, ReplicaId, StoreId};
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_model::id;
use muster_model::time::Time;

pub use input::{MemberEvent, MemberInput, MemberOutput};
pub use seen::{Halt, MemberSeen, MembersSeen};

use crate::cluster::{AdminScheduling, ClusterMap, Lineage, SchedulingMode, VcCreation};
use crate::coordinator::Cordon;
use crate::groups::copies::voters_of;
use crate::groups::{self, GroupHost, GroupState, VcGroup, name};
use crate::now::Now;
use alarms::{Alarms, Owner, Sight};
use copies::CopyWatch;
use routing::{AdvertisedCopy, RoutingRecord};

/// Between two looks at the copies of the groups that are led here, ms.
const COPIES_MS: u64 = 500;
/// What members are told of copies here that change is told at most so often, ms. The mesh spreads only so many
/// records of a node at once, and that it leads is news that others wait for.
const ROUTING_MS: u64 = 2_000;
/// The groups are told again of the other members after this, ms: what was told of a group that was not
/// here yet had no effect.
const MEMBERS_MS: u64 = 5_000;

/// The cluster that a node is a member of.
#[derive(Clone, Debug)]
struct ClusterMembership {
    cluster: ClusterId,
    member: MemberId,
    lineage: Lineage,
}

/// The members as the groups were told of them: whether each can be reached, their names, the group of the
/// cluster and how many voters it has.
type Told = (
    BTreeMap<NodeId, bool>,
    BTreeMap<id::NodeId, NodeId>,
    (GroupId, usize),
);

/// The core of a member.
#[derive(Debug)]
pub struct MemberCore {
    /// The time of the input that is being handled.
    now: Now,
    group_host: GroupHost,
    /// The log store of all groups.
    store: StoreId,
    membership: Option<ClusterMembership>,
    seen: Option<Box<MembersSeen>>,
    cluster_map: Option<Arc<ClusterMap>>,
    watches: BTreeMap<GroupId, CopyWatch>,
    alarms: Alarms,
    /// What the groups were told last of the other members, and when.
    told: Option<(Told, Time)>,
    /// What they were told last of racks.
    told_racks: BTreeMap<id::NodeId, String>,
    /// What all members were told last.
    said: RoutingRecord,
    said_at: Time,
    /// When the copies are looked at next.
    due: Time,
    from_groups: Vec<groups::GroupHostOutput>,
    out: Vec<MemberOutput>,
}

impl MemberCore {
    /// A node with these copies of groups, in this log store. It wants [`MemberInput::Tick`] at once.
    pub fn new(group_host: GroupHost, store: StoreId) -> Self {
        Self {
            now: Now::default(),
            group_host,
            store,
            membership: None,
            seen: None,
            cluster_map: None,
            watches: BTreeMap::new(),
            alarms: Alarms::default(),
            told: None,
            told_racks: BTreeMap::new(),
            said: RoutingRecord::default(),
            said_at: Time::default(),
            due: Time::default(),
            from_groups: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Takes one input. The clock that nobody sets counts from when the groups were opened.
    pub fn handle(&mut self, now: Now, input: MemberInput, out: &mut Vec<MemberOutput>) {
        self.now = now;
        self.take(input);
        if self.membership.is_some() && self.due <= now.steady {
            self.due = now.steady.plus_millis(COPIES_MS);
            self.tell_members();
            self.see_to_copies();
            if now.steady.micros_since(self.said_at) >= ROUTING_MS * 1_000 {
                self.say_routing();
            }
        }
        out.append(&mut self.out);
    }

    /// When [`MemberInput::Tick`] is due, by the clock that nobody sets.
    pub fn deadline(&self) -> Option<Time> {
        let due = self.membership.as_ref().map(|_| self.due);
        [due, self.group_host.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The copies of groups.
    pub const fn groups(&self) -> &GroupHost {
        &self.group_host
    }

    /// What the cluster told its members last, if anything is known of it.
    pub const fn cluster_map(&self) -> Option<&Arc<ClusterMap>> {
        self.cluster_map.as_ref()
    }

    /// The members, as they were seen last.
    pub fn seen(&self) -> Option<&MembersSeen> {
        self.seen.as_deref()
    }

    /// The group that decides for the cluster, and those that did before it.
    pub fn lineage(&self) -> Option<&Lineage> {
        self.membership.as_ref().map(|it| &it.lineage)
    }

    fn take(&mut self, input: MemberInput) {
        match input {
            MemberInput::Tick => self.give(groups::GroupHostInput::Tick),
            MemberInput::Groups(input) => self.give(input),
            MemberInput::Joined {
                cluster,
                member,
                lineage,
            } => self.joined(ClusterMembership {
                cluster,
                member,
                lineage,
            }),
            MemberInput::Left => self.left(),
            MemberInput::Seen(seen) => self.see(seen),
            MemberInput::ClusterMap(cluster_map) => self.take_cluster_map(cluster_map),
            MemberInput::Going { group, member } => self.going(group, member),
        }
    }

    /// Gives the groups an input.
    fn give(&mut self, input: groups::GroupHostInput) {
        let mut outputs = std::mem::take(&mut self.from_groups);
        self.group_host.handle(self.now, input, &mut outputs);
        let is_lead = |output: &groups::GroupHostOutput| {
            matches!(
                output,
                groups::GroupHostOutput::Leads { .. } | groups::GroupHostOutput::Led { .. }
            )
        };
        let leads_change = outputs.iter().any(is_lead);
        self.out.extend(outputs.drain(..).map(MemberOutput::Groups));
        self.from_groups = outputs;
        if leads_change {
            // Others look for the leader.
            self.say_routing();
        }
    }

    fn joined(&mut self, membership: ClusterMembership) {
        let ClusterMembership {
            member, lineage, ..
        } = membership.clone();
        self.forget();
        self.membership = Some(membership);
        self.give(groups::GroupHostInput::Joined {
            node: name::node(member),
            cluster: GroupId(lineage.group),
        });
        // It may have been said before the agent ended, and not be done yet.
        self.give(groups::GroupHostInput::Replacement(lineage));
        self.due = self.now.steady;
    }

    fn left(&mut self) {
        self.forget();
        self.membership = None;
        self.give(groups::GroupHostInput::Left);
    }

    /// What was known of another cluster says nothing of this one.
    fn forget(&mut self) {
        self.seen = None;
        self.cluster_map = None;
        self.told = None;
        self.told_racks.clear();
        self.watches.clear();
        self.said = RoutingRecord::default();
        let over = self.alarms.end(false);
        self.out.extend(over.into_iter().map(MemberOutput::Event));
    }

    fn see(&mut self, seen: Box<MembersSeen>) {
        let is_meant = |it: &&mut ClusterMembership| it.cluster == seen.cluster;
        let Some(membership) = self.membership.as_mut().filter(is_meant) else {
            return;
        };
        let is_news = membership.lineage != seen.lineage;
        if is_news {
            membership.lineage = seen.lineage.clone();
            let lineage = seen.lineage.clone();
            let generation = lineage.generation;
            self.give(groups::GroupHostInput::Replacement(lineage));
            self.out
                .push(MemberOutput::Event(MemberEvent::Succeeded { generation }));
        }
        self.seen = Some(seen);
        self.tell_members();
        self.look_for_alarms();
    }

    /// Tells what is wrong, and what is well again. To be called whenever anything is seen otherwise.
    fn look_for_alarms(&mut self) {
        let (Some(membership), Some(seen)) = (&self.membership, &self.seen) else {
            return;
        };
        let creations = self
            .cluster_map
            .iter()
            .flat_map(|cluster_map| &cluster_map.vcs);
        let vcs =
            creations.map(|creation| (Owner::Vc(creation.vc.clone()), GroupId(creation.group)));
        let cluster = (Owner::Cluster, GroupId(membership.lineage.group));
        let groups: BTreeMap<Owner, GroupId> = [cluster].into_iter().chain(vcs).collect();
        let host = self.group_host.host();
        let own = |id: &GroupId| Some((*id, alarms::voters(&host.view(*id)?)));
        let sight = Sight {
            me: membership.member,
            seen,
            own: groups.values().filter_map(own).collect(),
            groups,
        };
        let events = self.alarms.look(&sight);
        self.out.extend(events.into_iter().map(MemberOutput::Event));
    }

    /// Tells the groups who else there is, if that is new or was told long ago.
    fn tell_members(&mut self) {
        let (Some(membership), Some(seen)) = (&self.membership, &self.seen) else {
            return;
        };
        let group = GroupId(membership.lineage.group);
        let voters = seen.voters(group).len();
        let members = seen.reachable(membership.member);
        let told: Told = (members, seen.names(), (group, voters));
        let racks = seen.racks();
        if self.told_racks != racks {
            self.told_racks.clone_from(&racks);
            self.give(groups::GroupHostInput::Racks(racks));
        }
        let now = self.now.steady;
        let is_fresh = |at: Time| now.micros_since(at) < MEMBERS_MS * 1_000;
        let before = self.told.as_ref();
        if before.is_some_and(|(before, at)| *before == told && is_fresh(*at)) {
            return;
        }
        self.told = Some((told.clone(), now));
        let (members, names, cluster) = told;
        self.give(groups::GroupHostInput::Others {
            members,
            names,
            cluster,
        });
    }

    /// Goes by a cluster map: serves its virtual clusters, begins the copies that they were born with here, and
    /// keeps jobs off the nodes that admins closed.
    fn take_cluster_map(&mut self, cluster_map: Arc<ClusterMap>) {
        let membership = self.membership.as_ref();
        if membership.is_none_or(|it| it.cluster != cluster_map.cluster) {
            return;
        }
        let before = self.cluster_map.replace(Arc::clone(&cluster_map));
        if before.is_none_or(|before| before.vcs != cluster_map.vcs) {
            self.serve(&cluster_map.vcs);
        }
        self.give(groups::GroupHostInput::Cordoned(cordons(
            &cluster_map.closed,
        )));
        self.say_routing();
        self.look_for_alarms();
    }

    fn serve(&mut self, creations: &[VcCreation]) {
        let served = creations.iter();
        let served = served.map(|creation| (creation.vc.clone(), VcGroup::of(creation)));
        let vcs = served.collect();
        self.give(groups::GroupHostInput::Serve { vcs });
        for creation in creations {
            self.give(match creation.before.is_empty() {
                true => groups::GroupHostInput::Creation {
                    group: GroupId(creation.group),
                    homes: homes(creation),
                },
                false => groups::GroupHostInput::Inherit(creation.lineage()),
            });
        }
    }

    /// Tells all members which copies are here, if that is new.
    fn say_routing(&mut self) {
        let Some(membership) = &self.membership else {
            return;
        };
        let record = self.routing(GroupId(membership.lineage.group));
        self.said_at = self.now.steady;
        if record != self.said {
            self.said.clone_from(&record);
            self.out.push(MemberOutput::Routing(record));
        }
    }

    /// Which copies are here of the cluster's group and of those that are served.
    fn routing(&self, cluster: GroupId) -> RoutingRecord {
        let host = self.group_host.host();
        let creations = self
            .cluster_map
            .iter()
            .flat_map(|cluster_map| &cluster_map.vcs);
        let served = creations.map(|creation| GroupId(creation.group));
        let copies = [cluster].into_iter().chain(served).filter_map(|group| {
            let view = host.view(group)?;
            Some(AdvertisedCopy {
                group: group.0,
                votes: view.voters.contains(&view.replica),
                leads: if view.leads { view.term } else { 0 },
                voters: if view.leads {
                    voters_of(&view)
                } else {
                    Vec::new()
                },
            })
        });
        RoutingRecord {
            summary: String::new(),
            store: self.store.0,
            copies: copies.collect(),
            cluster_map: self.newest_cluster_map(cluster),
        }
    }

    /// The newest version of the cluster map that is known here, if there is a copy of the cluster's group.
    fn newest_cluster_map(&self, cluster: GroupId) -> u64 {
        let host = self.group_host.host();
        let known = self.cluster_map.as_ref().map_or(0, |it| it.version);
        match (host.view(cluster), host.machine(cluster)) {
            (Some(view), Some(GroupState::Cluster(state))) if view.leads => {
                known.max(state.map_version())
            }
            (Some(_), Some(_)) => known,
            _ => 0,
        }
    }
}

/// Where the first copies of a virtual cluster's log lie.
fn homes(creation: &VcCreation) -> BTreeMap<ReplicaId, ReplicaHome> {
    let homes = creation.homes.iter().map(|home| ReplicaHome {
        node: name::node(home.member),
        store: StoreId(home.store),
    });
    (1..).map(ReplicaId).zip(homes).collect()
}

/// The nodes that take no jobs, as admins said.
fn cordons(closed: &BTreeMap<id::NodeId, AdminScheduling>) -> BTreeMap<id::NodeId, Cordon> {
    let cordon = |(node, word): (&id::NodeId, &AdminScheduling)| {
        let drain_at = match word.mode {
            SchedulingMode::Open => return None,
            SchedulingMode::Cordoned => None,
            SchedulingMode::Draining { from_ms } => Some(Time::from_millis(from_ms)),
        };
        Some((node.clone(), Cordon { drain_at }))
    };
    closed.iter().filter_map(cordon).collect()
}
