//! Who has copies of a group: its leader sees to it, one joint change after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_consensus::{Change, GroupId, Home, ReplicaId, StoreId};
use muster_control::cluster::voters::{self, Advice, Candidate, Condition, Copy, Wanted};
use muster_gossip::join::Text;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use tokio::time::Instant;

use super::error::Error;
use super::handle::Groups;
use super::message::Standing;
use super::name;

/// Voters of a group, at most.
pub(crate) const VOTERS_MAX: usize = 5;
/// Who has so many copies of logs, the cluster's own among them, gets no other: beyond it the heartbeats
/// of groups cost more than a node has for them.
pub(crate) const COPIES_MAX: usize = 64;
/// So long somebody who said that it goes gets no copy again.
const GOING: Duration = Duration::from_secs(30);

/// A member that may get a copy.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Where it stands; empty if nobody said.
    pub(crate) rack: Text<64>,
    /// Whether it may vote.
    pub(crate) votes: bool,
    /// Whether it can be reached.
    pub(crate) reach: Reach,
    /// Its log store, if it said which.
    pub(crate) store: Option<StoreId>,
    /// How many copies of logs it says it has.
    pub(crate) copies: usize,
}

impl Place {
    /// Whether it can take another copy: it is known where to, and there is room.
    pub(crate) const fn has_room(&self) -> bool {
        self.store.is_some() && self.copies < COPIES_MAX
    }
}

/// Every member that is one still.
pub(crate) type Places = BTreeMap<MemberId, Place>;

/// Sees to the copies of a group.
#[derive(Debug)]
pub(crate) struct Copies {
    groups: Groups,
    group: GroupId,
    /// Members that are about to go: they give their copies away first.
    going: Mutex<BTreeMap<MemberId, Instant>>,
    sightings: Mutex<Sightings>,
}

/// Since when members are seen as they are.
#[derive(Debug, Default)]
struct Sightings(BTreeMap<MemberId, (Reach, Instant)>);

impl Sightings {
    fn update(&mut self, places: &Places) {
        self.0.retain(|member, _| places.contains_key(member));
        for (member, place) in places {
            let now = (place.reach, Instant::now());
            let seen = self.0.entry(*member).or_insert(now);
            if seen.0 != place.reach {
                *seen = now;
            }
        }
    }

    /// For how long a member is seen as it is, ms.
    fn age_ms(&self, member: MemberId) -> u64 {
        self.0.get(&member).map_or(0, |(_, since)| {
            let ms = since.elapsed().as_millis();
            u64::try_from(ms).unwrap_or(u64::MAX)
        })
    }
}

/// What is to be done next.
enum Step {
    Change(Vec<Change>),
    /// The leader itself goes: somebody else leads first.
    HandOver(ReplicaId),
}

impl Copies {
    pub(crate) fn new(groups: Groups, group: GroupId) -> Self {
        Self {
            groups,
            group,
            going: Mutex::default(),
            sightings: Mutex::default(),
        }
    }

    /// Whether this node leads the group, and so sees to them.
    pub(crate) fn leads(&self) -> bool {
        self.groups.led().borrow().contains_key(&self.group)
    }

    /// Changes who has copies, if a change is due and this node leads.
    pub(crate) async fn see_to(&self, places: Places) {
        let candidates = self.candidates(&places);
        let group = self.group;
        let look = self.groups.look(group, move |local| {
            let standing = local.standing;
            let leads = standing.view.leads;
            leads.then(|| next(&standing, &candidates, &places, group))
        });
        let Ok(Some(Some(Some(step)))) = look.await else {
            return;
        };
        let done = match step {
            Step::Change(changes) => {
                tracing::info!(group = group.0, ?changes, "copies of a group change");
                self.groups.change(group, &changes).await
            }
            Step::HandOver(to) => self.groups.transfer(group, to).await,
        };
        if let Err(error) = done {
            tracing::debug!(%error, "copies of a group do not change yet");
        }
    }

    /// Who may have copies, but for those that are about to go.
    fn candidates(&self, places: &Places) -> Vec<Candidate> {
        let mut sightings = self.sightings();
        sightings.update(places);
        let going = self.gone_soon();
        let staying = places.iter().filter(|(member, _)| !going.contains(member));
        staying
            .map(|(member, place)| Candidate {
                member: *member,
                rack: place.rack.clone(),
                reach: place.reach,
                since_ms: sightings.age_ms(*member),
                votes: place.votes,
                has_store: place.has_room(),
            })
            .collect()
    }

    /// A leader that was one before starts to watch anew.
    pub(crate) fn begin_to_watch(&self) {
        *self.sightings() = Sightings::default();
    }

    /// A member is about to go. Whether it has a copy still.
    ///
    /// # Errors
    /// When this node does not lead.
    pub(crate) async fn goes(&self, member: MemberId) -> Result<bool, Error> {
        self.note(member);
        // Who leads no more names who does.
        self.groups.read(self.group, |_| ()).await?;
        let look = self.groups.look(self.group, move |local| {
            let mut homes = local.standing.view.membership.homes.values();
            homes.any(|home| home.node == name::node(member))
        });
        Ok(look.await? == Some(true))
    }

    fn note(&self, member: MemberId) {
        let mut going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        going.insert(member, Instant::now());
    }

    fn gone_soon(&self) -> BTreeSet<MemberId> {
        let mut going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        going.retain(|_, at| at.elapsed() < GOING);
        going.keys().copied().collect()
    }

    fn sightings(&self) -> MutexGuard<'_, Sightings> {
        // Each change leaves it whole, so a panic elsewhere left no half of one.
        self.sightings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn next(
    standing: &Standing,
    candidates: &[Candidate],
    places: &Places,
    group: GroupId,
) -> Option<Step> {
    let wanted = Wanted {
        group: group.0,
        voters_max: VOTERS_MAX,
    };
    let Advice(advice) = voters::advise(&wanted, candidates, &copies(standing, places))?;
    let mine = standing.view.replica;
    let changes = changes(&advice, standing, places);
    if changes.contains(&Change::Remove(mine)) {
        let current = standing.view.current.iter();
        let mut others = current.filter(|id| **id != mine && standing.view.voters.contains(id));
        if let Some(other) = others.next() {
            return Some(Step::HandOver(*other));
        }
    }
    Some(Step::Change(changes))
}

fn copies(standing: &Standing, places: &Places) -> Vec<Copy> {
    let view = &standing.view;
    let copy = |(id, home): (&ReplicaId, &Home)| {
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
        Some(Copy {
            member,
            votes: view.voters.contains(id),
            condition,
            leads: *id == view.replica,
        })
    };
    view.membership.homes.iter().filter_map(copy).collect()
}

/// The advice in the group's own words.
fn changes(advice: &[voters::Change], standing: &Standing, places: &Places) -> Vec<Change> {
    let membership = &standing.view.membership;
    let replica = |member: MemberId| {
        let mut homes = membership.homes.iter();
        let found = homes.find(|(_, home)| home.node == name::node(member));
        found.map(|(id, _)| *id)
    };
    let mut fresh = (membership.next.0..).map(ReplicaId);
    let change = |change: &voters::Change| match *change {
        voters::Change::Add(member) => {
            let home = Home {
                node: name::node(member),
                store: places.get(&member)?.store?,
            };
            Some(Change::Add(fresh.next()?, home))
        }
        voters::Change::Promote(member) => replica(member).map(Change::Promote),
        voters::Change::Demote(member) => replica(member).map(Change::Demote),
        voters::Change::Remove(member) => replica(member).map(Change::Remove),
    };
    advice.iter().filter_map(change).collect()
}
