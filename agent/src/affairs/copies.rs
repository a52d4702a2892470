//! Who has copies of the group that settles the cluster's affairs: the leader sees to it, one
//! joint change after the other.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use muster_consensus::{Change, Home, ReplicaId, StoreId};
use muster_control::cluster::voters::{self, Advice, Candidate, Condition, Copy, Wanted};
use muster_control::cluster::{ClusterState, Sight};
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use tokio::time::{Instant, sleep};

use super::Affairs;
use super::question::Rejection;
use crate::groups::message::Standing;
use crate::groups::name;

/// Voters of the `cluster` group, at most.
const VOTERS_MAX: usize = 5;
/// So long somebody who goes is waited for until it has given its copy away.
const GIVE_UP_LIMIT: Duration = Duration::from_secs(6);
/// Pause between two looks at that.
const GIVE_UP_PAUSE: Duration = Duration::from_millis(100);
/// So long somebody who said that it goes gets no copy again.
pub(super) const GOING: Duration = Duration::from_secs(30);

/// Since when members are seen as they are.
#[derive(Debug, Default)]
pub(super) struct Sightings(BTreeMap<MemberId, (Reach, Instant)>);

impl Sightings {
    fn update(&mut self, sights: &BTreeMap<MemberId, Sight>) {
        self.0.retain(|member, _| sights.contains_key(member));
        for (member, sight) in sights {
            let now = (sight.reach, Instant::now());
            let seen = self.0.entry(*member).or_insert(now);
            if seen.0 != sight.reach {
                *seen = now;
            }
        }
    }

    fn of(&self, member: MemberId) -> (Reach, u64) {
        let seen = self.0.get(&member);
        seen.map_or((Reach::Unreachable, 0), |(reach, since)| {
            let ms = since.elapsed().as_millis();
            (*reach, u64::try_from(ms).unwrap_or(u64::MAX))
        })
    }
}

/// What is to be done next.
enum Step {
    Change(Vec<Change>),
    /// The leader itself goes: somebody else leads first.
    HandOver(ReplicaId),
}

impl Affairs {
    /// Changes who has copies, if a change is due and this node leads.
    pub(crate) async fn see_to_copies(&self) {
        let (sights, _) = self.members.sights().await;
        let stores = self.members.stores().await;
        let nodes = self.seen(&sights);
        let group = self.group.id();
        let look = self.group.look(move |state, standing| {
            let leads = standing.view.leads;
            leads.then(|| next(state, &standing, &nodes, &stores, group.0))
        });
        let Ok(Some(Some(Some(step)))) = look.await else {
            return;
        };
        let groups = self.group.groups();
        let done = match step {
            Step::Change(changes) => {
                tracing::info!(?changes, "copies of the cluster's log change");
                groups.change(group, &changes).await
            }
            Step::HandOver(to) => groups.transfer(group, to).await,
        };
        if let Err(error) = done {
            tracing::debug!(%error, "copies of the cluster's log do not change yet");
        }
    }

    /// Who can be reached since when, but for those that are about to go.
    fn seen(&self, sights: &BTreeMap<MemberId, Sight>) -> BTreeMap<MemberId, (Reach, u64)> {
        let mut sightings = self
            .sightings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        sightings.update(sights);
        let going = self.going();
        let members = sights.keys().filter(|member| !going.contains(member));
        members
            .map(|member| (*member, sightings.of(*member)))
            .collect()
    }

    /// A leader that was one before starts to watch anew.
    pub(crate) fn begin_to_watch(&self) {
        let mut sightings = self
            .sightings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *sightings = Sightings::default();
    }

    /// Takes a member's copy away, for it is about to go.
    pub(super) async fn give_up(&self, member: MemberId) -> Result<(), Rejection> {
        let until = Instant::now() + GIVE_UP_LIMIT;
        loop {
            self.goes(member);
            // Who leads no more names who does.
            self.group.read(|_| ()).await?;
            let look = self.group.look(move |_, standing| {
                let mut homes = standing.view.membership.homes.values();
                homes.any(|home| home.node == name::node(member))
            });
            if look.await? != Some(true) {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Rejection::Unavailable(
                    "its copy of the cluster's log has not found another place yet; try again"
                        .to_owned(),
                ));
            }
            self.see_to_copies().await;
            sleep(GIVE_UP_PAUSE).await;
        }
    }

    fn goes(&self, member: MemberId) {
        let mut going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        going.insert(member, Instant::now());
    }
}

fn next(
    state: &ClusterState,
    standing: &Standing,
    nodes: &BTreeMap<MemberId, (Reach, u64)>,
    stores: &BTreeMap<MemberId, StoreId>,
    group: u64,
) -> Option<Step> {
    let candidates: Vec<_> = nodes
        .iter()
        .filter_map(|(id, (reach, since_ms))| {
            let member = state.admitted(*id)?;
            Some(Candidate {
                member: *id,
                rack: member.rack.clone(),
                reach: *reach,
                since_ms: *since_ms,
                votes: member.votes,
                has_store: stores.contains_key(id),
            })
        })
        .collect();
    let wanted = Wanted {
        group,
        voters_max: VOTERS_MAX,
    };
    let Advice(advice) = voters::advise(&wanted, &candidates, &copies(standing, stores))?;
    let mine = standing.view.replica;
    let changes = changes(&advice, standing, stores);
    if changes.contains(&Change::Remove(mine)) {
        let current = standing.view.current.iter();
        let mut others = current.filter(|id| **id != mine && standing.view.voters.contains(id));
        if let Some(other) = others.next() {
            return Some(Step::HandOver(*other));
        }
    }
    Some(Step::Change(changes))
}

fn copies(standing: &Standing, stores: &BTreeMap<MemberId, StoreId>) -> Vec<Copy> {
    let view = &standing.view;
    let copy = |(id, home): (&ReplicaId, &Home)| {
        let member = name::member(home.node)?;
        let other_store = stores.get(&member).is_some_and(|now| *now != home.store);
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
fn changes(
    advice: &[voters::Change],
    standing: &Standing,
    stores: &BTreeMap<MemberId, StoreId>,
) -> Vec<Change> {
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
                store: *stores.get(&member)?,
            };
            Some(Change::Add(fresh.next()?, home))
        }
        voters::Change::Promote(member) => replica(member).map(Change::Promote),
        voters::Change::Demote(member) => replica(member).map(Change::Demote),
        voters::Change::Remove(member) => replica(member).map(Change::Remove),
    };
    advice.iter().filter_map(change).collect()
}

impl Affairs {
    /// Members whose copies of the group vote, as far as it is known here.
    pub(super) async fn voters(&self) -> Result<Vec<MemberId>, Rejection> {
        let look = self.group.look(|_, standing| {
            let view = standing.view;
            let homes = view.membership.homes.iter();
            let voters = homes.filter(|(id, _)| view.voters.contains(id));
            voters
                .filter_map(|(_, home)| name::member(home.node))
                .collect()
        });
        let found = look.await?;
        found.ok_or_else(|| Rejection::Unavailable("no copy of the group is here".to_owned()))
    }

    /// Members that have copies of the group, as far as it is known here.
    pub(super) async fn copies(&self) -> Result<Vec<MemberId>, Rejection> {
        let look = self.group.look(|_, standing| {
            let homes = standing.view.membership.homes.values();
            homes.filter_map(|home| name::member(home.node)).collect()
        });
        Ok(look.await?.unwrap_or_default())
    }
}
