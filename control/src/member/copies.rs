//! Which members have copies of the groups that are led here.

use std::collections::{BTreeMap, BTreeSet};

use muster_consensus::GroupId;
use muster_gossip::member::MemberId;
use muster_model::time::Time;

use super::MemberCore;
use super::input::{MemberEvent, MemberOutput};
use crate::groups::copies::{CopyStep, MemberPlaces, ReachHistory, next, voters_of};
use crate::groups::{GroupHostInput, GroupStanding, GroupState};

/// How long a member that said that it goes gets no copy again, ms.
const GOING_MS: u64 = 30_000;

/// What the leader of a group knows of the places for its copies.
#[derive(Debug, Default)]
pub(super) struct CopyWatch {
    /// The term in which it began to watch.
    term: u64,
    sightings: ReachHistory,
    /// Members that are about to go, and when they said so last: they give their copies away first.
    going: BTreeMap<MemberId, Time>,
}

impl CopyWatch {
    /// Members that said lately that they go.
    fn gone_soon(&mut self, now: Time) -> BTreeSet<MemberId> {
        self.going
            .retain(|_, at| now.micros_since(*at) < GOING_MS * 1_000);
        self.going.keys().copied().collect()
    }
}

impl MemberCore {
    /// A member is about to go: see [`Input::Going`](super::GroupHostInput::Going).
    pub(super) fn going(&mut self, group: GroupId, member: MemberId) {
        let Some(term) = self.group_host.led().get(&group).copied() else {
            return;
        };
        let now = self.now.steady;
        watch(&mut self.watches, group, term)
            .going
            .insert(member, now);
        self.see_to(group, term);
    }

    /// Takes the next step of every group that is led here. A leader that was one before starts to watch anew.
    pub(super) fn see_to_copies(&mut self) {
        let led = self.group_host.led().clone();
        self.watches.retain(|group, _| led.contains_key(group));
        for (group, term) in led {
            self.see_to(group, term);
        }
    }

    /// Changes the copies of a group that is led here, if a change is due.
    fn see_to(&mut self, group: GroupId, term: u64) {
        let Some(standing) = self.group_host.standing(group) else {
            return;
        };
        let Some(places) = self.places(group, &standing) else {
            return;
        };
        let now = self.now.steady;
        let watch = watch(&mut self.watches, group, term);
        watch.sightings.update(now, &places);
        let going = watch.gone_soon(now);
        let candidates = watch.sightings.candidates(now, &places, &going);
        match next(&standing, &candidates, &places, group) {
            Some(CopyStep::Change(changes)) => {
                let event = MemberEvent::CopiesChange {
                    group,
                    changes: changes.clone(),
                };
                self.out.push(MemberOutput::Event(event));
                // What is refused is found due again.
                let reply = Box::new(|_| ());
                self.give(GroupHostInput::Change {
                    group,
                    changes,
                    reply,
                });
            }
            Some(CopyStep::HandOver(to)) => self.give(GroupHostInput::Transfer { group, to }),
            None => {}
        }
    }

    /// Where copies of a group may lie; none while that cannot be judged here.
    fn places(&self, group: GroupId, standing: &GroupStanding) -> Option<MemberPlaces> {
        let seen = self.seen.as_ref()?;
        match self.group_host.host().machine(group)? {
            GroupState::Vc(_) => {
                let served = self.cluster_map.as_ref()?;
                let is_served = served.vcs.iter().any(|creation| creation.group == group.0);
                is_served.then(|| seen.places(&self.drained()))
            }
            GroupState::Cluster(state) => {
                // What the copy does not know yet that it went on from says who is a member.
                let generation = state.cluster().map_or(0, |cluster| cluster.generation);
                let has_begun = generation == 0 || generation >= seen.lineage.generation;
                has_begun.then(|| seen.places_of(state, &voters_of(&standing.view)))
            }
        }
    }

    /// The names of the members that admins want empty.
    fn drained(&self) -> BTreeSet<String> {
        let closed = self
            .cluster_map
            .iter()
            .flat_map(|cluster_map| &cluster_map.closed);
        let drained = closed.filter(|(_, word)| word.is_draining());
        drained.map(|(node, _)| node.to_string()).collect()
    }
}

/// What is known of the places for a group's copies since this term.
fn watch(watches: &mut BTreeMap<GroupId, CopyWatch>, group: GroupId, term: u64) -> &mut CopyWatch {
    let watch = watches.entry(group).or_default();
    if watch.term != term {
        *watch = CopyWatch {
            term,
            ..CopyWatch::default()
        };
    }
    watch
}
