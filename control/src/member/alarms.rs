//! Alarms: what is wrong with the cluster, as this member sees it. Each trouble is told once when it begins and
//! once when it is over.
//!
//! `Alarms::look` compares what is wrong now with what was told before. It keeps no time: whether a member is
//! lost is for the mesh to say, which waits long enough. It is called whenever this member sees others, their
//! copies of logs, documents or the cluster map otherwise than before.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};

use muster_consensus::{GroupId, GroupView};
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use muster_gossip::record::DocumentId;
use muster_model::id::VcName;

use super::input::MemberEvent;
use super::routing::AdvertisedCopy;
use super::seen::MembersSeen;
use crate::groups::name;

/// Fewer members that cannot be reached are never many.
const MANY_MIN: usize = 3;

/// What a group decides for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The cluster.
    Cluster,
    /// A virtual cluster.
    Vc(VcName),
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// This machine was expelled.
    Expelled,
    /// Another machine writes with this one's key.
    KeyUsedTwice,
    /// More than a third of the members cannot be reached.
    ManyLost {
        /// How many.
        lost: usize,
        /// Of how many.
        members: usize,
    },
    /// A member cannot be reached.
    MemberLost {
        /// Its number.
        member: MemberId,
        /// Its name.
        name: String,
    },
    /// The loss of one more voter stops a group.
    AtRisk(Majority),
    /// A group cannot decide anything.
    MajorityLost(Majority),
    /// The cluster's breaker holds back quarantines of this machine. Not seen by `Alarms`: the
    /// judge of the machine's health tells it.
    QuarantinesHeldBack {
        /// Of so many parts.
        parts: usize,
    },
    /// The newest version of a document goes no further, or a member does not go by it.
    EditHalted {
        /// Which document.
        document: DocumentId,
        /// Which version.
        version: u64,
        /// The members that reject it; empty if it was withdrawn for something else.
        rejected_by: Vec<String>,
    },
}

/// The voters of a group, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Majority {
    /// What the group decides for.
    pub owner: Owner,
    /// All of them.
    pub voters: Vec<String>,
    /// Those that cannot be reached, are no members any more, or have lost their copy.
    pub away: Vec<String>,
}

/// Tells troubles apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// [`Trouble::Expelled`].
    Expelled,
    /// [`Trouble::KeyUsedTwice`].
    KeyUsedTwice,
    /// [`Trouble::ManyLost`].
    ManyLost,
    /// [`Trouble::MemberLost`], by the number of the member.
    MemberLost(MemberId),
    /// [`Trouble::AtRisk`].
    AtRisk(Owner),
    /// [`Trouble::MajorityLost`].
    MajorityLost(Owner),
    /// [`Trouble::QuarantinesHeldBack`].
    QuarantinesHeldBack,
    /// [`Trouble::EditHalted`], by document and version.
    EditHalted(DocumentId, u64),
}

/// Why something is no trouble any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearing {
    /// It is well again.
    Well,
    /// It is worse: a group that was at risk has lost its majority.
    Worse,
    /// What it was about is not there any more, or nothing of this machine's concern: the member was expelled or
    /// left, the virtual cluster has no group, or this machine is in another cluster.
    Gone,
}

impl Trouble {
    /// Which trouble this is: the same in [`MemberEvent::Raised`] and [`MemberEvent::Cleared`].
    pub fn key(&self) -> Key {
        match self {
            Self::Expelled => Key::Expelled,
            Self::KeyUsedTwice => Key::KeyUsedTwice,
            Self::ManyLost { .. } => Key::ManyLost,
            Self::MemberLost { member, .. } => Key::MemberLost(*member),
            Self::AtRisk(majority) => Key::AtRisk(majority.owner.clone()),
            Self::MajorityLost(majority) => Key::MajorityLost(majority.owner.clone()),
            Self::QuarantinesHeldBack { .. } => Key::QuarantinesHeldBack,
            Self::EditHalted {
                document, version, ..
            } => Key::EditHalted(*document, *version),
        }
    }
}

/// What a member sees.
#[derive(Debug)]
pub(super) struct Sight<'a> {
    pub(super) me: MemberId,
    pub(super) seen: &'a MembersSeen,
    pub(super) groups: BTreeMap<Owner, GroupId>,
    /// The voters of the groups that have copies here, by those.
    pub(super) own: BTreeMap<GroupId, Voters>,
}

/// Voters, and the log store that each has its copy in.
pub(super) type Voters = BTreeMap<MemberId, u64>;

/// The voters of a group, as a copy of it knows them.
pub(super) fn voters(view: &GroupView) -> Voters {
    let homes = view.membership.homes.iter();
    let voters = homes.filter(|(replica, _)| view.voters.contains(replica));
    let voter = voters.filter_map(|(_, home)| Some((name::member(home.node)?, home.store.0)));
    voter.collect()
}

/// What this member has told.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    standing: BTreeMap<Key, Trouble>,
    groups: BTreeMap<Owner, Group>,
}

impl Alarms {
    /// What is to be told of what is seen now.
    pub(super) fn look(&mut self, sight: &Sight<'_>) -> Vec<MemberEvent> {
        if !sight.seen.members.contains_key(&sight.me) {
            return self.end(sight.seen.is_expelled);
        }
        let changes = self.hear(sight);
        let wrong = self.wrong(sight);
        let wrong = wrong.into_iter().map(|trouble| (trouble.key(), trouble));
        let mut events = self.compare(wrong.collect(), |key, wrong| clearing(key, wrong, sight));
        events.extend(changes);
        events
    }

    /// This machine is no member any more: nothing that it saw of the cluster counts.
    pub(super) fn end(&mut self, is_expelled: bool) -> Vec<MemberEvent> {
        self.groups.clear();
        let wrong = is_expelled.then_some((Key::Expelled, Trouble::Expelled));
        self.compare(wrong.into_iter().collect(), |_, _| Clearing::Gone)
    }

    /// What is over, then what is new.
    fn compare(
        &mut self,
        wrong: BTreeMap<Key, Trouble>,
        why: impl Fn(&Key, &BTreeMap<Key, Trouble>) -> Clearing,
    ) -> Vec<MemberEvent> {
        let is_over = |key: &&Key| !wrong.contains_key(*key);
        let over: Vec<Key> = self.standing.keys().filter(is_over).cloned().collect();
        let mut events = Vec::new();
        for key in over {
            if let Some(trouble) = self.standing.remove(&key) {
                let why = why(&key, &wrong);
                events.push(MemberEvent::Cleared { trouble, why });
            }
        }
        for (key, trouble) in wrong {
            if let Slot::Vacant(slot) = self.standing.entry(key) {
                slot.insert(trouble.clone());
                events.push(MemberEvent::Raised(trouble));
            }
        }
        events
    }

    /// Takes note of who votes and leads. The leaders that are others than before.
    fn hear(&mut self, sight: &Sight<'_>) -> Vec<MemberEvent> {
        let copies = copies(sight.seen);
        let is_there = |owner: &Owner, _: &mut Group| sight.groups.contains_key(owner);
        self.groups.retain(is_there);
        let mut changes = Vec::new();
        for (owner, id) in &sight.groups {
            let group = self.groups.entry(owner.clone()).or_default();
            let copies = copies.get(id).map_or(&[][..], Vec::as_slice);
            let before = group.hear(*id, copies, sight);
            if let (Some(before), Some((_, leader))) = (before, &group.leader) {
                changes.push(MemberEvent::LeaderChanged {
                    owner: owner.clone(),
                    leader: leader.clone(),
                    before,
                });
            }
        }
        changes
    }

    fn wrong(&self, sight: &Sight<'_>) -> Vec<Trouble> {
        let lost: Vec<Trouble> = sight.lost().collect();
        let members = sight.seen.members.len();
        let are_many = lost.len() >= MANY_MIN && lost.len() * 3 > members;
        let many = are_many.then_some(Trouble::ManyLost {
            lost: lost.len(),
            members,
        });
        let groups = self.groups.iter();
        let groups = groups.filter_map(|(owner, group)| group.trouble(owner, sight));
        let cloned = sight.seen.is_cloned.then_some(Trouble::KeyUsedTwice);
        let own = cloned.into_iter().chain(many);
        own.chain(lost)
            .chain(groups)
            .chain(sight.halted())
            .collect()
    }
}

fn clearing(key: &Key, wrong: &BTreeMap<Key, Trouble>, sight: &Sight<'_>) -> Clearing {
    let is_gone = match key {
        Key::MemberLost(member) => !sight.seen.members.contains_key(member),
        Key::AtRisk(owner) | Key::MajorityLost(owner) => !sight.groups.contains_key(owner),
        Key::Expelled
        | Key::KeyUsedTwice
        | Key::ManyLost
        | Key::EditHalted(..)
        | Key::QuarantinesHeldBack => false,
    };
    match key {
        _ if is_gone => Clearing::Gone,
        Key::AtRisk(owner) if wrong.contains_key(&Key::MajorityLost(owner.clone())) => {
            Clearing::Worse
        }
        _ => Clearing::Well,
    }
}

impl Sight<'_> {
    /// The members that cannot be reached. This one sees itself always.
    fn lost(&self) -> impl Iterator<Item = Trouble> + '_ {
        let lost = self.seen.members.iter();
        let lost = lost.filter(|(id, it)| **id != self.me && it.reach == Reach::Unreachable);
        lost.map(|(id, it)| Trouble::MemberLost {
            member: *id,
            name: it.name.clone(),
        })
    }

    /// Documents whose newest version goes no further.
    fn halted(&self) -> impl Iterator<Item = Trouble> + '_ {
        self.seen.halted.iter().map(|(document, halt)| {
            let members = halt.rejected_by.iter();
            Trouble::EditHalted {
                document: *document,
                version: halt.version,
                rejected_by: members.map(|id| self.name(*id)).collect(),
            }
        })
    }

    /// Whether a member is none any more, or cannot be reached.
    fn is_away(&self, id: MemberId) -> bool {
        let member = self.seen.members.get(&id);
        id != self.me && member.is_none_or(|it| it.reach == Reach::Unreachable)
    }

    fn name(&self, id: MemberId) -> String {
        let member = self.seen.members.get(&id);
        member.map_or_else(|| format!("member {}", id.0), |it| it.name.clone())
    }
}

/// The voters and the leader of one group, as this member heard of them last.
#[derive(Debug, Default)]
struct Group {
    id: Option<GroupId>,
    /// The highest term in which a member said that it leads the group.
    term: u64,
    /// The leader of that term: its number and name.
    leader: Option<(MemberId, String)>,
    /// The voters, as that leader named them.
    voters: BTreeSet<MemberId>,
    /// The log store that each member had its copy in when it was heard of last.
    stores: Voters,
}

/// A member's copy of a group, and its log store.
type CopyAt<'a> = (MemberId, u64, &'a AdvertisedCopy);

/// All copies of logs that members have, by group.
fn copies(seen: &MembersSeen) -> BTreeMap<GroupId, Vec<CopyAt<'_>>> {
    let mut copies: BTreeMap<GroupId, Vec<CopyAt<'_>>> = BTreeMap::new();
    for (member, it) in &seen.members {
        if let Some(record) = &it.routing {
            for copy in &record.copies {
                let group = copies.entry(GroupId(copy.group)).or_default();
                group.push((*member, record.store, copy));
            }
        }
    }
    copies
}

impl Group {
    /// Takes note of what members say of their copies. Who led before, if that was another member.
    fn hear(&mut self, id: GroupId, copies: &[CopyAt<'_>], sight: &Sight<'_>) -> Option<String> {
        if self.id != Some(id) {
            // A recovered one begins anew, and another member may lead it.
            *self = Self {
                id: Some(id),
                leader: self.leader.take(),
                ..Self::default()
            };
        }
        let stores = copies.iter().map(|(member, store, _)| (*member, *store));
        self.stores.extend(stores);
        let is_member = |id: &MemberId, _: &mut u64| sight.seen.members.contains_key(id);
        self.stores.retain(is_member);
        let leads = |(member, _, copy): &&CopyAt<'_>| copy.leads > 0 && !sight.is_away(*member);
        let leaders = copies.iter().filter(leads);
        let (member, _, copy) = leaders.max_by_key(|(_, _, copy)| copy.leads)?;
        // One that led earlier may have said so last.
        if copy.leads < self.term {
            return None;
        }
        self.term = copy.leads;
        self.voters = copy.voters.iter().copied().collect();
        let before = self.leader.replace((*member, sight.name(*member)));
        before.and_then(|(id, name)| (id != *member).then_some(name))
    }

    /// What is wrong with the majority of its voters.
    fn trouble(&self, owner: &Owner, sight: &Sight<'_>) -> Option<Trouble> {
        let own = self.id.and_then(|id| sight.own.get(&id));
        let voters = match own {
            // No leader was heard yet.
            Some(own) if self.voters.is_empty() => own.keys().copied().collect(),
            _ => self.voters.clone(),
        };
        let is_away = |id: &MemberId| sight.is_away(*id) || self.has_lost_copy(*id, own, sight);
        let away: Vec<MemberId> = voters.iter().copied().filter(is_away).collect();
        if away.is_empty() {
            return None;
        }
        let (there, needed) = (voters.len() - away.len(), voters.len() / 2 + 1);
        let majority = || Majority {
            owner: owner.clone(),
            voters: voters.iter().map(|id| sight.name(*id)).collect(),
            away: away.iter().map(|id| sight.name(*id)).collect(),
        };
        match there.cmp(&needed) {
            std::cmp::Ordering::Less => Some(Trouble::MajorityLost(majority())),
            std::cmp::Ordering::Equal => Some(Trouble::AtRisk(majority())),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Whether a member has another log store than the one that its copy was in. That it names no copy means
    /// nothing: an agent that starts has not heard of all groups yet.
    fn has_lost_copy(&self, id: MemberId, own: Option<&Voters>, sight: &Sight<'_>) -> bool {
        let store = self.stores.get(&id).or_else(|| own?.get(&id));
        let member = sight.seen.members.get(&id);
        let record = member.and_then(|it| it.routing.as_ref());
        store
            .zip(record)
            .is_some_and(|(store, record)| record.store != *store)
    }
}

#[cfg(test)]
mod tests;
